"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .bodies import BadRequest, Body
from .parts import choice_of, deltas, message_of, plain, reasoning_of, rest_of
from .protocol import event, problem_of

__all__ = ["Messages"]

_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "container": (),
    "context_management": (),
    "mcp_servers": ([],),
    "thinking": ({"type": "disabled"},),
    "inference_geo": (),
}
"""Values that change nothing, of fields that chat completions have no counterpart of."""
_NAMES = {
    **dict.fromkeys(_NEUTRAL, ""),
    **dict.fromkeys(("system", "messages", "tools", "tool_choice", "metadata", "output_config", "output_format"), ""),
    "stop_sequences": "stop",
    "service_tier": "",
    "cache_control": "",
}


class Messages:
    """The format of /v1/messages."""

    path = "messages"
    required: Mapping[str, Any] = {"max_tokens": 1}
    names: Mapping[str, str] = {
        "stop": "stop_sequences",
        "user": "metadata.user_id",
        "response_format": "output_config.format",
        "reasoning_effort": "output_config.effort",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    }

    def chat(self, body: Body) -> Body:
        body.refuse(_NEUTRAL)
        for key in ("max_tokens", "messages"):
            if key not in body:
                raise body.wrong(key, "is required")
        values = rest_of(body, _NAMES)
        system = body.values.get("system")
        given = system if isinstance(system, str) else plain([_part(part) for part in body.listed("system")])
        messages = [{"role": "system", "content": given}] if given else []
        for message in body.listed("messages"):
            messages += _messages(message)
        values["messages"] = messages
        if tools := [_tool(tool) for tool in body.listed("tools")]:
            values["tools"] = tools
        if "tool_choice" in body:
            values |= _choice(body.inner("tool_choice"))
        if "metadata" in body:
            metadata = body.inner("metadata")
            metadata.refuse_others(("user_id",))
            if user := metadata.text("user_id", ""):
                values["user"] = user
        if "service_tier" in body:
            values["service_tier"] = {"standard_only": "default"}.get(body.text("service_tier"), "auto")
        if "output_config" in body:
            config = body.inner("output_config")
            config.refuse_others(("format", "effort"))
            if "effort" in config:
                values["reasoning_effort"] = config.values["effort"]
            if "format" in config:
                values["response_format"] = _format(config.inner("format"))
        if "output_format" in body:
            values["response_format"] = _format(body.inner("output_format"))
        if values.get("stream") is True:
            values["stream_options"] = {"include_usage": True}  # its events always have the token counts
        return Body(values)

    def whole(self, reply: Mapping[str, Any], body: Body) -> dict[str, Any]:
        message, content = message_of(reply), list[dict[str, Any]]()
        if reasoning := reasoning_of(message):
            content.append({"type": "thinking", "thinking": reasoning, "signature": ""})
        if text := f"{message.get('content') or ''}{message.get('refusal') or ''}":
            content.append({"type": "text", "text": text})
        for call in message.get("tool_calls") or []:
            function = call.get("function") or {}
            block = {"type": "tool_use", "id": call.get("id"), "name": function.get("name")}
            content.append({**block, "input": _input(function.get("arguments"))})
        finish = _finish(choice_of(reply), bool(message.get("refusal")), body)
        return {**_head(reply, body), "content": content, **finish, "usage": _usage(reply.get("usage"))}

    def stream(self, body: Body) -> _Events:
        return _Events(body)

    def error(self, problem: BadRequest) -> dict[str, Any]:
        kind = _KINDS.get(problem.status, "api_error" if problem.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": problem.message}}

    def failed(self, problem: BadRequest) -> bytes:
        return event(self.error(problem), "error")


class _Events:
    """A streamed message: a block for the thoughts, one for the text, and one for each call."""

    def __init__(self, body: Body) -> None:
        self._body, self._blocks = body, 0
        self._open: Any = None
        self._begun = self._failed = self._refused = False
        self._finish: dict[str, Any] = {"finish_reason": "stop"}
        self._usage: object = None

    def take(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        if self._failed:
            return
        if "error" in chunk:
            self._failed = True
            yield Messages().failed(problem_of(chunk["error"]))
            return
        if not self._begun:
            self._begun = True
            begun: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(None)}
            yield _event("message_start", message={**_head(chunk, self._body), **begun})
        self._usage = chunk.get("usage") or self._usage
        choice = choice_of(chunk)
        if choice.get("finish_reason"):
            self._finish = dict(choice)
        delta = choice.get("delta") if isinstance(choice.get("delta"), dict) else {}
        if thoughts := reasoning_of(delta or {}):
            yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta({"type": "thinking_delta", "thinking": thoughts})
        for kind in ("content", "refusal"):
            if isinstance(text := (delta or {}).get(kind), str) and text:
                self._refused |= kind == "refusal"
                yield from self._block("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": text})
        for index, identity, name, more in deltas(chunk):
            yield from self._block(index, {"type": "tool_use", "id": identity, "name": name, "input": {}})
            if more:
                yield self._delta({"type": "input_json_delta", "partial_json": more})

    def end(self) -> Iterator[bytes]:
        if self._failed:
            return
        yield from self._close()
        finish = _finish(self._finish, self._refused, self._body)
        yield _event("message_delta", delta=finish, usage=_usage(self._usage))
        yield _event("message_stop")

    def _block(self, key: Any, block: dict[str, Any]) -> Iterator[bytes]:
        if key != self._open:
            yield from self._close()
            self._open = key
            yield _event("content_block_start", index=self._blocks, content_block=block)

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            yield _event("content_block_stop", index=self._blocks)
            self._open, self._blocks = None, self._blocks + 1

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._blocks, delta=delta)


def _event(name: str, /, **data: Any) -> bytes:
    return event({"type": name, **data}, name)


def _messages(body: Body) -> list[dict[str, Any]]:
    """The messages that one message stands for: results of tools are messages of their own."""
    role = body.text("role")
    if role not in ("user", "assistant", "system"):
        raise body.wrong("role", "must be user or assistant")
    if not isinstance(body.values.get("content"), list):
        return [{"role": role, "content": body.text("content")}]
    found: list[dict[str, Any]] = []
    parts, calls, thoughts = list[dict[str, Any]](), list[dict[str, Any]](), ""
    for part in body.listed("content"):
        kind = part.text("type")
        if kind == "tool_use" and role == "assistant":
            function = {"name": part.text("name"), "arguments": json.dumps(part.inner("input").values)}
            calls.append({"id": part.text("id"), "type": "function", "function": function})
        elif kind == "tool_result" and role == "user":
            found.append({"role": "tool", "tool_call_id": part.text("tool_use_id"), "content": _result(part)})
        elif kind == "thinking" and role == "assistant":
            thoughts += part.text("thinking", "")
        else:
            parts.append(_part(part))
    if parts or calls or not found:
        message = {"role": role, "content": plain(parts) if parts or not calls else None}
        found.append(message | ({"tool_calls": calls} if calls else {}))
        if thoughts:
            found[-1]["reasoning_content"] = thoughts
    return found


def _result(part: Body) -> Any:
    content = part.values.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else []
    parts += [] if parts else [_part(each) for each in part.listed("content")]
    if part.flag("is_error"):
        parts = [{"type": "text", "text": "error: "}, *parts]
    return plain(parts)


def _part(part: Body) -> dict[str, Any]:
    kind = part.text("type")
    part.refuse({"citations": ({"enabled": False}, [])})
    if kind == "text":
        return {"type": "text", "text": part.text("text")}
    if kind in ("image", "document") and "source" in part:
        source = part.inner("source")
        origin = source.text("type")
        address = f"data:{source.text('media_type', '')};base64,{source.text('data', '')}"
        if kind == "image" and origin in ("base64", "url"):
            return {"type": "image_url", "image_url": {"url": address if origin == "base64" else source.text("url")}}
        if kind == "document" and origin == "base64":
            return {"type": "file", "file": {"filename": part.text("title", "document.pdf"), "file_data": address}}
        if kind == "document" and origin == "text":
            return {"type": "text", "text": source.text("data")}
    raise part.unsupported("type", f'"{kind[:50]}" is not supported here')


def _tool(tool: Body) -> dict[str, Any]:
    if tool.text("type", "custom") != "custom":
        raise tool.unsupported("type", f'"{tool.text("type")[:50]}" is not supported')
    tool.refuse({"defer_loading": (False,)})
    schema = tool.values.get("input_schema")
    function = {"name": tool.text("name"), **({"parameters": schema} if schema is not None else {})}
    function |= {key: tool.values[key] for key in ("description", "strict") if key in tool}
    return {"type": "function", "function": function}


def _choice(chosen: Body) -> dict[str, Any]:
    kind = chosen.text("type")
    found: dict[str, Any] = {"parallel_tool_calls": False} if chosen.flag("disable_parallel_tool_use") else {}
    if kind == "tool":
        return {**found, "tool_choice": {"type": "function", "function": {"name": chosen.text("name")}}}
    if kind not in ("auto", "any", "none"):
        raise chosen.wrong("type", "must be auto, any, tool or none")
    return {**found, "tool_choice": "required" if kind == "any" else kind}


def _format(form: Body) -> dict[str, Any]:
    if form.text("type") != "json_schema":
        raise form.unsupported("type")
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": form.values.get("schema"), "strict": True},
    }


def _input(arguments: object) -> dict[str, Any]:
    """The arguments of a call. Those that are no JSON object are there as they came."""
    try:
        found = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": arguments}


def _finish(choice: Mapping[str, Any], refused: bool, body: Body) -> dict[str, Any]:
    ended = choice.get("stop_reason")  # vLLM says which stop sequence it was
    if isinstance(ended, str) and ended in (body.values.get("stop_sequences") or ()):
        return {"stop_reason": "stop_sequence", "stop_sequence": ended}
    reason = "refusal" if refused else _FINISH.get(str(choice.get("finish_reason")), "end_turn")
    return {"stop_reason": reason, "stop_sequence": None}


def _head(reply: Mapping[str, Any], body: Body) -> dict[str, Any]:
    return {
        "id": f"msg_{str(reply.get('id', '')).removeprefix('chatcmpl-')}",
        "type": "message",
        "role": "assistant",
        "model": reply.get("model") or body.values.get("model"),
        "stop_sequence": None,
    }


def _usage(usage: object) -> dict[str, int]:
    found = usage if isinstance(usage, dict) else {}
    prompt, sampled = found.get("prompt_tokens") or 0, found.get("completion_tokens") or 0
    cached = (found.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return {
        "input_tokens": max(0, prompt - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": sampled,
    }
