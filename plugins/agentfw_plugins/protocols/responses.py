"""OpenAI's responses, with the whole conversation in each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .bodies import BadRequest, Body
from .chat_completions import ChatCompletions
from .parts import choice_of, message_of, plain, reasoning_of, rest_of
from .protocol import event
from .responses_stream import Events, function_call, message_item, reasoning_item, response

__all__ = ["Responses"]

_ROLES = ("system", "developer", "user", "assistant")
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "previous_response_id": ("",),
    "conversation": ("",),
    "background": (False,),
    "prompt": ({},),
    "truncation": ("disabled",),
    "max_tool_calls": (),
    "context_management": (),
    "moderation": (),
}
"""Values that change nothing, of fields that chat completions have no counterpart of."""
_NAMES = {
    "input": "",
    "instructions": "",
    "tools": "",
    "tool_choice": "",
    "text": "",
    "reasoning": "",
    "include": "",
    "max_output_tokens": "max_completion_tokens",
    **dict.fromkeys(_NEUTRAL, ""),
}


class Responses:
    """The format of /v1/responses."""

    path = "responses"
    required: Mapping[str, Any] = {}
    names: Mapping[str, str] = {
        "messages": "input",
        "response_format": "text.format",
        "verbosity": "text.verbosity",
        "reasoning_effort": "reasoning.effort",
        "max_completion_tokens": "max_output_tokens",
    }

    def chat(self, body: Body) -> Body:
        body.refuse(_NEUTRAL)
        values = rest_of(body, _NAMES)
        instructions = body.text("instructions", "")
        messages: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
        if isinstance(body.values.get("input"), str):
            messages.append({"role": "user", "content": body.text("input")})
        else:
            messages += _conversation(body.listed("input"))
        values["messages"] = messages
        if tools := [_tool(tool) for tool in body.listed("tools")]:
            values["tools"] = tools
        if "tool_choice" in body:
            values["tool_choice"] = _choice(body)
        if "text" in body:
            text = body.inner("text")
            text.refuse_others(("format", "verbosity"))
            if "format" in text and (form := _format(text.inner("format"))):
                values["response_format"] = form
            if "verbosity" in text:
                values["verbosity"] = text.values["verbosity"]
        if "reasoning" in body:
            reasoning = body.inner("reasoning")
            reasoning.refuse_others(("effort",))
            if "effort" in reasoning:
                values["reasoning_effort"] = reasoning.values["effort"]
        for place, name in enumerate(body.strings("include", 20)):
            if name != "message.output_text.logprobs":
                raise body.unsupported(f"include[{place}]")
            values["logprobs"] = True
        if values.get("top_logprobs"):
            values["logprobs"] = True
        return Body(values)

    def whole(self, reply: Mapping[str, Any], body: Body) -> dict[str, Any]:
        message, choice = message_of(reply), choice_of(reply)
        name = str(reply.get("id", "")).removeprefix("chatcmpl-")
        items: list[dict[str, Any]] = []
        if reasoning := reasoning_of(message):
            items.append(reasoning_item(f"rs_{name}", reasoning))
        calls = message.get("tool_calls") or []
        text, refusal = message.get("content") or "", message.get("refusal") or ""
        if text or refusal or not calls:
            logprobs = (choice.get("logprobs") or {}).get("content") or []
            items.append(message_item(f"msg_{name}", text, refusal, logprobs))
        for index, call in enumerate(calls):
            function = call.get("function") or {}
            items.append(
                function_call(f"fc_{name}_{index}", call.get("id"), function.get("name"), function.get("arguments"))
            )
        return response(body, reply, items, choice.get("finish_reason"))

    def stream(self, body: Body) -> Events:
        return Events(body)

    def error(self, problem: BadRequest) -> dict[str, Any]:
        return ChatCompletions().error(problem)

    def failed(self, problem: BadRequest) -> bytes:
        data = {"code": problem.code or None, "message": problem.message, "param": problem.field or None}
        return event({"type": "error", **data, "sequence_number": 0}, "error")


def _conversation(items: list[Body]) -> list[dict[str, Any]]:
    """The messages of a list of items. Calls and thoughts belong to the answer that they were made in."""
    found: list[dict[str, Any]] = []
    thoughts = ""

    def answer() -> dict[str, Any]:
        """The answer that the next item belongs to."""
        nonlocal thoughts
        if thoughts or not found or found[-1]["role"] != "assistant":
            found.append({"role": "assistant", "content": None})
            if thoughts:
                found[-1]["reasoning_content"], thoughts = thoughts, ""
        return found[-1]

    for item in items:
        kind = item.text("type", "message")
        if kind == "message":
            role = item.text("role")
            if role not in _ROLES:
                raise item.wrong("role", f"must be {', '.join(_ROLES)}")
            content = item.values.get("content")
            given = content if isinstance(content, str) else plain([_part(part) for part in item.listed("content")])
            if role == "assistant" and thoughts:
                answer()["content"] = given
            else:
                found.append({"role": role, "content": given})
        elif kind == "function_call":
            function = {"name": item.text("name"), "arguments": item.text("arguments", "")}
            call = {"id": item.text("call_id"), "type": "function", "function": function}
            answer().setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            output = item.values.get("output")
            given = output if isinstance(output, str) else plain([_part(part) for part in item.listed("output")])
            found.append({"role": "tool", "tool_call_id": item.text("call_id"), "content": given})
        elif kind == "reasoning":
            if "encrypted_content" in item:
                raise item.unsupported("encrypted_content")
            said = [*item.listed("content"), *item.listed("summary")]
            thoughts += "\n".join(part.text("text", "") for part in said)
        else:
            raise item.unsupported("type", f'"{kind[:50]}" is not supported')
    return found


def _part(part: Body) -> dict[str, Any]:
    kind = part.text("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "refusal", "refusal": part.text("refusal")}
    if kind == "input_image" and "image_url" in part:
        detail = {"detail": part.values["detail"]} if "detail" in part else {}
        return {"type": "image_url", "image_url": {"url": part.text("image_url"), **detail}}
    if kind == "input_file" and "file_url" not in part:
        names = ("file_id", "file_data", "filename")
        return {"type": "file", "file": {name: part.values[name] for name in names if name in part}}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.values.get("input_audio")}
    raise part.unsupported("type", f'"{kind[:50]}" is not supported here')


def _tool(tool: Body) -> dict[str, Any]:
    if tool.text("type") != "function":
        raise tool.unsupported("type", "must be function: other tools are not supported")
    tool.refuse({"defer_loading": (False,)})
    return {"type": "function", "function": {key: value for key, value in tool.values.items() if key != "type"}}


def _choice(body: Body) -> Any:
    choice = body.values["tool_choice"]
    if not isinstance(choice, dict):
        return choice
    kind = choice.get("type")
    if kind == "function":
        return {"type": "function", "function": {"name": body.inner("tool_choice").text("name")}}
    if kind == "allowed_tools":
        tools = [_tool_named(tool) for tool in body.inner("tool_choice").listed("tools")]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools}}
    raise body.unsupported("tool_choice")


def _tool_named(tool: Body) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.text("name")}}


def _format(form: Body) -> dict[str, Any] | None:
    kind = form.text("type")
    if kind == "text":
        return None
    if kind == "json_schema":
        schema = {key: value for key, value in form.values.items() if key != "type"}
        return {"type": "json_schema", "json_schema": schema}
    return dict(form.values)
