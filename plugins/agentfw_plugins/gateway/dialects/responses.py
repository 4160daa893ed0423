"""OpenAI's responses: text and function tools, with the whole conversation in each request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentfw import Message
from agentfw.episode import Call
from agentfw.session import Reply

from ..bodies import Asked, BadRequest, Body, chosen_actions
from .chat_completions import ChatCompletions
from .interface import About, arguments, counts, event

__all__ = ["Responses"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_PARTS = ("input_text", "output_text", "text", "refusal")


class Responses:
    """The format of /v1/responses."""

    def read(self, body: Body) -> Asked:
        body.refuse(previous_response_id="", conversation="", background=False, prompt={})
        if "text" in body and "format" in body.inner("text"):
            kind = body.inner("text").inner("format").text("type")
            if kind != "text":
                raise BadRequest("text.format is not supported; offer a tool with that schema", field="text.format")
        instructions = body.text("instructions", "")
        messages = [Message("system", instructions)] if instructions else []
        if isinstance(body.values.get("input"), str):
            messages.append(Message("user", body.text("input")))
        else:
            messages += _conversation(body.listed("input"))
        actions = []
        for tool in body.listed("tools"):
            if tool.text("type") != "function":
                raise tool.wrong("type", "must be function")
            actions.append(tool.action())
        choice = body.values.get("tool_choice")
        if isinstance(choice, dict):
            choice = body.inner("tool_choice").name("name")
        elif choice in ("auto", "required"):
            choice = None
        return Asked(
            model=body.name("model"),
            messages=tuple(messages),
            actions=chosen_actions(actions, choice, body),
            sampling=body.sampling("max_output_tokens"),
            stream=body.flag("stream"),
            user=body.name("user", ""),
        )

    def whole(self, reply: Reply, asked: Asked, about: About) -> dict[str, Any]:
        return _response(about, "completed", _items(reply, about), reply)

    def stream(self, asked: Asked, about: About) -> _Events:
        return _Events(about)

    def error(self, problem: BadRequest) -> dict[str, Any]:
        return ChatCompletions().error(problem)

    def failed(self, problem: BadRequest) -> bytes:
        data = {"type": "error", "code": problem.code or None, "message": problem.message, "param": None}
        return event({**data, "sequence_number": 0}, "error")


class _Events:
    """A streamed response: an item with the text, and one for each call."""

    def __init__(self, about: About) -> None:
        self._about, self._number, self._said = about, 0, ""
        self._item = f"msg_{about.id}"

    def start(self) -> Iterator[bytes]:
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=_response(self._about, "in_progress", []))

    def text(self, piece: str) -> Iterator[bytes]:
        where = {"item_id": self._item, "output_index": 0, "content_index": 0}
        if not self._said:
            item = _message(self._item, "", "in_progress")
            yield self._event("response.output_item.added", output_index=0, item={**item, "content": []})
            yield self._event("response.content_part.added", **where, part=_part(""))
        self._said += piece
        yield self._event("response.output_text.delta", **where, delta=piece, logprobs=[])

    def end(self, reply: Reply, rest: str) -> Iterator[bytes]:
        if rest:
            yield from self.text(rest)
        items = _items(reply, self._about)
        for index, item in enumerate(items):
            if item["type"] == "message":
                where = {"item_id": self._item, "output_index": 0, "content_index": 0}
                yield self._event("response.output_text.done", **where, text=reply.text, logprobs=[])
                yield self._event("response.content_part.done", **where, part=_part(reply.text))
            else:
                begun = {**item, "arguments": "", "status": "in_progress"}
                yield self._event("response.output_item.added", output_index=index, item=begun)
                where = {"item_id": item["id"], "output_index": index}
                yield self._event("response.function_call_arguments.delta", **where, delta=item["arguments"])
                done = {"name": item["name"], "arguments": item["arguments"]}
                yield self._event("response.function_call_arguments.done", **where, **done)
            yield self._event("response.output_item.done", output_index=index, item=item)
        yield self._event("response.completed", response=_response(self._about, "completed", items, reply))

    def _event(self, name: str, /, **data: Any) -> bytes:
        self._number += 1
        return event({"type": name, "sequence_number": self._number - 1, **data}, name)


def _conversation(items: list[Body]) -> list[Message]:
    """The messages of a list of items. Calls belong to the answer that they were made in."""
    found: list[Message] = []
    for item in items:
        kind = item.text("type", "message")
        if kind == "message":
            role = _ROLES.get(item.text("role"))
            if role is None:
                raise item.wrong("role", f"must be {', '.join(_ROLES)}")
            found.append(Message(role, item.texts("content", _PARTS)))
        elif kind == "function_call":
            call: Call = item.call(item.name("call_id"))
            before = found.pop() if found and found[-1].role == "assistant" else Message("assistant", "")
            found.append(Message("assistant", before.content, (*before.calls, call)))
        elif kind == "function_call_output":
            found.append(Message("tool", item.texts("output", _PARTS), answers=item.name("call_id")))
        elif kind != "reasoning":
            raise item.wrong("type", f'"{kind[:50]}" is not supported: this server reads messages and functions')
    return found


def _items(reply: Reply, about: About) -> list[dict[str, Any]]:
    items = [_message(f"msg_{about.id}", reply.text, "completed")] if reply.text or not reply.calls else []
    for index, call in enumerate(reply.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{about.id}_{index}",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments(call),
                "status": "completed",
            }
        )
    return items


def _message(name: str, text: str, status: str) -> dict[str, Any]:
    return {"type": "message", "id": name, "role": "assistant", "status": status, "content": [_part(text)]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _response(about: About, status: str, items: list[dict[str, Any]], reply: Reply | None = None) -> dict[str, Any]:
    cut = reply is not None and reply.finish == "length"
    response: dict[str, Any] = {
        "id": f"resp_{about.id}",
        "object": "response",
        "created_at": about.created,
        "model": about.model,
        "status": "incomplete" if cut else status,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if reply is not None:
        prompt, cached, sampled = counts(reply)
        response["usage"] = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": sampled,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + sampled,
        }
    return response
