"""Anthropic's messages: text and tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentfw import Message
from agentfw.session import Reply

from ..bodies import Asked, BadRequest, Body, chosen_actions
from .interface import About, arguments, counts, event

__all__ = ["Messages"]

_FINISH = {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use"}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Messages:
    """The format of /v1/messages."""

    def read(self, body: Body) -> Asked:
        if "max_tokens" not in body:
            raise body.wrong("max_tokens", "is required")
        if "messages" not in body:
            raise body.wrong("messages", "is required")
        system = body.texts("system", ("text",))
        messages = [Message("system", system)] if system else []
        for message in body.listed("messages"):
            messages += _messages(message)
        choice: object = None
        if "tool_choice" in body:
            chosen = body.inner("tool_choice")
            kind = chosen.text("type")
            choice = chosen.name("name") if kind == "tool" else "none" if kind == "none" else None
        user = body.inner("metadata").name("user_id", "") if "metadata" in body else ""
        return Asked(
            model=body.name("model"),
            messages=tuple(messages),
            actions=chosen_actions([tool.action(schema="input_schema") for tool in body.listed("tools")], choice, body),
            sampling=body.sampling("max_tokens"),
            stop=body.strings("stop_sequences", 16),
            stream=body.flag("stream"),
            user=user,
        )

    def whole(self, reply: Reply, asked: Asked, about: About) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
            for call in reply.calls
        ]
        return {**_head(about), "content": content, "stop_reason": _FINISH[reply.finish], "usage": _usage(reply)}

    def stream(self, asked: Asked, about: About) -> _Events:
        return _Events(about)

    def error(self, problem: BadRequest) -> dict[str, Any]:
        kind = _KINDS.get(problem.status, "api_error" if problem.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": problem.message}}

    def failed(self, problem: BadRequest) -> bytes:
        return event(self.error(problem), "error")


class _Events:
    """A streamed message: one block of text, and one for each call."""

    def __init__(self, about: About) -> None:
        self._about, self._blocks, self._open = about, 0, False

    def start(self) -> Iterator[bytes]:
        usage = {"input_tokens": 0, "output_tokens": 0}
        message = {**_head(self._about), "content": [], "stop_reason": None, "usage": usage}
        yield _event("message_start", message=message)

    def text(self, piece: str) -> Iterator[bytes]:
        if not self._open:
            self._open = True
            yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})

    def end(self, reply: Reply, rest: str) -> Iterator[bytes]:
        if rest:
            yield from self.text(rest)
        if self._open:
            yield _event("content_block_stop", index=0)
        for index, call in enumerate(reply.calls, start=int(self._open)):
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            yield _event("content_block_start", index=index, content_block=block)
            delta = {"type": "input_json_delta", "partial_json": arguments(call)}
            yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        reason = {"stop_reason": _FINISH[reply.finish], "stop_sequence": None}
        yield _event("message_delta", delta=reason, usage=_usage(reply))
        yield _event("message_stop")


def _event(name: str, /, **data: Any) -> bytes:
    return event({"type": name, **data}, name)


def _messages(body: Body) -> list[Message]:
    """The messages that one message stands for: results of tools are messages of their own."""
    role = body.text("role")
    if role not in ("user", "assistant", "system"):
        raise body.wrong("role", "must be user or assistant")
    if not isinstance(body.values.get("content"), list):
        return [Message(role, body.text("content"))]
    found, texts, calls = list[Message](), list[str](), []
    for part in body.listed("content"):
        kind = part.text("type")
        if kind == "text":
            texts.append(part.text("text"))
        elif kind == "tool_use" and role == "assistant":
            calls.append(part.call(part.name("id"), arguments="input"))
        elif kind == "tool_result" and role == "user":
            found.append(Message("tool", part.texts("content", ("text",)), answers=part.name("tool_use_id")))
        elif kind not in ("thinking", "redacted_thinking"):
            raise part.wrong("type", f'"{kind[:50]}" is not supported: this server reads text and tools')
    if texts or calls or not found:
        found.append(Message(role, "".join(texts), tuple(calls)))
    return found


def _head(about: About) -> dict[str, Any]:
    return {
        "id": f"msg_{about.id}",
        "type": "message",
        "role": "assistant",
        "model": about.model,
        "stop_sequence": None,
    }


def _usage(reply: Reply) -> dict[str, int]:
    prompt, cached, sampled = counts(reply)
    return {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": sampled}
