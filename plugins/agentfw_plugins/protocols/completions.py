"""OpenAI's completions: continuations of a text, without a chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .bodies import BadRequest, Body
from .chat_completions import ChatCompletions
from .parts import choice_of
from .protocol import event

__all__ = ["Completions"]

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "suffix": ("",),
    "echo": (False,),
    "logprobs": (),
    "best_of": (1,),
    "messages": (),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
"""Values that change nothing, of fields that a policy in this process can't do here."""
_MOST_TOKENS = 16
"""The default of OpenAI's API."""


class Completions:
    """The format of /v1/completions."""

    path = "completions"
    required: Mapping[str, Any] = {}
    names: Mapping[str, str] = {"messages": "prompt"}

    def chat(self, body: Body) -> Body:
        given = body.values.get("prompt")
        prompt = given[0] if isinstance(given, list) and len(given) == 1 else given
        if isinstance(prompt, list):
            raise body.unsupported("prompt", "must be one text: send a request for each, and no token ids")
        if not isinstance(prompt, str) or not prompt:
            raise body.wrong("prompt", "must be a text that isn't empty")
        body.refuse(_NEUTRAL)
        values = {name: value for name, value in body.values.items() if name not in ("prompt", *_NEUTRAL)}
        limit = {} if "max_tokens" in body else {"max_tokens": _MOST_TOKENS}
        return Body({**values, **limit, "messages": [{"role": "user", "content": prompt}]})

    def whole(self, reply: Mapping[str, Any], body: Body) -> dict[str, Any]:
        choices = [_choice(choice, choice["message"]) for choice in reply["choices"]]
        return {**reply, "id": _id(reply), "object": "text_completion", "choices": choices}

    def stream(self, body: Body) -> _Chunks:
        return _Chunks()

    def error(self, problem: BadRequest) -> dict[str, Any]:
        return ChatCompletions().error(problem)

    def failed(self, problem: BadRequest) -> bytes:
        return ChatCompletions().failed(problem)


class _Chunks:
    """A streamed completion."""

    def take(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        choice = choice_of(chunk)
        if choice or chunk.get("usage"):
            choices = [_choice(choice, choice["delta"])] if choice else []
            yield event({**chunk, "id": _id(chunk), "object": "text_completion", "choices": choices})

    def end(self) -> Iterator[bytes]:
        yield b"data: [DONE]\n\n"


def _choice(choice: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in choice.items() if name not in ("message", "delta")}
    return {**kept, "text": said.get("content") or "", "logprobs": None}


def _id(reply: Mapping[str, Any]) -> str:
    return f"cmpl-{str(reply.get('id', '')).removeprefix('chatcmpl-')}"
