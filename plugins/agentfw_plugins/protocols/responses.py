"""OpenAI's responses, with the whole conversation in each request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from . import completion
from .completion import Json, event, objects, table, text
from .protocol import BadRequest, Body, Malformed, Protocol, StreamReader, StreamWriter, functions_of

_ROLES = ("system", "developer", "user", "assistant")
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("previous_response_id", "conversation"), ("",)),
    **dict.fromkeys(("max_tool_calls", "context_management", "moderation"), ()),
    "background": (False,),
    "prompt": ({},),
    "truncation": ("disabled",),
}
"""Values that change nothing, of fields that chat completions have no counterpart of."""
_NAMES = {
    **dict.fromkeys((*_NEUTRAL, "input", "instructions", "tools", "tool_choice", "text", "reasoning", "include"), ""),
    "max_output_tokens": "max_completion_tokens",
}
_SAME = {"model", "stream", "temperature", "top_p", "user", "safety_identifier", "store", "metadata"}
_SAME |= {"parallel_tool_calls", "service_tier", "prompt_cache_key", "prompt_cache_retention"}
"""Fields that are the same in chat completions."""
_WRITTEN = {"messages", "tools", "tool_choice", "response_format", "reasoning_effort", "max_tokens", "stream_options"}
_WRITTEN |= {"max_completion_tokens", "stop", "n", "seed", "verbosity"}
_ECHOED: Json = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Fields of a request that its response repeats, with what they are otherwise."""
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
_THOUGHT = "reasoning_text"
_Item = Generator[bytes, None, tuple[Json, Json]]
"""The events of an item's beginning, and then the item and where it is."""


class _EventReader(StreamReader):
    """Text is read as it comes, and calls when they are whole."""

    def __init__(self) -> None:
        self._told, self._calls = list[str](), set[str]()

    def read(self, found: Json) -> Iterator[Json]:
        kind, whole = text(found.get("type")), table(found.get("response"))
        if kind == "response.output_text.delta":
            self._told.append(text(found.get("delta")))
            yield completion.chunk_of({"content": text(found.get("delta"))})
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            yield completion.chunk_of({"reasoning_content": text(found.get("delta"))})
        elif kind == "response.refusal.delta":
            yield completion.chunk_of({"refusal": text(found.get("delta"))})
        elif kind == "response.output_item.done":
            yield from self._call(table(found.get("item")))
        elif kind == "response.failed":
            raise _failed(whole)
        elif kind in ("response.completed", "response.incomplete"):
            for item in objects(whole.get("output")):
                yield from self._call(item)
            said = "".join(text(_said(item).get("content")) for item in objects(whole.get("output")))
            told = "".join(self._told)
            if said.startswith(told) and said != told:
                yield completion.chunk_of({"content": said[len(told) :]})
            self.ended = True
            yield {**completion.chunk_of({}, _finish_of(whole, bool(self._calls))), **_top_of(whole)}
        elif whole:
            yield {**_top_of(whole), "choices": []}

    def _call(self, item: Json) -> Iterator[Json]:
        calls, name = _said(item).get("tool_calls"), text(item.get("call_id"))
        if calls and name not in self._calls:
            yield completion.chunk_of({"tool_calls": [{"index": len(self._calls), **calls[0]}]})
            self._calls.add(name)


class _EventWriter(StreamWriter):
    """A streamed response: an item for the thoughts, one for the text, and one for each call."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._number = 0
        self._top: Json = {}
        self._name, self._finish = "", ""
        self._items: list[Json] = []
        self._open: dict[Any, int] = {}  # the places of the items that are not done, by what they are
        self._pieces = defaultdict[tuple[int, int], list[str]](list)  # of each text, by its item's place and its own

    def take(self, chunk: Json) -> Iterator[bytes]:
        if not self._top:
            self._top = dict(chunk)
            self._name = str(chunk.get("id", "")).removeprefix("chatcmpl-")
            for name in ("response.created", "response.in_progress"):
                yield self._event(name, response=_response(self.body, self._top, [], status="in_progress"))
        self._top |= {name: chunk[name] for name in ("usage", "service_tier") if chunk.get(name)}
        choice = completion.choice_of(chunk)
        self._finish = text(choice.get("finish_reason")) or self._finish
        delta = table(choice.get("delta"))
        if thoughts := completion.reasoning_of(delta):
            begun: Json = {"id": f"rs_{self._name}", "summary": [], "content": [_part(_THOUGHT)]}
            _, where = yield from self._item("reasoning", **begun)
            self._pieces[where["output_index"], 0].append(thoughts)
            yield self._event(f"response.{_THOUGHT}.delta", **where, content_index=0, delta=thoughts)
        logprobs = objects(table(choice.get("logprobs")).get("content"))
        for kind, name in (("content", "output_text"), ("refusal", "refusal")):
            if said := completion.said_in(delta.get(kind)):
                yield from self._text(name, said, logprobs)
                logprobs = []
        if logprobs:  # a policy in this process gives those of all tokens at its end
            parts = [part for item in self._items for part in item.get("content", ()) if "logprobs" in part]
            for part in parts[-1:]:
                part["logprobs"] += logprobs
        for index, identity, name, more in completion.call_deltas(chunk):
            call = {"id": f"fc_{self._name}_{index}", "call_id": identity, "name": name, "arguments": ""}
            item, where = yield from self._item("function_call", index, **call)
            item["call_id"], item["name"] = item["call_id"] or identity, item["name"] or name
            if more:
                self._pieces[where["output_index"], 0].append(more)
                yield self._event("response.function_call_arguments.delta", **where, delta=more)

    def end(self) -> Iterator[bytes]:
        if all(item["type"] == "reasoning" for item in self._items):
            yield from self._message()
        for place in list(self._open.values()):
            yield from self._close(place)
        cut = self._finish in _CUT
        self.whole = _response(self.body, self._top, self._items, self._finish)
        yield self._event("response.incomplete" if cut else "response.completed", response=self.whole)

    def _message(self) -> _Item:
        return self._item("message", id=f"msg_{self._name}", role="assistant", content=[])

    def _text(self, kind: str, text: str, logprobs: list[Any]) -> Iterator[bytes]:
        item, where = yield from self._message()
        kinds = [part["type"] for part in item["content"]]
        where["content_index"] = kinds.index(kind) if kind in kinds else len(kinds)
        if kind not in kinds:
            item["content"].append(_part(kind))
            yield self._event("response.content_part.added", **where, part=_part(kind))
        part, more = item["content"][where["content_index"]], {}
        self._pieces[where["output_index"], where["content_index"]].append(text)
        if kind == "output_text":
            part["logprobs"] += logprobs
            more = {"logprobs": logprobs}
        yield self._event(f"response.{kind}.delta", **where, delta=text, **more)

    def _item(self, kind: str, index: int | None = None, **begun: Any) -> _Item:
        """The open item of this kind, or call of this number, which begins where there is none, and where it is."""
        key = kind if index is None else index
        if key not in self._open:
            if key != "message" or "reasoning" in self._open:
                for before in [one for one in self._open if index is None or not isinstance(one, int)]:
                    yield from self._close(self._open[before])
            self._open[key] = len(self._items)
            self._items.append({"type": kind, **begun, "status": "in_progress"})
            shown = self._items[-1] | ({"content": []} if "content" in begun else {})
            yield self._event("response.output_item.added", output_index=self._open[key], item=shown)
        item = self._items[self._open[key]]
        return item, {"item_id": item["id"], "output_index": self._open[key]}

    def _close(self, place: int) -> Iterator[bytes]:
        self._open = {key: each for key, each in self._open.items() if each != place}
        item = self._items[place]
        item["status"] = "completed"
        where = {"item_id": item["id"], "output_index": place}
        if item["type"] == "function_call":
            item["arguments"] = "".join(self._pieces[place, 0])
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **where, **done)
        elif item["type"] == "reasoning":
            item["content"][0]["text"] = said = "".join(self._pieces[place, 0])
            yield self._event(f"response.{_THOUGHT}.done", **where, content_index=0, text=said)
        else:
            for index, part in enumerate(item["content"]):
                part["refusal" if part["type"] == "refusal" else "text"] = "".join(self._pieces[place, index])
                done = {name: part[name] for name in ("text", "logprobs", "refusal") if name in part}
                yield self._event(f"response.{part['type']}.done", **where, content_index=index, **done)
                yield self._event("response.content_part.done", **where, content_index=index, part=part)
        yield self._event("response.output_item.done", output_index=place, item=item)

    def _event(self, name: str, /, **data: Any) -> bytes:
        self._number += 1
        return event({"type": name, "sequence_number": self._number - 1, **data}, name)


class Responses(Protocol):
    name, path = "responses", "responses"
    reader, writer = _EventReader, _EventWriter
    conversation, text_part = "input", "input_text"
    limits = ("max_output_tokens",)
    fields: Mapping[str, str] = {
        "messages": "input",
        "response_format": "text.format",
        "verbosity": "text.verbosity",
        "reasoning_effort": "reasoning.effort",
        "max_completion_tokens": "max_output_tokens",
    }

    def read_request(self, body: Body) -> Body:
        body.refuse(_NEUTRAL)
        values = body.renamed(_NAMES)
        instructions = body.text("instructions", "")
        messages: list[Json] = [{"role": "system", "content": instructions}] if instructions else []
        if isinstance(body.values.get("input"), str):
            messages.append({"role": "user", "content": body.text("input")})
        else:
            messages += _conversation(body.listed("input"))
        values["messages"] = messages
        if tools := [_tool(tool) for tool in body.listed("tools")]:
            values["tools"] = tools
        if body.lenient:
            return Body(values, lenient=True)
        if "tool_choice" in body:
            values["tool_choice"] = _choice(body)
        if "text" in body:
            form = body.inner("text")
            form.refuse_others(("format", "verbosity"))
            if "format" in form and (found := _format(form.inner("format"))):
                values["response_format"] = found
            if "verbosity" in form:
                values["verbosity"] = form.values["verbosity"]
        if "reasoning" in body:
            reasoning = body.inner("reasoning")
            reasoning.refuse_others(("effort",))
            if "effort" in reasoning:
                values["reasoning_effort"] = reasoning.values["effort"]
        included = body.strings("include", 20)
        for place, name in enumerate(included):
            if name != "message.output_text.logprobs":
                raise body.unsupported(f"include[{place}]")
        if included or values.get("top_logprobs"):
            values["logprobs"] = True
        if values.get("stream") is True:
            values["stream_options"] = {"include_usage": True}  # its last event always has the token counts
        return Body(values)

    def write_request(self, chat: Body) -> Json:
        chat.refuse_others(_SAME | _WRITTEN)
        chat.refuse({"stop": ([],), "n": (1,), "seed": ()})
        body = {name: value for name, value in chat.values.items() if name in _SAME and value is not None}
        messages = chat.listed("messages")
        if messages and messages[0].text("role") in ("system", "developer"):
            body["instructions"] = messages.pop(0).texts("content", ("text",))
        body["input"] = [item for message in messages for item in _items(message)]
        for name in ("max_tokens", "max_completion_tokens"):
            if name in chat:
                body["max_output_tokens"] = chat.values[name]
        if functions := functions_of(chat):
            body["tools"] = [{"type": "function", **function} for function in functions]
        if "tool_choice" in chat:
            mode, name = chat.chosen()
            body["tool_choice"] = {"type": "function", "name": name} if name else mode
        if "response_format" in chat:
            form = chat.inner("response_format").values
            body["text"] = {"format": {"type": form.get("type"), **table(form.get("json_schema"))}}
        if "verbosity" in chat:
            body["text"] = {**body.get("text", {}), "verbosity": chat.values["verbosity"]}
        if "reasoning_effort" in chat:
            body["reasoning"] = {"effort": chat.values["reasoning_effort"]}
        return body

    def refuse_foreign(self, body: Body) -> None:
        body.refuse({"previous_response_id": ("",), "conversation": ("",)})
        for item in body.listed("input") if isinstance(body.values.get("input"), list) else []:
            if item.values.get("type") == "item_reference":
                raise item.unsupported("type", '"item_reference" is not supported')

    def with_recalled(self, body: Json, recalled: str) -> Json:
        given = body.get("instructions")
        return {**body, "instructions": f"{given}\n\n{recalled}" if given else recalled}

    def read_answer(self, whole: Any) -> Json:
        if not isinstance(table(whole).get("output"), list):
            raise Malformed("the answer has no output")
        if whole.get("status") == "failed":
            raise _failed(whole)
        message: Json = {"role": "assistant", "content": ""}
        for item in objects(whole["output"]):
            for name, value in _said(item).items():
                message[name] = message[name] + value if name in message else value
        choice = {"index": 0, "message": message, "finish_reason": _finish_of(whole, bool(message.get("tool_calls")))}
        return {**_top_of(whole), "choices": [choice]}

    def error_event(self, problem: BadRequest) -> bytes:
        data = {"code": problem.code or None, "message": problem.message, "param": problem.field or None}
        return event({"type": "error", **data, "sequence_number": 0}, "error")


# -- what is asked -----------------------------------------------------------------------------------------------------


def _conversation(items: list[Body]) -> list[Json]:
    """The messages of a list of items. Calls and thoughts belong to the answer that they were made in."""
    found, thoughts = list[Json](), ""
    for item in items:
        kind = item.text("type", "message")
        reasoning = {"reasoning_content": thoughts} if thoughts else {}
        if kind == "message":
            role = item.text("role")
            if role not in _ROLES:
                item.left_out(item.wrong("role", f"must be {', '.join(_ROLES)}"))
            given = completion.content_of(role, [_read_part(part) for part in item.parts("content")])
            found.append({"role": role, "content": given, **(reasoning if role == "assistant" else {})})
            thoughts = "" if role == "assistant" else thoughts
        elif kind == "function_call":
            call = completion.call_of(item.text("call_id"), item.text("name"), item.text("arguments", ""))
            if thoughts or not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None, **reasoning})
                thoughts = ""
            found[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            given = completion.text_alone([_read_part(part) for part in item.parts("output")])
            found.append({"role": "tool", "tool_call_id": item.text("call_id"), "content": given})
        elif kind == "reasoning":
            if "encrypted_content" in item:
                item.left_out(item.unsupported("encrypted_content"))
            said = [*item.listed("content"), *item.listed("summary")]
            thoughts += "\n".join(part.text("text", "") for part in said)
        else:
            kept = item.left_out(item.unsupported("type", f'"{kind[:50]}" is not supported'))
            found.append({"role": "assistant", "content": kept})
    return found


def _read_part(part: Body) -> Json:
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
    return {"type": "text", "text": part.left_out(part.unsupported("type", f'"{kind[:50]}" is not supported here'))}


def _tool(tool: Body) -> Json:
    if (kind := tool.text("type")) != "function":
        tool.left_out(tool.unsupported("type", "must be function: other tools are not supported"))
        return {"type": "function", "function": {"name": tool.text("name", "") or kind}}
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
        names = [tool.text("name") for tool in body.inner("tool_choice").listed("tools")]
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools}}
    raise body.unsupported("tool_choice")


def _format(form: Body) -> Json | None:
    kind = form.text("type")
    if kind == "text":
        return None
    if kind == "json_schema":
        schema = {key: value for key, value in form.values.items() if key != "type"}
        return {"type": "json_schema", "json_schema": schema}
    return dict(form.values)


def _items(message: Body) -> Iterator[Json]:
    role, content = message.text("role"), message.values.get("content")
    if role == "tool":
        told = [_written(part, "input_text") for part in message.parts("content")]
        output = told if isinstance(content, list) else content or ""
        yield {"type": "function_call_output", "call_id": message.text("tool_call_id"), "output": output}
        return
    if parts := message.parts("content"):
        kind = "output_text" if role == "assistant" else "input_text"
        yield {"role": role, "content": [_written(part, kind) for part in parts]}
    for call in message.listed("tool_calls"):
        function = call.inner("function")
        words = {"name": function.text("name"), "arguments": function.text("arguments")}
        yield {"type": "function_call", "call_id": call.text("id"), **words}


def _written(part: Body, kind: str) -> Json:
    if part.text("type") == "text":
        return {"type": kind, "text": part.text("text")}
    if part.text("type") == "refusal":
        return {"type": "refusal", "refusal": part.text("refusal")}
    if part.text("type") == "image_url":
        image = part.inner("image_url")
        return {"type": "input_image", "image_url": image.text("url"), "detail": image.text("detail", "auto")}
    raise part.unsupported("type", f'"{part.text("type")[:50]}" is not supported by this server')


# -- what a server answers ---------------------------------------------------------------------------------------------


def _failed(whole: Json) -> Malformed:
    told = table(whole.get("error"))
    return Malformed(f"the server gave up: {text(told.get('message'))[:300]}", told)


def _said(item: Json) -> Json:
    """What an item adds to the message of a chat completion."""
    kind = item.get("type")
    if kind == "function_call":
        call = completion.call_of(item.get("call_id"), item.get("name"), item.get("arguments") or "{}")
        return {"tool_calls": [call]}
    if kind == "message":
        parts = objects(item.get("content"))
        refusal = "".join(text(part.get("refusal")) for part in parts)
        said = "".join(text(part.get("text")) for part in parts)
        return {"content": said, **({"refusal": refusal} if refusal else {})}
    if kind == "reasoning":
        parts = [*objects(item.get("content")), *objects(item.get("summary"))]
        thoughts = "\n".join(text(part.get("text")) for part in parts)
        return {"reasoning_content": thoughts} if thoughts else {}
    return {}


def _top_of(whole: Json) -> Json:
    usage = table(whole.get("usage"))
    counts = {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "total_tokens": usage.get("total_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens_details": usage.get("output_tokens_details"),
    }
    head = {"id": f"chatcmpl-{text(whole.get('id')).removeprefix('resp_')}", "created": whole.get("created_at")}
    return {**head, "model": whole.get("model"), "usage": counts if usage else None}


def _finish_of(whole: Json, calls: bool) -> str:
    reason = table(whole.get("incomplete_details")).get("reason")
    return next((own for own, name in _CUT.items() if name == reason), "tool_calls" if calls else "stop")


# -- what is answered --------------------------------------------------------------------------------------------------


def _part(kind: str) -> Json:
    """A part of an item, before there is anything in it."""
    if kind == "refusal":
        return {"type": kind, "refusal": ""}
    return {"type": kind, "text": "", **({"annotations": [], "logprobs": []} if kind == "output_text" else {})}


def _response(body: Body, reply: Json, items: list[Json], finish: object = None, *, status: str = "completed") -> Json:
    cut = _CUT.get(str(finish))
    found: Json = {
        "id": f"resp_{str(reply.get('id', '')).removeprefix('chatcmpl-')}",
        "object": "response",
        "created_at": reply.get("created") or 0,
        "model": reply.get("model") or body.values.get("model"),
        "status": "incomplete" if cut else status,
        "incomplete_details": {"reason": cut} if cut else None,
        "error": None,
        "output": items,
        "previous_response_id": None,
        **{name: body.values[name] if name in body else value for name, value in _ECHOED.items()},
        "service_tier": reply.get("service_tier") or body.values.get("service_tier"),
    }
    if status != "in_progress" and table(reply.get("usage")):
        counts = completion.counts_in(reply)
        found["usage"] = {
            "input_tokens": counts.prompt,
            "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
            "output_tokens": counts.sampled,
            "output_tokens_details": {"reasoning_tokens": counts.reasoning},
            "total_tokens": counts.total,
        }
    return found
