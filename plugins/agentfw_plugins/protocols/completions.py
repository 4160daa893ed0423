"""OpenAI's completions, which go on with a text without a chat template, and its embeddings, which are passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .bodies import Body
from .chat import ChatCompletions
from .protocol import Malformed, Protocol, StreamReader, StreamWriter, choice_of, event, objects, table, text

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
_MOST_TOKENS = 16  # the default of OpenAI's API


class Completions(ChatCompletions):
    name, path = "completions", "completions"
    plain, gives_tokens = True, False
    fields: Mapping[str, str] = {"messages": "prompt"}

    def read_request(self, body: Body) -> Body:
        given = body.values.get("prompt")
        prompt = given[0] if isinstance(given, list) and len(given) == 1 else given
        if isinstance(prompt, list):
            raise body.unsupported("prompt", "must be one text: send a request for each, and no token ids")
        if not isinstance(prompt, str) or not prompt:
            raise body.wrong("prompt", "must be a text that isn't empty")
        body.refuse(_NEUTRAL)
        values = {name: value for name, value in body.values.items() if name not in ("prompt", *_NEUTRAL)}
        limit = {} if "max_tokens" in body else {"max_tokens": _MOST_TOKENS}
        messages = [{"role": "user", "content": prompt}]
        return Body({**values, **limit, "messages": messages}, lenient=body.lenient)

    def write_request(self, chat: Body) -> dict[str, Any]:
        raise chat.unsupported("messages", "can't be answered by a server that only goes on with a text")

    def with_recalled(self, body: dict[str, Any], recalled: str) -> dict[str, Any]:
        return body  # a text has no place for it

    def read_answer(self, whole: Any) -> dict[str, Any]:
        if not isinstance(table(whole).get("choices"), list):
            raise Malformed("the answer has no choices")
        return {**whole, "choices": [_as_chat(choice, "message") for choice in objects(whole["choices"])]}

    def write_answer(self, reply: dict[str, Any], body: Body) -> dict[str, Any]:
        return _completion(reply, [_from_chat(choice, choice["message"]) for choice in reply["choices"]])

    def reader(self) -> StreamReader:
        return _ContinuationReader()

    def writer(self, body: Body) -> StreamWriter:
        return _ContinuationWriter()


class Embeddings(Protocol):
    """The protocol of /v1/embeddings, of which nothing is read."""

    name, path = "embeddings", "embeddings"
    converses, is_of_openai = False, True


class _ContinuationReader(StreamReader):
    def read(self, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
        choices = [_as_chat(choice, "delta") for choice in objects(found.get("choices"))]
        self.ended |= any(choice.get("finish_reason") for choice in choices)
        yield {**found, "choices": choices}


class _ContinuationWriter(StreamWriter):
    def take(self, chunk: dict[str, Any]) -> Iterator[bytes]:
        choice = choice_of(chunk)
        if choice or chunk.get("usage"):
            yield event(_completion(chunk, [_from_chat(choice, choice["delta"])] if choice else []))

    def end(self) -> Iterator[bytes]:
        yield b"data: [DONE]\n\n"


def _completion(reply: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    name = f"cmpl-{str(reply.get('id', '')).removeprefix('chatcmpl-')}"
    return {**reply, "id": name, "object": "text_completion", "choices": choices}


def _from_chat(choice: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in choice.items() if name not in ("message", "delta")}
    return {**kept, "text": said.get("content") or "", "logprobs": None}


def _as_chat(choice: dict[str, Any], key: str) -> dict[str, Any]:
    """The choice of a completion as that of a chat completion. Its logprobs have another format."""
    return {**choice, key: {"content": text(choice.get("text"))}, "logprobs": None}
