"""OpenAI's chat completions.

Answers can have what training needs: with `return_token_ids`, as in vLLM, they have the token ids of prompt and answer,
and with `logprobs` the logprob of each token. So the gateway itself is a server for the policy `openai`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentfw import Message
from agentfw.episode import Call
from agentfw.session import Reply

from ..bodies import Asked, BadRequest, Body, chosen_actions
from .interface import About, arguments, counts, event

__all__ = ["ChatCompletions"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_FINISH = {"stop": "stop", "length": "length", "calls": "tool_calls"}


class ChatCompletions:
    """The format of /v1/chat/completions."""

    def read(self, body: Body) -> Asked:
        body.refuse(n=1, best_of=1, frequency_penalty=0, presence_penalty=0, logit_bias={}, functions=[], audio=None)
        if "response_format" in body and body.inner("response_format").text("type") != "text":
            raise BadRequest(
                "response_format is not supported; offer a tool with that schema",
                code="unsupported_parameter",
                field="response_format",
            )
        if "messages" not in body:
            raise body.wrong("messages", "is required")
        actions = []
        for tool in body.listed("tools"):
            if tool.text("type", "function") != "function":
                raise tool.wrong("type", "must be function")
            actions.append(tool.inner("function").action())
        choice = body.values.get("tool_choice")
        if isinstance(choice, dict):
            choice = body.inner("tool_choice").inner("function").name("name")
        elif choice in ("auto", "required"):
            choice = None
        options = body.inner("stream_options") if "stream_options" in body else Body({})
        return Asked(
            model=body.name("model"),
            messages=tuple(_message(message) for message in body.listed("messages")),
            actions=chosen_actions(actions, choice, body),
            sampling=body.sampling("max_tokens", "max_completion_tokens"),
            stop=body.strings("stop", 16),
            stream=body.flag("stream"),
            user=body.name("user", ""),
            with_usage=options.flag("include_usage"),
            with_tokens=body.flag("return_token_ids") or body.flag("logprobs"),
        )

    def whole(self, reply: Reply, asked: Asked, about: About) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if reply.calls else "")}
        if reply.calls:
            message["tool_calls"] = [_call(call) for call in reply.calls]
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _FINISH[reply.finish]}
        return {
            **_head("chat.completion", about),
            "choices": [{**choice, **_tokens(reply, asked)}],
            "usage": _usage(reply),
            "system_fingerprint": reply.turn.version,
        }

    def stream(self, asked: Asked, about: About) -> _Chunks:
        return _Chunks(asked, about)

    def error(self, problem: BadRequest) -> dict[str, Any]:
        kind = "invalid_request_error" if problem.status < 500 else "server_error"
        return {
            "error": {
                "message": problem.message,
                "type": kind,
                "param": problem.field or None,
                "code": problem.code or None,
            }
        }

    def failed(self, problem: BadRequest) -> bytes:
        return event(self.error(problem))


class _Chunks:
    """A streamed chat completion."""

    def __init__(self, asked: Asked, about: About) -> None:
        self._asked, self._about = asked, about

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def text(self, piece: str) -> Iterator[bytes]:
        yield self._chunk({"content": piece})

    def end(self, reply: Reply, rest: str) -> Iterator[bytes]:
        if rest:
            yield self._chunk({"content": rest})
        for index, call in enumerate(reply.calls):
            yield self._chunk({"tool_calls": [{"index": index, **_call(call)}]})
        # The tokens come together: some of their text may have to wait, and some belong to calls.
        yield self._chunk({}, _FINISH[reply.finish], **_tokens(reply, self._asked))
        if self._asked.with_usage:
            yield event({**_head("chat.completion.chunk", self._about), "choices": [], "usage": _usage(reply)})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
        return event({**_head("chat.completion.chunk", self._about), "choices": [choice]})


def _message(body: Body) -> Message:
    role = _ROLES.get(body.text("role"))
    if role is None:
        raise body.wrong("role", f"must be {', '.join(_ROLES)}")
    given = body.listed("tool_calls") if role == "assistant" else []
    calls = [call.inner("function").call(call.name("id")) for call in given]
    answers = body.name("tool_call_id") if role == "tool" else ""
    return Message(role, body.texts("content", ("text", "refusal")), tuple(calls), answers)


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}


def _tokens(reply: Reply, asked: Asked) -> dict[str, Any]:
    """The exact tokens, for whoever asks for them."""
    turn = reply.turn
    if not (asked.with_tokens and turn.token_ids):
        return {}
    return {
        "token_ids": turn.token_ids,
        "prompt_token_ids": turn.prompt_ids,
        "logprobs": {"content": [{"token": "", "logprob": one, "bytes": []} for one in turn.logprobs]},
    }


def _head(kind: str, about: About) -> dict[str, Any]:
    return {"id": f"chatcmpl-{about.id}", "object": kind, "created": about.created, "model": about.model}


def _usage(reply: Reply) -> dict[str, Any]:
    prompt, cached, sampled = counts(reply)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
