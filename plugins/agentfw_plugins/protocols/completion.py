"""Chat completions, the format between protocols: what is read from them, and what they are made of.

Servers write them, so nothing in them is trusted: `table`, `objects`, `text` and `number` take a value of another type
for an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentfw.request import Sampling

Json = dict[str, Any]


def parsed(content: str | bytes) -> Any:
    """The value of a JSON text. None if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def table(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def said_in(content: object) -> str:
    """The text of a content, which some servers give in parts, such as thoughts and text."""
    return "".join(text(part.get("text")) for part in objects(content)) or text(content)


def number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    words = json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {words}\n\n".encode()


def choice_of(reply: Mapping[str, Any]) -> Json:
    """The first choice of an answer, or of a chunk. Empty if there is none."""
    choices = reply.get("choices")
    return table(choices[0]) if isinstance(choices, list) and choices else {}


def chunk_of(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def as_chunk(reply: Json) -> Json:
    """A whole answer as the only chunk of a stream. Each call is whole, whatever indexes a server gave them."""
    message = table(choice_of(reply).get("message"))
    calls = [{**call, "index": place} for place, call in enumerate(objects(message.get("tool_calls")))]
    return {**reply, "choices": [{**choice_of(reply), "delta": {**message, "tool_calls": calls}}]}


def text_alone(parts: Sequence[Mapping[str, Any]], between: str = "") -> Any:
    """A message's content: text alone as text, as most servers want it."""
    if all(set(part) == {"type", "text"} and part["type"] == "text" for part in parts):
        return between.join(part["text"] for part in parts)
    return list(parts)


def content_of(role: str, parts: Sequence[Mapping[str, Any]]) -> Any:
    """A message's content. The parts of a user's stay apart: a program puts others' words beside theirs."""
    return list(parts) if role == "user" and len(parts) > 1 else text_alone(parts)


def with_text(content: object, recalled: str) -> object:
    """The text or the parts of a system message, with what was recalled."""
    if isinstance(content, list):
        return [*content, {"type": "text", "text": recalled}]
    return f"{content}\n\n{recalled}" if content else recalled


def call_of(identity: object, name: object, arguments: object) -> Json:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def call_deltas(chunk: Mapping[str, Any]) -> Iterator[tuple[int, str, str, str]]:
    """The parts of calls in a chunk: the call's index, its id, its name, and more of its arguments."""
    for place, part in enumerate(objects(table(choice_of(chunk).get("delta")).get("tool_calls"))):
        function, index = table(part.get("function")), part.get("index")
        more = function.get("arguments") or ""
        more = more if isinstance(more, str) else json.dumps(more, ensure_ascii=False)  # some servers send the object
        words = (str(part.get("id") or ""), str(function.get("name") or ""))
        yield (index if isinstance(index, int) else place, *words, more)


def arguments_of(written: object) -> Json:
    """The arguments of a call. Those that are no JSON object are there as they came."""
    found = parsed(written or "{}") if isinstance(written, str) else written
    return found if isinstance(found, dict) else {"arguments": written}


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The thoughts in a message or delta, under either of the names that servers give them."""
    return text(message.get("reasoning_content") or message.get("reasoning"))


class Counts(NamedTuple):
    """How many tokens an answer took. What a server doesn't say is 0."""

    prompt: int
    cached: int
    sampled: int
    reasoning: int

    @property
    def total(self) -> int:
        return self.prompt + self.sampled


def counts_in(reply: Mapping[str, Any]) -> Counts:
    usage = table(reply.get("usage"))
    cached = table(usage.get("prompt_tokens_details")).get("cached_tokens")
    reasoning = table(usage.get("completion_tokens_details")).get("reasoning_tokens")
    found = (usage.get("prompt_tokens"), cached, usage.get("completion_tokens"), reasoning)
    return Counts(*(max(0, number(one)) for one in found))


def sampled(body: Json, run: Sampling, names: Mapping[str, str], *, run_wins: bool) -> Json:
    """The body with the sampling of a run under these names. The maximum number of tokens is the smaller of both.

    A seed is sent only if the run wins, so that the same question again has another answer.
    """
    found = dict(body)
    for own, name in names.items():
        value, asked = getattr(run, own), body.get(name)
        if value is None or (own == "seed" and not run_wins):
            continue
        if own == "max_tokens":
            found[name] = min(asked, value) if isinstance(asked, int) else value
        elif run_wins or asked is None:
            found[name] = value
    return found
