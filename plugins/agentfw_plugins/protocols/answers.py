"""Reads answers of servers: chat completions, whole or in chunks, as the framework's generations.

Answers are not trusted to be well-formed. An answer that is not a chat completion raises `Malformed` with the reason. A
broken call is a failure, and stays in the text as data. A server that is offered the tools (`native`) tells calls apart
by itself: the text is then text, whatever it contains. Otherwise, calls are what stands in the format that the model
was told, at the place of a call.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentfw import Generation
from agentfw.episode import Call, Usage
from agentfw.request import NO_CALLS, CallsInText
from agentfw.turns.parsing import parse_calls

from ..models.conversation import tagged
from .completion import choice_of, objects, said_in, table
from .protocol import Malformed, StreamReader

_AS_TOLD = CallsInText(frozenset(("tags",)))  # see agentfw_plugins.models.conversation
_MOST_TOKENS = 10**9  # no answer takes more tokens


class StreamedReply:
    def __init__(
        self, reader: Callable[[], StreamReader], hear: Callable[[Mapping[str, Any]], object] = lambda choice: None
    ) -> None:
        """`hear` is called with the choice of each chunk that has one."""
        self._read_anew, self._hear = reader, hear
        self.heard = False
        """Whether something was passed on, which can't be taken back."""
        self.begin()

    def begin(self) -> None:
        self.came = False
        """Whether anything came as a stream."""
        self._top: dict[str, Any] = {}
        self._choices: dict[int, _Parts] = {}
        self._reader = self._read_anew()

    def take(self, line: bytes) -> None:
        """Take the next line of the stream. Raises `Malformed` if it can't be read."""
        self.came = True
        for chunk in self._reader.take(line):
            self._top |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
            for choice in objects(chunk.get("choices")):
                index = choice.get("index")
                self._choices.setdefault(index if isinstance(index, int) else 0, _Parts()).add(choice)
                self.heard |= bool(choice.get("token_ids") or choice.get("delta"))
                self._hear(choice)

    @property
    def ended(self) -> bool:
        return self._reader.ended

    def whole(self) -> dict[str, Any]:
        """The reply. Raises `Malformed` if the stream ended before the answer did."""
        if not self.ended:
            raise Malformed("the stream ended before the answer")
        return self.so_far()

    def so_far(self) -> dict[str, Any]:
        return {**self._top, "choices": [self._choices[index].whole() for index in sorted(self._choices)]}


class _Parts:
    """What came of one choice. Pieces are joined at the end, because a text that grows is copied with each of them."""

    def __init__(self) -> None:
        self.choice: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def whole(self) -> dict[str, Any]:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        message: dict[str, Any] = {"role": "assistant", "content": "", **texts}
        if self._calls:
            message["tool_calls"] = [_whole_call(self._calls[index]) for index in sorted(self._calls)]
        return {**self.choice, "message": message}

    def add(self, choice: Mapping[str, Any]) -> None:
        told = {name: choice.get(name) for name in ("finish_reason", "prompt_token_ids", "index")}
        self.choice |= {name: value for name, value in told.items() if value is not None}
        if isinstance(token_ids := choice.get("token_ids"), list):
            self.choice.setdefault("token_ids", []).extend(token_ids)
        if isinstance(logprobs := choice.get("logprobs"), dict):
            found = self.choice.setdefault("logprobs", {})
            for part, values in logprobs.items():
                if isinstance(values, list):
                    found.setdefault(part, []).extend(values)
        delta = table(choice.get("delta"))
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if said := said_in(delta.get(name)):
                self._texts.setdefault(name, []).append(said)
        for part in objects(delta.get("tool_calls")):
            # A server that gives no index gives each call whole.
            index = part.get("index")
            call = self._calls.setdefault(
                index if isinstance(index, int) else len(self._calls), {"id": "", "type": "function", "function": {}}
            )
            call["id"] = call["id"] or part.get("id") or ""
            for name, value in table(part.get("function")).items():
                call["function"].setdefault(name, []).append(value)


def _whole_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments come in pieces. Some servers give them as an object: then the last piece is the whole."""
    given = {name: [one for one in pieces if one is not None] for name, pieces in call["function"].items()}
    texts = {name: all(isinstance(one, str) for one in pieces) for name, pieces in given.items()}
    function = {name: "".join(pieces) if texts[name] else pieces[-1] for name, pieces in given.items()}
    return {**call, "function": function}


def read_generation(reply: object, names: Collection[str], *, native: bool = True) -> Generation:
    """Parse an answer. `names` are the offered actions. Raises `Malformed` if it is not a chat completion."""
    if not isinstance(reply, dict):
        raise Malformed("the answer is not a JSON object")
    choice = choice_of(reply)
    if not choice:
        raise Malformed("the answer has no choices")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Malformed("the answer's choice has no message")
    if choice.get("finish_reason") == "abort":
        raise Malformed("the server aborted the answer")
    said = said_in(message.get("content"))
    text, calls, failures = _calls(said, message.get("tool_calls"), names)
    token_ids = _integers(choice.get("token_ids"))
    logprobs, pieces = _logprobs(choice.get("logprobs"))
    if token_ids and len(logprobs) != len(token_ids):
        logprobs, pieces = (), ()  # they belong to other tokens than these
    prompt_ids = _integers(reply.get("prompt_token_ids") or choice.get("prompt_token_ids"))
    usage, listed = read_usage(reply), len(token_ids) or len(pieces)
    prompt = (len(prompt_ids) or None) if usage.prompt is None else usage.prompt
    count = (listed or None) if usage.sampled is None else usage.sampled
    usage = replace(usage, prompt=prompt, sampled=count)
    if count is None:
        # Four characters a token: an answer that took no time at all would be worse than a rough guess.
        count = -(-len(said + json.dumps(message.get("tool_calls") or [])[1:-1]) // 4)
    return Generation(
        text=text,
        calls=calls,
        count=listed or count,
        prompt_ids=prompt_ids,
        token_ids=token_ids,
        logprobs=logprobs if token_ids else (),  # useless without the ids
        pieces=_within(pieces, text),
        version=str(reply.get("model") or ""),
        finish="length" if choice.get("finish_reason") == "length" else "stop",
        usage=usage,
        failures=failures,
        said=said if failures else None,
        in_text=NO_CALLS if native else _AS_TOLD,
    )


def read_usage(reply: Mapping[str, Any]) -> Usage:
    """How many tokens a server says that an answer took. A value that is no count is taken for unknown.

    More cached tokens than the prompt has are none: who says that would be charged less than it costs.
    """
    usage = table(reply.get("usage"))
    details = table(usage.get("prompt_tokens_details"))
    prompt, sampled = (_tokens(usage.get(f"{name}_tokens")) for name in ("prompt", "completion"))
    written, written_long = (_tokens(details.get(f"{name}_tokens")) or 0 for name in ("written", "written_long"))
    # Where servers report it: OpenAI and vLLM, Moonshot, DeepSeek.
    found = (details.get("cached_tokens"), usage.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"))
    cached = next((tokens for tokens in map(_tokens, found) if tokens is not None), None)
    if prompt is None or (cached or 0) + written > prompt or written_long > written:
        return Usage(prompt, cached if prompt is None or (cached or 0) <= prompt else None, sampled)
    return Usage(prompt, cached, sampled, written=written, written_long=written_long)


def _tokens(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def _calls(text: str, found: object, names: Collection[str]) -> tuple[str, tuple[Call, ...], tuple[str, ...]]:
    """The calls that the server parsed, and what is wrong with the others. If one is broken, all are in the text too.

    Broken ones become failures, which are recorded and which a format reward penalises.
    """
    if not isinstance(found, list) or not found:
        return text, (), ()
    calls, failures, written = list[Call](), list[str](), list[str]()
    for one in found:
        function = table(table(one).get("function"))
        written.append(tagged(function.get("name"), function.get("arguments")))
        # Parsed like any other, so that the rules for calls don't depend on who extracted them.
        parsed = parse_calls(written[-1], names)
        if len(parsed.calls) == 1 and not parsed.failures:
            call = parsed.calls[0]
            calls.append(Call(call.name, call.arguments, str(one.get("id") or "")))
        failures += parsed.failures
    if len(calls) < len(found):
        text = "\n".join([text, *written] if text else written)
    return text, tuple(calls), tuple(failures)


def _integers(values: object) -> tuple[int, ...]:
    return tuple(values) if isinstance(values, list) and all(isinstance(value, int) for value in values) else ()


def _logprobs(given: object) -> tuple[tuple[float, ...], tuple[str, ...]]:
    content = table(given).get("content")
    if not isinstance(content, list):
        return (), ()
    # A character can be split over several tokens. It belongs to the token that completes it.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    logprobs, pieces = list[float](), list[str]()
    for entry in content:
        logprob = table(entry).get("logprob")
        if not isinstance(logprob, int | float) or not math.isfinite(logprob):
            return (), ()
        logprobs.append(float(logprob))
        octets = _integers(entry.get("bytes"))
        fits = octets and all(0 <= octet < 256 for octet in octets)
        pieces.append(decoder.decode(bytes(octets)) if fits else str(entry.get("token") or ""))
    return tuple(logprobs), tuple(pieces)


def _within(pieces: Sequence[str], text: str) -> tuple[str, ...]:
    """The token texts, up to the end of the text. Servers omit the end token and the calls from the text."""
    if not "".join(pieces).startswith(text):
        return ()
    kept, left = list[str](), len(text)
    for piece in pieces:
        kept.append(piece[:left])
        left -= len(kept[-1])
    return tuple(kept)
