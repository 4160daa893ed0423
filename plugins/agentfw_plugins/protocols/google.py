"""Google's generateContent, as the clients of Gemini speak it.

The model and whether the answer is a stream stand in the address. Calls need no ids here: one without is called by its
place in its answer, and a result without belongs to the first call of its name that has none yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from agentfw.request import Sampling

from . import completion
from .completion import Json, event, objects, table, text
from .protocol import BadRequest, Body, Malformed, Protocol, StreamReader, StreamWriter, functions_of, turns_of

_CONFIG = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "n": "candidateCount",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""Fields of `generationConfig`, by those of chat completions."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("logprobs", "speechConfig", "mediaResolution"), ()),
    "responseLogprobs": (False,),
    "responseModalities": (["TEXT"], ["text"]),
}
"""Values that change nothing, of fields that chat completions have no counterpart of."""
_FORMAT = ("responseMimeType", "responseSchema", "responseJsonSchema")
_KNOWN = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "labels"}
_KNOWN |= {"model", "stream", "cachedContent", "generateContentRequest"}
_SAME = ("model", "stream", "user", "messages", "tools", "tool_choice", "response_format", "max_completion_tokens")
"""Fields of a chat completion that can be said here, besides those of `generationConfig`."""
_HINTS = ("stream_options", "safety_identifier", "store", "metadata", "parallel_tool_calls", "logprobs")
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "content_filter": "SAFETY"}
_FINISHED = {"STOP": "stop", "MAX_TOKENS": "length", "MALFORMED_FUNCTION_CALL": "stop", "OTHER": "stop"}
_MODES = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none", "MODE_UNSPECIFIED": "auto"}
_STATUS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_SAMPLING = {name: _CONFIG[name] for name in ("temperature", "top_p", "max_tokens", "seed")}


class _EventReader(StreamReader):
    def __init__(self) -> None:
        self._calls = 0

    def read(self, found: Json) -> Iterator[Json]:
        is_blocked = table(found.get("promptFeedback")).get("blockReason")
        for candidate in objects(found.get("candidates")) or ([{"finishReason": "SAFETY"}] if is_blocked else []):
            delta = _said(candidate, self._calls)
            self._calls += len(delta.get("tool_calls", ()))
            finish = _finish_of(candidate, self._calls > 0) if candidate.get("finishReason") else None
            self.ended |= finish is not None
            choice = {"index": candidate.get("index") or 0, "delta": delta, "finish_reason": finish}
            yield {**_top_of(found), "choices": [choice]}


class _EventWriter(StreamWriter):
    """Text and thoughts go out as they come, and calls, which this protocol has whole, with the end."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._finish = "stop"
        self._calls: dict[int, list[str]] = {}  # of each call its id, its name, and the pieces of its arguments
        self._top: Json = {}

    def take(self, chunk: Json) -> Iterator[bytes]:
        self._top |= {name: value for name, value in chunk.items() if value}
        choice = completion.choice_of(chunk)
        delta = table(choice.get("delta"))
        self._finish = text(choice.get("finish_reason")) or self._finish
        for index, *words in completion.call_deltas(chunk):
            call = self._calls.setdefault(index, ["", ""])
            call[:2] = call[0] or words[0], call[1] or words[1]
            call.append(words[2])
        if parts := _words(delta):
            yield event({"candidates": [_candidate(parts)], **_head(self._top, self.body)})

    def end(self) -> Iterator[bytes]:
        parts = [_call(identity, name, "".join(pieces)) for identity, name, *pieces in self._calls.values()]
        ended = [_candidate(parts, _FINISH.get(self._finish, "STOP"))]
        yield event({"candidates": ended, **_head(self._top, self.body), "usageMetadata": _usage(self._top)})


class Google(Protocol):
    """The protocol of /v1beta/models/MODEL:generateContent, which newer clients ask for below /v1."""

    name, versions = "google", ("v1beta", "v1")
    reader, writer = _EventReader, _EventWriter
    path = "models/{model}:generateContent"
    stream_path = "models/{model}:streamGenerateContent?alt=sse"
    count_path = "models/{model}:countTokens"
    key_header = "x-goog-api-key"
    conversation = "contents"
    has_seed = True
    fields: Mapping[str, str] = {
        **{chat: f"generationConfig.{own}" for chat, own in _CONFIG.items()},
        "messages": "contents",
        "tool_choice": "toolConfig",
        "response_format": "generationConfig.responseSchema",
    }

    # -- requests ------------------------------------------------------------------------------------------------------

    def addressed(self, body: Body, address: Mapping[str, str], *, streams: bool) -> Body:
        if streams and address.get("alt") != "sse":
            raise BadRequest("alt must be sse: streams are server-sent events", field="alt")
        return Body({**body.values, "model": address["model"], "stream": streams}, raw=body.raw)

    def read_request(self, body: Body) -> Body:
        body = _named(body)
        if "generateContentRequest" in body:  # what is counted may be a whole request
            body = Body({**body.values, **_named(body.inner("generateContentRequest")).values}, lenient=body.lenient)
        body.refuse({"cachedContent": ("",)})
        body.refuse_others(_KNOWN)
        values: Json = {"model": body.text("model", ""), "stream": body.flag("stream")}
        if body.flag("stream"):
            values["stream_options"] = {"include_usage": True}  # its last event always has the token counts
        if user := text(table(body.values.get("labels")).get("user")):
            values["user"] = user
        system = _parts(body.inner("systemInstruction")) if "systemInstruction" in body else []
        messages = [{"role": "system", "content": "\n\n".join(part.text("text") for part in system)}] if system else []
        for content in body.listed("contents"):
            messages += _messages(content, messages)
        values["messages"] = messages
        if tools := [tool for each in body.listed("tools") for tool in _tools(_named(each))]:
            values["tools"] = tools
        config = _named(body.inner("generationConfig")) if "generationConfig" in body else Body({})
        config.refuse(_NEUTRAL)
        config.refuse_others((*_CONFIG.values(), *_NEUTRAL, *_FORMAT, "thinkingConfig"))  # which is a hint
        values |= {chat: config.values[own] for chat, own in _CONFIG.items() if own in config}
        if values["stream"] and values.get("n", 1) != 1:
            config.refuse({"candidateCount": ()})
        if form := _format(config):
            values["response_format"] = form
        if "toolConfig" in body and not body.lenient:
            values |= _choice(_named(body.inner("toolConfig")))
        for setting in body.listed("safetySettings"):
            setting.refuse({"threshold": ("BLOCK_NONE", "OFF")})
        return Body(values, lenient=body.lenient)

    def write_request(self, chat: Body) -> Json:
        chat.refuse({"parallel_tool_calls": (True,), "logprobs": (False,)})
        chat.refuse_others((*_SAME, *_HINTS, *_CONFIG))
        system, contents = turns_of(chat, "model", "parts", partial(_written, names={}))
        body: Json = {"contents": contents}
        if system:
            body["systemInstruction"] = {"parts": [{"text": one} for one in system]}
        if functions := functions_of(chat):
            names = {"name": "name", "description": "description", "parameters": "parametersJsonSchema"}
            declared = [{own: one[name] for name, own in names.items() if one.get(name)} for one in functions]
            body["tools"] = [{"functionDeclarations": declared}]
        if "tool_choice" in chat:
            mode, name = chat.chosen()
            chosen: Json = {"mode": {"auto": "AUTO", "none": "NONE"}.get(mode, "ANY")}
            body["toolConfig"] = {"functionCallingConfig": chosen | ({"allowedFunctionNames": [name]} if name else {})}
        config = {own: chat.values[name] for name, own in _CONFIG.items() if name in chat}
        if "max_completion_tokens" in chat:
            config["maxOutputTokens"] = chat.values["max_completion_tokens"]
        if isinstance(config.get("stopSequences"), str):
            config["stopSequences"] = [config["stopSequences"]]
        if "response_format" in chat and chat.inner("response_format").text("type") != "text":
            schema = table(chat.inner("response_format").values.get("json_schema")).get("schema")
            config |= {"responseMimeType": "application/json", **({"responseJsonSchema": schema} if schema else {})}
        return {**body, **({"generationConfig": config} if config else {})}

    def with_recalled(self, body: Json, recalled: str) -> Json:
        name = "system_instruction" if "system_instruction" in body else "systemInstruction"
        given = table(body.get(name))
        parts = given.get("parts") or []
        parts = parts if isinstance(parts, list) else [parts]
        return {**body, name: {**given, "parts": [*parts, {"text": recalled}]}}

    def with_sampling(self, body: Json, run: Sampling, *, run_wins: bool) -> Json:
        name = "generation_config" if "generation_config" in body else "generationConfig"
        config = completion.sampled(table(body.get(name)), run, _SAMPLING, run_wins=run_wins)
        return {**body, name: config} if config != table(body.get(name)) else body

    # -- answers -------------------------------------------------------------------------------------------------------

    def read_answer(self, whole: Any) -> Json:
        if not isinstance(whole, dict) or not (whole.get("candidates") or whole.get("promptFeedback")):
            raise Malformed("the answer has no candidates")
        # A prompt that was blocked has no candidate.
        candidates = objects(whole.get("candidates")) or [{"finishReason": "SAFETY"}]
        choices = []
        for index, candidate in enumerate(candidates):
            message = {"role": "assistant", "content": "", **_said(candidate, 0)}
            finish = _finish_of(candidate, bool(message.get("tool_calls")))
            choices.append({"index": index, "message": message, "finish_reason": finish})
        return {**_top_of(whole), "choices": choices}

    def write_answer(self, reply: Json, body: Body) -> Json:
        candidates = []
        for choice in objects(reply.get("choices")):
            message = table(choice.get("message"))
            parts = _words(message)
            for call in objects(message.get("tool_calls")):
                function = table(call.get("function"))
                parts.append(_call(text(call.get("id")), function.get("name"), function.get("arguments")))
            finish = _FINISH.get(text(choice.get("finish_reason")), "STOP")
            candidates.append(_candidate(parts, finish, choice.get("index")))
        return {"candidates": candidates, **_head(reply, body), "usageMetadata": _usage(reply)}

    def write_count(self, count: int) -> Json:
        return {"totalTokens": count}

    def error(self, problem: BadRequest) -> Json:
        status = _STATUS.get(problem.status, "INTERNAL" if problem.status >= 500 else "INVALID_ARGUMENT")
        return {"error": {"code": problem.status, "message": problem.message, "status": status}}

    def models_in(self, reply: Any) -> list[str]:
        if not isinstance(table(reply).get("models"), list):
            raise Malformed("the answer is not a list of models")
        return [text(entry.get("name")).removeprefix("models/") for entry in objects(reply["models"])]


# -- what is asked -----------------------------------------------------------------------------------------------------


def _named(body: Body) -> Body:
    """An object with its own names of fields: they may be written in snake case, too."""
    values = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): value for name, value in body.values.items()}
    return Body(values, body.where, lenient=body.lenient)


def _parts(content: Body) -> list[Body]:
    return [_named(part) for part in content.listed("parts")]


def _messages(content: Body, before: list[Json]) -> list[Json]:
    """The messages that a content stands for: results of functions are messages of their own."""
    role = {"model": "assistant", "function": "user", "": "user"}.get(given := content.text("role", ""), given)
    if role not in ("user", "assistant"):
        content.left_out(content.wrong("role", "must be user or model"))
    results, parts, calls, thoughts = list[Json](), list[Json](), list[Json](), ""
    waiting: dict[str, str] = {}  # calls of the last answer that have no result yet: their names, by their ids
    for message in before:
        if message["role"] == "tool":
            waiting.pop(message.get("tool_call_id", ""), None)  # a lenient body's role may be anything
        elif message.get("tool_calls"):
            waiting = {call["id"]: call["function"]["name"] for call in message["tool_calls"]}
    for part in _parts(content):
        if "functionCall" in part:
            call = part.inner("functionCall")
            arguments = json.dumps(call.inner("args").values if "args" in call else {})
            calls.append(completion.call_of(call.text("id", "") or f"call_{len(calls)}", call.text("name"), arguments))
        elif "functionResponse" in part:
            result = part.inner("functionResponse")
            name, identity, response = result.text("name"), result.text("id", ""), result.inner("response").values
            identity = identity or next((one for one, called in waiting.items() if called == name), "")
            waiting.pop(identity, None)
            [only] = response.values() if len(response) == 1 and response.keys() <= {"output", "result"} else [None]
            told = only if isinstance(only, str) else json.dumps(response, ensure_ascii=False)
            results.append({"role": "tool", "tool_call_id": identity, "content": told})
        elif part.values.get("thought") is True:
            thoughts += part.text("text", "")
        else:
            parts.append(_part(part))
    if parts or calls or not results:
        message = {"role": role, "content": completion.content_of(role, parts) if parts or not calls else None}
        message |= {"tool_calls": calls} if calls else {}
        results.append(message | ({"reasoning_content": thoughts} if thoughts else {}))
    return results


def _part(part: Body) -> Json:
    if "text" in part:
        return {"type": "text", "text": part.text("text")}
    kind = next((name for name in ("inlineData", "fileData") if name in part), "")
    data = _named(part.inner(kind)) if kind else Body({})
    mime = data.text("mimeType", "")
    url = data.text("fileUri", "") or f"data:{mime};base64,{data.text('data', '')}"
    if kind and mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if kind == "inlineData":
        return {"type": "file", "file": {"filename": data.text("displayName", "file"), "file_data": url}}
    problem = part.unsupported(next(iter(part.values), "part"), "is not supported here")
    return {"type": "text", "text": part.left_out(problem)}


def _tools(tool: Body) -> Iterator[Json]:
    tool.refuse_others(("functionDeclarations",))
    for name in tool.values if tool.lenient else ():
        if name != "functionDeclarations":  # a tool of the server's own
            yield {"type": "function", "function": {"name": name}}
    for declared in tool.listed("functionDeclarations"):
        one = _named(declared)
        function = {name: one.values[name] for name in ("name", "description") if name in one}
        schema = one.values.get("parametersJsonSchema") or _schema(one.values.get("parameters"))
        yield {"type": "function", "function": function | ({"parameters": schema} if schema else {})}


def _schema(given: Any) -> Any:
    if isinstance(given, list):
        return [_schema(one) for one in given]
    if not isinstance(given, dict):
        return given
    found = {name: _schema(value) if name in ("items", "anyOf") else value for name, value in given.items()}
    if isinstance(given.get("type"), str):
        found["type"] = given["type"].lower()
    if isinstance(given.get("properties"), dict):
        found["properties"] = {name: _schema(value) for name, value in given["properties"].items()}
    return found


def _format(config: Body) -> Json | None:
    schema = config.values.get("responseJsonSchema") or _schema(config.values.get("responseSchema"))
    if schema:
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    config.refuse({"responseMimeType": ("text/plain", "application/json")})
    return {"type": "json_object"} if config.text("responseMimeType", "") == "application/json" else None


def _choice(chosen: Body) -> Json:
    chosen.refuse_others(("functionCallingConfig",))
    config = _named(chosen.inner("functionCallingConfig")) if "functionCallingConfig" in chosen else Body({})
    config.refuse_others(("mode", "allowedFunctionNames"))
    mode, names = _MODES.get(config.text("mode", "AUTO")), config.strings("allowedFunctionNames", 1000)
    if mode is None:
        raise config.wrong("mode", f"must be {', '.join(_MODES)}")
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    if len(tools) == 1:
        return {"tool_choice": tools[0]}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    return {"tool_choice": allowed if tools else mode}


def _written(message: Body, names: dict[str, str]) -> list[Json]:
    """The parts that a message of a chat completion stands for. `names` are those of the calls, by their ids."""
    if message.text("role") == "tool":
        identity = message.text("tool_call_id")
        said = {"output": message.texts("content", ("text",))}
        return [{"functionResponse": {"id": identity, "name": names.get(identity, ""), "response": said}}]
    parts: list[Json] = []
    for part in message.parts("content"):
        url = part.inner("image_url").text("url") if (kind := part.text("type")) == "image_url" else ""
        mime, _, data = url.removeprefix("data:").partition(";base64,")
        if data:
            parts.append({"inlineData": {"mimeType": mime, "data": data}})
        elif kind in ("text", "refusal"):
            parts.append({"text": part.text(kind)})
        else:
            raise part.unsupported("type", f'"{kind[:50]}" is not supported by this server')
    for call in message.listed("tool_calls"):
        function = call.inner("function")
        names[call.text("id")] = function.text("name")
        parts.append(_call(call.text("id"), function.text("name"), function.values.get("arguments")))
    return parts


# -- what is answered --------------------------------------------------------------------------------------------------


def _said(candidate: Json, calls: int) -> Json:
    """What a candidate says, as a message or delta. `calls` is the number of those before."""
    found: Json = {}
    for part in objects(table(candidate.get("content")).get("parts")):
        if part.get("functionCall"):
            call, known = table(part["functionCall"]), found.setdefault("tool_calls", [])
            index, arguments = calls + len(known), json.dumps(call.get("args") or {})
            called = completion.call_of(call.get("id") or f"call_{index}", call.get("name"), arguments)
            known.append({"index": index, **called})
        elif said := text(part.get("text")):
            kind = "reasoning_content" if part.get("thought") is True else "content"
            found[kind] = found.get(kind, "") + said
    return found


def _words(message: Json) -> list[Json]:
    """The thoughts and the text of a message or delta, as parts."""
    parts: list[Json] = [{"text": thoughts, "thought": True}] if (thoughts := completion.reasoning_of(message)) else []
    said = (completion.said_in(message.get(kind)) for kind in ("content", "refusal"))
    return [*parts, *({"text": one} for one in said if one)]


def _call(identity: str, name: object, arguments: object) -> Json:
    return {"functionCall": {"id": identity, "name": name, "args": completion.arguments_of(arguments)}}


def _candidate(parts: list[Json], finish: str = "", index: object = 0) -> Json:
    ended = {"finishReason": finish} if finish else {}
    return {"content": {"role": "model", "parts": parts}, **ended, "index": index or 0}


def _finish_of(candidate: Json, calls: bool) -> str:
    finish = _FINISHED.get(text(candidate.get("finishReason")) or "STOP", "content_filter")
    return "tool_calls" if calls and finish == "stop" else finish


def _top_of(whole: Json) -> Json:
    top = {"id": f"chatcmpl-{whole.get('responseId') or ''}", "model": whole.get("modelVersion")}
    usage = table(whole.get("usageMetadata"))
    sampled_too = [usage.get(name) or 0 for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    counts = {
        "prompt_tokens": usage.get("promptTokenCount"),
        "completion_tokens": sum(sampled_too) if all(type(one) is int and one >= 0 for one in sampled_too) else None,
        "total_tokens": usage.get("totalTokenCount"),
        "prompt_tokens_details": {"cached_tokens": usage.get("cachedContentTokenCount") or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.get("thoughtsTokenCount") or 0},
    }
    return {**top, **({"usage": counts} if "promptTokenCount" in usage else {})}


def _head(reply: Json, body: Body) -> Json:
    name = str(reply.get("id") or "").removeprefix("chatcmpl-")
    return {"modelVersion": reply.get("model") or body.values.get("model"), "responseId": name}


def _usage(reply: Json) -> Json:
    found = completion.counts_in(reply)
    counts = {"promptTokenCount": found.prompt, "candidatesTokenCount": max(0, found.sampled - found.reasoning)}
    counts |= {"cachedContentTokenCount": found.cached} if found.cached else {}
    counts |= {"thoughtsTokenCount": found.reasoning} if found.reasoning else {}
    return {**counts, "totalTokenCount": found.total}
