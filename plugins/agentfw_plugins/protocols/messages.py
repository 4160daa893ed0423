"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from . import completion
from .completion import Json, event, number, objects, table, text
from .protocol import BadRequest, Body, Malformed, Protocol, StreamReader, StreamWriter, functions_of, turns_of

_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_FINISHED = {name: own for own, name in _FINISH.items()} | {"model_context_window_exceeded": "length"}
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
    **dict.fromkeys(("container", "context_management", "inference_geo"), ()),
    "mcp_servers": ([],),
    "thinking": ({"type": "disabled"},),
}
"""Values that change nothing, of fields that chat completions have no counterpart of."""
_NAMES = {
    **dict.fromkeys((*_NEUTRAL, "system", "messages", "tools", "tool_choice", "metadata", "output_config"), ""),
    **dict.fromkeys(("output_format", "service_tier", "cache_control"), ""),
    "stop_sequences": "stop",
}
_SAME = ("model", "stream", "temperature", "top_p", "max_tokens")  # fields that are the same in chat completions
_WRITTEN = {"messages", "tools", "tool_choice", "response_format", "max_completion_tokens", "stop", "user"}
_WRITTEN |= {"parallel_tool_calls", "reasoning_effort"}
_MOST_TOKENS = 4096  # the limit of a request that has none, as this protocol must have one


class _EventReader(StreamReader):
    def __init__(self) -> None:
        self._calls, self._usage = dict[int, int](), Json()

    def read(self, found: Json) -> Iterator[Json]:
        kind, delta, place = found.get("type"), table(found.get("delta")), number(found.get("index"))
        block = table(found.get("content_block"))
        if kind == "message_start":
            message = table(found.get("message"))
            self._usage = table(message.get("usage"))
            yield {**_top_of(message), "choices": []}
        elif kind == "content_block_start" and block.get("type") == "tool_use":
            index = self._calls.setdefault(place, len(self._calls))
            # An input that isn't empty has come whole.
            arguments = _arguments(block) if block.get("input") else ""
            call = completion.call_of(block.get("id"), block.get("name"), arguments)
            yield completion.chunk_of({"tool_calls": [{"index": index, **call}]})
        elif kind == "content_block_delta" and "text" in delta:
            yield completion.chunk_of({"content": text(delta["text"])})
        elif kind == "content_block_delta" and "thinking" in delta:
            yield completion.chunk_of({"reasoning_content": text(delta["thinking"])})
        elif kind == "content_block_delta" and "partial_json" in delta and place in self._calls:
            function = {"arguments": text(delta["partial_json"])}
            yield completion.chunk_of({"tool_calls": [{"index": self._calls[place], "function": function}]})
        elif kind == "message_delta":
            counts = table(found.get("usage"))
            self._usage |= {name: count for name, count in counts.items() if count is not None}
            yield {**completion.chunk_of({}, _finish_of(delta.get("stop_reason"))), "usage": _counts(self._usage)}
        elif kind == "message_stop":
            self.ended = True


class _EventWriter(StreamWriter):
    """A streamed message: a block for the thoughts, one for the text, and one for each call."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._content: list[Json] = []
        self._said: list[list[str]] = []  # the pieces of each block
        self._open: Any = None
        self._refused = False
        self._finish: Json = {"finish_reason": "stop"}
        self._usage: object = None

    def take(self, chunk: Json) -> Iterator[bytes]:
        if not self.whole:
            begun: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage({})}
            self.whole = {**_head(chunk, self.body), **begun}
            yield _event("message_start", message=self.whole)
        self._usage = chunk.get("usage") or self._usage
        choice = completion.choice_of(chunk)
        if choice.get("finish_reason"):
            self._finish = dict(choice)
        delta = table(choice.get("delta"))
        if thoughts := completion.reasoning_of(delta):
            yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta("thinking_delta", thinking=thoughts)
        for kind in ("content", "refusal"):
            if said := completion.said_in(delta.get(kind)):
                self._refused |= kind == "refusal"
                yield from self._block("text", {"type": "text", "text": ""})
                yield self._delta("text_delta", text=said)
        for index, identity, name, more in completion.call_deltas(chunk):
            yield from self._block(index, {"type": "tool_use", "id": identity, "name": name, "input": {}})
            if more:
                yield self._delta("input_json_delta", partial_json=more)

    def end(self) -> Iterator[bytes]:
        yield from self._close()
        finish, usage = self._ended(), _usage({"usage": self._usage})
        for block, said in zip(self._content, map("".join, self._said), strict=True):
            if block["type"] == "tool_use":
                block["input"] = completion.arguments_of(said)
            else:
                block[block["type"]] = said
        self.whole = {**self.whole, "content": self._content, **finish, "usage": usage}
        yield _event("message_delta", delta=finish, usage=usage)
        yield _event("message_stop")

    def _ended(self) -> Json:
        stopped = self._finish.get("stop_reason")  # vLLM says which stop sequence it was
        if isinstance(stopped, str) and stopped in (self.body.values.get("stop_sequences") or ()):
            return {"stop_reason": "stop_sequence", "stop_sequence": stopped}
        reason = text(self._finish.get("finish_reason"))
        if reason == "stop" and any(block["type"] == "tool_use" for block in self._content):
            reason = "tool_calls"  # servers say so of a call that the request demanded
        return {"stop_reason": "refusal" if self._refused else _FINISH.get(reason, "end_turn"), "stop_sequence": None}

    def _block(self, key: Any, block: Json) -> Iterator[bytes]:
        if key != self._open:
            yield from self._close()
            self._open = key
            yield _event("content_block_start", index=len(self._content), content_block=block)
            self._content.append(block)
            self._said.append([])

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            yield _event("content_block_stop", index=len(self._content) - 1)
            self._open = None

    def _delta(self, kind: str, **more: str) -> bytes:
        self._said[-1] += more.values()
        return _event("content_block_delta", index=len(self._content) - 1, delta={"type": kind, **more})


class Messages(Protocol):
    name, path, count_path = "messages", "messages", "messages/count_tokens"
    reader, writer = _EventReader, _EventWriter
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    required: Mapping[str, Any] = {"max_tokens": 1}
    fields: Mapping[str, str] = {
        "stop": "stop_sequences",
        "user": "metadata.user_id",
        "response_format": "output_config.format",
        "reasoning_effort": "output_config.effort",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    }

    def read_request(self, body: Body) -> Body:
        body.refuse(_NEUTRAL)
        for key in ("max_tokens", "messages") if not body.lenient else ():
            if key not in body:
                raise body.wrong(key, "is required")
        values = body.renamed(_NAMES)
        system = body.values.get("system")
        if not isinstance(system, str):
            system = completion.text_alone([_part(part) for part in body.listed("system")])
        messages = [{"role": "system", "content": system}] if system else []
        for message in body.listed("messages"):
            messages += _messages(message)
        values["messages"] = messages
        if tools := [_tool(tool) for tool in body.listed("tools")]:
            values["tools"] = tools
        if "metadata" in body:
            metadata = body.inner("metadata")
            metadata.refuse_others(("user_id",))
            if user := metadata.text("user_id", ""):
                values["user"] = user
        if body.lenient:
            return Body(values, lenient=True)
        if "tool_choice" in body:
            values |= _choice(body.inner("tool_choice"))
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

    def write_request(self, chat: Body) -> Json:
        chat.refuse({"n": (1,), "seed": (), "stream_options": ({}, {"include_usage": True})})
        chat.refuse_others((*_SAME, *_WRITTEN, "n", "seed", "stream_options"))
        body: Json = {"max_tokens": chat.values.get("max_completion_tokens") or _MOST_TOKENS}
        body |= {name: chat.values[name] for name in _SAME if name in chat}
        system, messages = turns_of(chat, "assistant", "content", _blocks_of)
        body |= {"messages": messages, **({"system": "\n\n".join(system)} if system else {})}
        if "stop" in chat:
            body["stop_sequences"] = list(chat.strings("stop", 16))
        if user := chat.text("user", ""):
            body["metadata"] = {"user_id": user}
        if functions := functions_of(chat):
            empty = {"type": "object", "properties": {}}
            body["tools"] = [{"input_schema": one.pop("parameters", None) or empty, **one} for one in functions]
        if "tool_choice" in chat:
            mode, name = chat.chosen()
            kind = {"required": "any"}.get(mode, mode)
            body["tool_choice"] = {"type": "tool", "name": name} if name else {"type": kind}
        if functions and chat.values.get("parallel_tool_calls") is False:
            chosen = body.setdefault("tool_choice", {"type": "auto"})
            chosen |= {} if chosen["type"] == "none" else {"disable_parallel_tool_use": True}
        config = {"effort": chat.values["reasoning_effort"]} if "reasoning_effort" in chat else {}
        if "response_format" in chat and chat.inner("response_format").text("type") != "text":
            if (schema := table(chat.inner("response_format").values.get("json_schema")).get("schema")) is None:
                raise chat.unsupported("response_format", "must be a json_schema for this server")
            config["format"] = {"type": "json_schema", "schema": schema}
        return {**body, **({"output_config": config} if config else {})}

    def with_recalled(self, body: Json, recalled: str) -> Json:
        return {**body, "system": completion.with_text(body.get("system"), recalled)}

    def read_answer(self, whole: Any) -> Json:
        if not isinstance(table(whole).get("content"), list):
            raise Malformed("the answer has no content")
        message: Json = {"role": "assistant", "content": ""}
        calls = []
        for block in objects(whole["content"]):
            if block.get("type") == "text":
                message["content"] += text(block.get("text"))
            elif block.get("type") == "thinking":
                message["reasoning_content"] = text(message.get("reasoning_content")) + text(block.get("thinking"))
            elif block.get("type") == "tool_use":
                calls.append(completion.call_of(block.get("id"), block.get("name"), _arguments(block)))
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": _finish_of(whole.get("stop_reason"))}
        return {**_top_of(whole), "choices": [choice], "usage": _counts(table(whole.get("usage")))}

    def write_count(self, count: int) -> Json:
        return {"input_tokens": count}

    def error(self, problem: BadRequest) -> Json:
        kind = _KINDS.get(problem.status, "api_error" if problem.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": problem.message}}

    def error_event(self, problem: BadRequest) -> bytes:
        return event(self.error(problem), "error")


def _event(name: str, /, **data: Any) -> bytes:
    return event({"type": name, **data}, name)


def _messages(body: Body) -> list[Json]:
    """The messages that one message stands for: results of tools are messages of their own."""
    role = body.text("role")
    if role not in ("user", "assistant", "system"):
        body.left_out(body.wrong("role", "must be user or assistant"))
    if not isinstance(body.values.get("content"), list):
        return [{"role": role, "content": body.text("content")}]
    found, parts, calls, thoughts = list[Json](), list[Json](), list[Json](), ""
    for part in body.listed("content"):
        kind = part.text("type")
        if kind == "tool_use" and role == "assistant":
            calls.append(completion.call_of(part.text("id"), part.text("name"), json.dumps(part.inner("input").values)))
        elif kind == "tool_result" and role == "user":
            found.append({"role": "tool", "tool_call_id": part.text("tool_use_id"), "content": _result(part)})
        elif kind == "thinking" and role == "assistant":
            thoughts += part.text("thinking", "")
        elif kind == "redacted_thinking" and role == "assistant":
            part.left_out(part.unsupported("type", f'"{kind}" is not supported here'))
        else:
            parts.append(_part(part))
    if parts or calls or not found:
        message = {"role": role, "content": completion.content_of(role, parts) if parts or not calls else None}
        message |= {"tool_calls": calls} if calls else {}
        found.append(message | ({"reasoning_content": thoughts} if thoughts else {}))
    return found


def _result(part: Body) -> Any:
    content = part.values.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else []
    parts += [] if parts else [_part(each) for each in part.listed("content")]
    if part.flag("is_error"):
        parts = [{"type": "text", "text": "error: "}, *parts]
    return completion.text_alone(parts)


def _part(part: Body) -> Json:
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
    return {"type": "text", "text": part.left_out(part.unsupported("type", f'"{kind[:50]}" is not supported here'))}


def _tool(tool: Body) -> Json:
    if tool.text("type", "custom") != "custom":
        tool.left_out(tool.unsupported("type", f'"{tool.text("type")[:50]}" is not supported'))
        return {"type": "function", "function": {"name": tool.text("name", "") or tool.text("type")}}
    tool.refuse({"defer_loading": (False,)})
    schema = tool.values.get("input_schema")
    function = {"name": tool.text("name"), **({"parameters": schema} if schema is not None else {})}
    function |= {key: tool.values[key] for key in ("description", "strict") if key in tool}
    return {"type": "function", "function": function}


def _blocks_of(message: Body) -> list[Json]:
    blocks = [_written(part) for part in message.parts("content")]
    if message.text("role") == "tool":
        return [{"type": "tool_result", "tool_use_id": message.text("tool_call_id"), "content": blocks}]
    for call in message.listed("tool_calls"):
        function = call.inner("function")
        given = completion.arguments_of(function.values.get("arguments"))
        blocks.append({"type": "tool_use", "id": call.text("id"), "name": function.text("name"), "input": given})
    return blocks


def _written(part: Body) -> Json:
    if (kind := part.text("type")) in ("text", "refusal"):
        return {"type": "text", "text": part.text(kind)}
    if kind == "image_url":
        url = part.inner("image_url").text("url")
        mime, _, data = url.removeprefix("data:").partition(";base64,")
        inside = {"type": "base64", "media_type": mime, "data": data} if data else {"type": "url", "url": url}
        return {"type": "image", "source": inside}
    raise part.unsupported("type", f'"{kind[:50]}" is not supported by this server')


def _choice(chosen: Body) -> Json:
    kind = chosen.text("type")
    found: Json = {"parallel_tool_calls": False} if chosen.flag("disable_parallel_tool_use") else {}
    if kind == "tool":
        return {**found, "tool_choice": {"type": "function", "function": {"name": chosen.text("name")}}}
    if kind not in ("auto", "any", "none"):
        raise chosen.wrong("type", "must be auto, any, tool or none")
    return {**found, "tool_choice": "required" if kind == "any" else kind}


def _format(form: Body) -> Json:
    if form.text("type") != "json_schema":
        raise form.unsupported("type")
    schema = {"name": "answer", "schema": form.values.get("schema"), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def _finish_of(reason: object) -> str:
    return _FINISHED.get(text(reason), "stop")


def _arguments(block: Json) -> str:
    given = block.get("input")
    return given if isinstance(given, str) else json.dumps(given or {})


def _top_of(message: Json) -> Json:
    return {"id": f"chatcmpl-{text(message.get('id')).removeprefix('msg_')}", "model": message.get("model")}


def _counts(usage: Json) -> Json:
    """The token counts as those of a chat completion, whose prompt has the cached ones too."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    parts = [usage.get(name) or 0 for name in names]
    is_told = "input_tokens" in usage and all(type(part) is int and part >= 0 for part in parts)
    details = {"cached_tokens": parts[1]}
    if parts[2]:
        long = table(usage.get("cache_creation")).get("ephemeral_1h_input_tokens") or 0
        details |= {"written_tokens": parts[2], "written_long_tokens": long}
    prompt, sampled = sum(parts) if is_told else None, usage.get("output_tokens")
    total = None if prompt is None else prompt + number(sampled)
    counts = {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": total}
    return {**counts, "prompt_tokens_details": details}


def _head(reply: Mapping[str, Any], body: Body) -> Json:
    return {
        "id": f"msg_{str(reply.get('id', '')).removeprefix('chatcmpl-')}",
        "type": "message",
        "role": "assistant",
        "model": reply.get("model") or body.values.get("model"),
        "stop_sequence": None,
    }


def _usage(reply: Json) -> dict[str, int]:
    counts = completion.counts_in(reply)
    return {
        "input_tokens": max(0, counts.prompt - counts.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.sampled,
    }
