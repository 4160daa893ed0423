"""The APIs that a server may speak, as far as a record needs to understand them.

Answers are passed on as they came. For the record, each is also read as the chat completion that says the same.

    wire = WIRES["messages"]
    wire.reply({"content": [{"type": "text", "text": "Hello"}]})      # {"choices": [{"message": {"content": ...
    stream = wire.stream(print)
    stream.take(b'data: {"type": "message_stop"}'), stream.so_far()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .streamed import Malformed, StreamedReply

__all__ = ["WIRES", "Wire", "WireStream"]

Reply = dict[str, Any]
Tell = Callable[[str], object]


class WireStream(Protocol):
    """Reads one streamed answer."""

    @property
    def ended(self) -> bool: ...
    def take(self, line: bytes) -> None: ...
    def so_far(self) -> Reply: ...


class Wire(Protocol):
    """One API."""

    def with_recalled(self, body: Reply, recalled: str) -> Reply:
        """The body, with what was recalled in the system message."""
        ...

    def reply(self, whole: Any) -> Any:
        """A whole answer as a chat completion. Raises Malformed, or leaves that to whoever reads it."""
        ...

    def stream(self, tell: Tell) -> WireStream:
        """Reads a stream. `tell` is called with each new piece of its text."""
        ...

    def error(self, words: str) -> bytes:
        """The event that ends a stream whose server broke off."""
        ...


class _ChatCompletions:
    def with_recalled(self, body: Reply, recalled: str) -> Reply:
        messages = body.get("messages")
        if not isinstance(messages, list):
            return body
        first = messages[0] if messages and isinstance(messages[0], dict) else {}
        if first.get("role") not in ("system", "developer"):
            return {**body, "messages": [{"role": "system", "content": recalled}, *messages]}
        told = {**first, "content": _with_text(first.get("content"), recalled)}
        return {**body, "messages": [told, *messages[1:]]}

    def reply(self, whole: Any) -> Any:
        return whole

    def stream(self, tell: Tell) -> WireStream:
        return StreamedReply(lambda choice: _tell(choice, tell))

    def error(self, words: str) -> bytes:
        return _data({"error": _server_error(words)})


class _Completions(_ChatCompletions):
    """Continuations of a text, which has no system message to put anything into."""

    def with_recalled(self, body: Reply, recalled: str) -> Reply:
        return body

    def reply(self, whole: Any) -> Any:
        if not isinstance(whole, dict) or not isinstance(whole.get("choices"), list):
            raise Malformed("the answer has no choices")
        choices = [_continued(choice, "message") for choice in whole["choices"] if isinstance(choice, dict)]
        return {**whole, "choices": choices}

    def stream(self, tell: Tell) -> WireStream:
        return StreamedReply(lambda choice: _tell(choice, tell), read=lambda choice: _continued(choice, "delta"))


class _Responses:
    def with_recalled(self, body: Reply, recalled: str) -> Reply:
        given = body.get("instructions")
        return {**body, "instructions": f"{given}\n\n{recalled}" if given else recalled}

    def reply(self, whole: Any) -> Any:
        if not isinstance(whole, dict) or not isinstance(whole.get("output"), list):
            raise Malformed("the answer has no output")
        text, calls = "", []
        for item in _objects(whole["output"]):
            if item.get("type") == "message":
                text += "".join(_text(part.get("text")) for part in _objects(item.get("content")))
            elif item.get("type") == "function_call":
                calls.append(_call(item.get("call_id"), item.get("name"), item.get("arguments")))
        usage, cut = _table(whole.get("usage")), _table(whole.get("incomplete_details")).get("reason")
        counts = {"prompt_tokens": usage.get("input_tokens"), "completion_tokens": usage.get("output_tokens")}
        counts["prompt_tokens_details"] = usage.get("input_tokens_details")
        return _completion(whole.get("model"), text, calls, "length" if cut == "max_output_tokens" else "stop", counts)

    def stream(self, tell: Tell) -> WireStream:
        return _ResponseEvents(tell)

    def error(self, words: str) -> bytes:
        error = {"type": "error", "code": "upstream_failed", "message": words, "param": None}
        return b"event: error\n" + _data(error)


class _Messages:
    def with_recalled(self, body: Reply, recalled: str) -> Reply:
        return {**body, "system": _with_text(body.get("system"), recalled)}

    def reply(self, whole: Any) -> Any:
        if not isinstance(whole, dict) or not isinstance(whole.get("content"), list):
            raise Malformed("the answer has no content")
        text, calls = "", []
        for block in _objects(whole["content"]):
            if block.get("type") == "text":
                text += _text(block.get("text"))
            elif block.get("type") == "tool_use":
                calls.append(_call(block.get("id"), block.get("name"), block.get("input")))
        usage = _table(whole.get("usage"))
        read = _number(usage.get("cache_read_input_tokens"))
        prompt = _number(usage.get("input_tokens")) + read + _number(usage.get("cache_creation_input_tokens"))
        counts = {"prompt_tokens": prompt if usage else None, "completion_tokens": usage.get("output_tokens")}
        counts["prompt_tokens_details"] = {"cached_tokens": read}
        cut = whole.get("stop_reason") == "max_tokens"
        return _completion(whole.get("model"), text, calls, "length" if cut else "stop", counts)

    def stream(self, tell: Tell) -> WireStream:
        return _MessageEvents(tell)

    def error(self, words: str) -> bytes:
        return b"event: error\n" + _data({"type": "error", "error": {"type": "api_error", "message": words}})


class _Counted(_ChatCompletions):
    """Requests that are answered without a text: the record has what they took."""

    def with_recalled(self, body: Reply, recalled: str) -> Reply:
        return body

    def reply(self, whole: Any) -> Any:
        if not isinstance(whole, dict):
            raise Malformed("the answer is not a JSON object")
        return _completion(whole.get("model"), "", [], "stop", {"completion_tokens": 0, **_table(whole.get("usage"))})


# -- streams -----------------------------------------------------------------------------------------------------------


class _Events:
    """Reads the events of a stream that names what each is."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self.ended = tell, False

    def take(self, line: bytes) -> None:
        if not line.startswith(b"data:") or not (data := line[5:].strip()) or data == b"[DONE]":
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise Malformed("an event of the stream is not a JSON object")
        if event.get("type") == "error" or "error" in event:
            told = event.get("error") or event
            raise Malformed(f"the server broke off: {str(_table(told).get('message') or told)[:300]}")
        self.hear(event)

    def hear(self, event: Reply) -> None:
        raise NotImplementedError


class _ResponseEvents(_Events):
    def __init__(self, tell: Tell) -> None:
        super().__init__(tell)
        self._text, self._model, self._whole = "", "", dict[str, Any]()

    def hear(self, event: Reply) -> None:
        kind, response = _text(event.get("type")), _table(event.get("response"))
        self._model = _text(response.get("model")) or self._model
        if kind == "response.output_text.delta":
            self._text += _text(event.get("delta"))
            self._tell(_text(event.get("delta")))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole, self.ended = response, True

    def so_far(self) -> Reply:
        if isinstance(self._whole.get("output"), list):
            reply: Reply = _Responses().reply(self._whole)
            return reply
        return _completion(self._model, self._text, [], "stop", {})


class _MessageEvents(_Events):
    def __init__(self, tell: Tell) -> None:
        super().__init__(tell)
        self._message, self._blocks = dict[str, Any](), dict[int, Reply]()

    def hear(self, event: Reply) -> None:
        kind, delta = event.get("type"), _table(event.get("delta"))
        block = self._blocks.setdefault(_number(event.get("index")), {}) if "index" in event else {}
        if kind == "message_start":
            self._message = dict(_table(event.get("message")))
        elif kind == "content_block_start":
            block.update(_table(event.get("content_block")))
        elif kind == "content_block_delta" and "text" in delta:
            block["text"] = _text(block.get("text")) + _text(delta["text"])
            self._tell(_text(delta["text"]))
        elif kind == "content_block_delta" and "partial_json" in delta:
            before = block.get("input")
            block["input"] = (before if isinstance(before, str) else "") + _text(delta["partial_json"])
        elif kind == "message_delta":
            usage = {**_table(self._message.get("usage")), **_table(event.get("usage"))}
            self._message |= {**delta, "usage": usage}
        elif kind == "message_stop":
            self.ended = True

    def so_far(self) -> Reply:
        reply: Reply = _Messages().reply(
            {**self._message, "content": [self._blocks[at] for at in sorted(self._blocks)]}
        )
        return reply


# -- parts -------------------------------------------------------------------------------------------------------------


def _completion(model: object, text: str, calls: list[Reply], finish: str, usage: Mapping[str, Any]) -> Reply:
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {"model": model, "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def _call(identity: object, name: object, arguments: object) -> Reply:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}


def _continued(choice: Mapping[str, Any], key: str) -> Reply:
    """The choice of a completion as that of a chat completion. Its logprobs have another format."""
    return {**choice, key: {"content": _text(choice.get("text"))}, "logprobs": None}


def _tell(choice: Mapping[str, Any], tell: Tell) -> None:
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, dict) and not choice.get("index") else None
    if isinstance(text, str) and text:
        tell(text)


def _with_text(content: object, recalled: str) -> object:
    """The text or the parts of a system message, with what was recalled."""
    if isinstance(content, list):
        return [*content, {"type": "text", "text": recalled}]
    return f"{content}\n\n{recalled}" if content else recalled


def _server_error(words: str) -> Reply:
    return {"message": words, "type": "server_error", "param": None, "code": "upstream_failed"}


def _data(event: Reply) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _objects(value: object) -> list[Reply]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _table(value: object) -> Reply:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


WIRES: Mapping[str, Wire] = {
    "chat/completions": _ChatCompletions(),
    "completions": _Completions(),
    "responses": _Responses(),
    "messages": _Messages(),
    "messages/count_tokens": _Counted(),
    "embeddings": _Counted(),
}
"""By their paths below `/v1/`."""
