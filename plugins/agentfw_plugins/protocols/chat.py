"""Requests to a policy that samples by itself, and its answers, in the format of chat completions.

What such a policy can't do is refused by name. Answers can have what training needs: with `return_token_ids`, as in
vLLM, they have the token ids of prompt and answer, and with `logprobs` the logprob of each token. So the gateway itself
is a server for the policy `openai`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentfw import Message
from agentfw.episode import Call
from agentfw.turns.session import Reply

from .bodies import Asked, BadRequest, Body
from .protocol import About

__all__ = ["Chunks", "arguments", "completion", "read_request"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_FINISH = {"stop": "stop", "length": "length", "calls": "tool_calls"}
_MOST_ANSWERS = 16
_DONE = {
    *("model", "messages", "tools", "tool_choice", "stream", "stream_options", "stop", "temperature", "top_p", "seed"),
    *("max_tokens", "max_completion_tokens", "n", "logprobs", "return_token_ids", "user", "safety_identifier"),
    "response_format",
}
_HINTS = {"metadata", "store", "prompt_cache_key", "prompt_cache_retention", "prediction"}
"""Fields that don't change what is answered."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "top_logprobs": (0,),
    "top_k": (0, -1),
    "min_p": (0,),
    "best_of": (1,),
    "parallel_tool_calls": (True,),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "functions": ([],),
}
"""Values that change nothing, of fields whose other values can't be done."""


def read_request(body: Body, *, follows_schemas: bool = False) -> Asked:
    """What a request asks for. Whatever a policy in this process can't do is refused."""
    body.refuse(_NEUTRAL)
    body.refuse_others(_DONE | _HINTS | _NEUTRAL.keys())
    if "messages" not in body:
        raise body.wrong("messages", "is required")
    actions = []
    for tool in body.listed("tools"):
        if tool.text("type", "function") != "function":
            raise tool.wrong("type", "must be function")
        actions.append(tool.inner("function").action())
    names = [action.name for action in actions]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadRequest(f"two tools are called {', '.join(twice)}", code="duplicate_tool", field="tools")
    choice = body.values.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type", "function") != "function":
            raise body.unsupported("tool_choice")
        name = body.inner("tool_choice").inner("function").name("name")
        if name not in names:
            raise body.wrong("tool_choice", f'names "{name[:100]}", which is no tool of this request')
        actions = [action for action in actions if action.name == name]
    elif choice not in (None, "auto", "required", "none"):
        raise body.wrong("tool_choice", "must be auto, none, required or an object that names a function")
    options = body.inner("stream_options") if "stream_options" in body else Body({})
    asked = Asked(
        model=body.name("model"),
        messages=tuple(_message(message) for message in body.listed("messages")),
        actions=() if choice == "none" else tuple(actions),
        sampling=body.sampling("max_tokens", "max_completion_tokens"),
        stop=body.strings("stop", 16),
        stream=body.flag("stream"),
        user=body.name("user", "") or body.name("safety_identifier", ""),
        answers=body.whole("n", 1, _MOST_ANSWERS) or 1,
        schema=_schema(body),
        must_call=choice == "required" or isinstance(choice, dict),
        with_usage=options.flag("include_usage"),
        with_tokens=body.flag("return_token_ids"),
        with_logprobs=body.flag("logprobs"),
    )
    if asked.schema is not None and not follows_schemas:
        raise body.unsupported("response_format", "is not supported by this policy: it can't follow a schema")
    if asked.schema is not None and asked.actions:
        raise body.unsupported("response_format", "is not supported together with tools")
    if asked.stream and asked.answers > 1:
        raise body.unsupported("n", "above 1 is not supported in streams")
    return asked


def _schema(body: Body) -> Mapping[str, Any] | None:
    """The schema of the answer. None if it is text."""
    if "response_format" not in body:
        return None
    form = body.inner("response_format")
    kind = form.text("type")
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema":
        return form.inner("json_schema").inner("schema").values
    if kind != "text":
        raise form.unsupported("type", "must be text, json_object or json_schema")
    return None


def _message(body: Body) -> Message:
    role = _ROLES.get(body.text("role"))
    if role is None:
        raise body.wrong("role", f"must be {', '.join(_ROLES)}")
    if role != "tool":
        body.refuse({"name": ("",)})
    given = body.listed("tool_calls") if role == "assistant" else []
    calls = [call.inner("function").call(call.name("id")) for call in given]
    answers = body.name("tool_call_id") if role == "tool" else ""
    return Message(role, body.texts("content", ("text", "refusal")), tuple(calls), answers)


# -- answers -----------------------------------------------------------------------------------------------------------


def completion(replies: Sequence[Reply], asked: Asked, about: About) -> dict[str, Any]:
    """A whole answer."""
    choices = []
    for index, reply in enumerate(replies):
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if reply.calls else "")}
        if reply.calls:
            message["tool_calls"] = [_call(call) for call in reply.calls]
        choices.append(
            {"index": index, "message": message, "finish_reason": _FINISH[reply.finish], **_tokens(reply, asked)}
        )
    return {
        **_head("chat.completion", about),
        "choices": choices,
        "usage": _usage(replies),
        "system_fingerprint": replies[0].turn.version,
    }


class Chunks:
    """A streamed answer."""

    def __init__(self, asked: Asked, about: About) -> None:
        self._asked, self._about = asked, about

    def start(self) -> Iterator[dict[str, Any]]:
        yield self._chunk({"role": "assistant", "content": ""})

    def text(self, piece: str) -> Iterator[dict[str, Any]]:
        yield self._chunk({"content": piece})

    def end(self, reply: Reply) -> Iterator[dict[str, Any]]:
        for index, call in enumerate(reply.calls):
            yield self._chunk({"tool_calls": [{"index": index, **_call(call)}]})
        # The tokens come together: some of their text may have to wait, and some belong to calls.
        yield self._chunk({}, _FINISH[reply.finish], **_tokens(reply, self._asked))
        if self._asked.with_usage:
            yield {**_head("chat.completion.chunk", self._about), "choices": [], "usage": _usage([reply])}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
        return {**_head("chat.completion.chunk", self._about), "choices": [choice]}


def arguments(call: Call) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}


def _tokens(reply: Reply, asked: Asked) -> dict[str, Any]:
    """The exact tokens, for whoever asks for them."""
    turn = reply.turn
    found: dict[str, Any] = {}
    if asked.with_tokens and turn.token_ids:
        found = {"token_ids": turn.token_ids, "prompt_token_ids": turn.prompt_ids}
    if asked.with_logprobs and turn.logprobs:
        pieces = reply.pieces if len(reply.pieces) == len(turn.logprobs) else ("",) * len(turn.logprobs)
        found["logprobs"] = {
            "content": [
                {"token": piece, "logprob": one, "bytes": list(piece.encode("utf-8", "replace")), "top_logprobs": []}
                for piece, one in zip(pieces, turn.logprobs, strict=True)
            ]
        }
    return found


def _head(kind: str, about: About) -> dict[str, Any]:
    return {"id": f"chatcmpl-{about.id}", "object": kind, "created": about.created, "model": about.model}


def _usage(replies: Sequence[Reply]) -> dict[str, Any]:
    """The tokens of the prompt, those of them that were cached, and those of all answers."""
    turn = replies[0].turn
    prompt = len(turn.prompt_ids) if turn.usage.prompt is None else turn.usage.prompt
    turns = [reply.turn for reply in replies]
    sampled = sum(each.count if each.usage.sampled is None else each.usage.sampled for each in turns)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": turn.usage.cached or 0},
    }
