"""Reads the JSON bodies of requests. Everything in them is checked, because anybody may have written them.

A request that is passed on to a server is read for the record only, and the server says what is wrong with it. Such a
body is lenient: what can't be read is taken for missing, and what a record has no place for, such as a picture, is
there by its kind and a digest.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from agentfw import Message
from agentfw.episode import Call
from agentfw.request import Action, Sampling

_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_NAME = 200


class BadRequest(Exception):
    """A request that can't be served, with the status code of the answer."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        *,
        code: str = "",
        field: str = "",
        kind: str = "",
        headers: Mapping[str, str] | None = None,
        passed: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.field, self.kind = message, status, code, field, kind
        self.headers = dict(headers or {})
        """Headers of the answer."""
        self.passed = passed
        """The body of an upstream's refusal, as it came."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request asks for, whatever its protocol."""

    model: str
    messages: tuple[Message, ...]
    parts: tuple[tuple[str, ...], ...] = ()
    """The texts that each message of the user was made of, and nothing for other messages."""
    actions: tuple[Action, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    user: str = ""
    answers: int = 1
    """How many answers it wants."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the answer must follow."""
    plain: bool = False
    """Whether the answer goes on with the text of the only message."""
    must_call: bool = False
    """Whether the answer must have a call."""
    with_usage: bool = True
    """Whether the end of a stream has the token counts."""
    with_tokens: bool = False
    """Whether the answer has the token ids."""
    with_logprobs: bool = False
    """Whether the answer has the logprob of each token."""

    def each(self) -> list[ChatRequest]:
        """What is asked for each answer. With one seed, they would all be the same."""
        seed = self.sampling.seed
        seeds = [None if seed is None else seed + number for number in range(self.answers)]
        return [replace(self, sampling=replace(self.sampling, seed=each)) for each in seeds]


class Body:
    """A JSON object of a request. Methods raise BadRequest if a value is not what it must be."""

    def __init__(self, values: Mapping[str, Any], where: str = "", raw: bytes = b"", *, lenient: bool = False) -> None:
        self.values, self.where, self.raw, self.lenient = values, where, raw, lenient

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def wrong(self, key: str, words: str) -> BadRequest:
        field = f"{self.where}{key}"
        return BadRequest(f"{field} {words}", field=field)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            if self.lenient:
                return default or ""
            raise self.wrong(key, "is required" if value is None else "must be text")
        return value

    def name(self, key: str, default: str | None = None) -> str:
        value = self.text(key, default)
        if (len(value) > _LONGEST_NAME or not value.isprintable()) and not self.lenient:
            raise self.wrong(key, f"must be at most {_LONGEST_NAME} printable characters")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool) and not self.lenient:
            raise self.wrong(key, "must be true or false")
        return value is True

    def number(self, key: str, low: float, high: float) -> float | None:
        if (value := self.values.get(key)) is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (self.lenient or low <= value <= high):
            return float(value)
        if self.lenient:
            return None
        raise self.wrong(key, f"must be a number from {low:g} to {high:g}")

    def either(self, first: str, second: str) -> str:
        """A text that may have either of two names. Empty if it isn't there."""
        texts = {self.text(first, ""), self.text(second, "")} - {""}
        if len(texts) > 1:
            raise self.wrong(first, f"and {second} say different things")
        return next(iter(texts), "")

    def whole(self, key: str, low: int, high: int = 2**63 - 1) -> int | None:
        if (value := self.values.get(key)) is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"must be a whole number from {low}")
        return value

    def inner(self, key: str) -> Body:
        value = self.values.get(key)
        if not isinstance(value, dict):
            if not self.lenient:
                raise self.wrong(key, "must be an object")
            value = {}
        return Body(value, f"{self.where}{key}.", lenient=self.lenient)

    def listed(self, key: str) -> list[Body]:
        value = self.values.get(key)
        items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if value is not None and items != value and not self.lenient:
            raise self.wrong(key, "must be a list of objects")
        return [Body(item, f"{self.where}{key}[{at}].", lenient=self.lenient) for at, item in enumerate(items)]

    def texts(self, key: str, parts: tuple[str, ...], between: str = "") -> str:
        """Text, or a list of parts that have text. Parts of other types are refused."""
        value, found = self.values.get(key), list[str]()
        if isinstance(value, str):
            return value
        for part in self.listed(key):
            if part.values.get("type", "text") not in parts:
                words = f"must be {' or '.join(parts)}: this server reads text only"
                found.append(part.left_out(part.wrong("type", words)))
            else:
                found.append(part.text("refusal") if "refusal" in part else part.text("text"))
        return between.join(found)

    def parts(self, key: str) -> list[Body]:
        """The parts of a content. A text is one of them."""
        value = self.values.get(key)
        if isinstance(value, str):
            return [Body({"type": "text", "text": value}, f"{self.where}{key}.", lenient=self.lenient)] if value else []
        return self.listed(key)

    def strings(self, key: str, most: int) -> tuple[str, ...]:
        value = self.values.get(key)
        items = [value] if isinstance(value, str) else value or []
        if not isinstance(items, list) or len(items) > most or not all(isinstance(item, str) for item in items):
            raise self.wrong(key, f"must be text or a list of at most {most} texts")
        return tuple(items)

    def sampling(self, *limits: str) -> Sampling:
        """The sampling. `limits` are the keys that the maximum number of tokens may have."""
        found = [limit for key in limits if (limit := self.whole(key, 1)) is not None]
        seed, top_p = self.whole("seed", -(2**63)), self.number("top_p", 0, 1)
        if top_p == 0:
            raise self.wrong("top_p", "must be more than 0")
        seed = None if seed is None else abs(seed)
        return Sampling(self.number("temperature", 0, 2), top_p, min(found, default=None), seed)

    def refuse(self, neutral: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuse what can't be done, by name. The values are those that change nothing, besides null."""
        for key, values in neutral.items():
            if key in self and self.values[key] not in values and not self.lenient:
                raise self.unsupported(key)

    def refuse_others(self, known: Collection[str]) -> None:
        for key in self.values:
            if key in self and key not in known and not self.lenient:
                raise self.unsupported(key)

    def unsupported(self, key: str, words: str = "is not supported") -> BadRequest:
        field = f"{self.where}{key}"
        return BadRequest(f"{field[:200]} {words}", code="unsupported_parameter", field=field[:200])

    def left_out(self, problem: BadRequest) -> str:
        """What the record has in place of this object. Raises the problem unless the body is lenient."""
        if not self.lenient:
            raise problem
        kind = self.values.get("type")
        digest = blake2b(json.dumps(self.values, sort_keys=True).encode(), digest_size=6).hexdigest()
        return f"[{kind if isinstance(kind, str) and kind else 'part'} {digest}]"

    def action(self, name: str = "name", schema: str = "parameters") -> Action:
        called, parameters = self.name(name), self.inner(schema).values if schema in self else {}
        if not called.strip() and not self.lenient:
            raise self.wrong(name, "must not be empty")
        return Action(called, self.text("description", ""), parameters or {"type": "object", "properties": {}})

    def call(self, identity: str, name: str = "name", arguments: str = "arguments") -> Call:
        """A call of an earlier answer. Its arguments are an object, or the JSON of one."""
        given = self.values.get(arguments)
        if isinstance(given, str):
            try:
                given = json.loads(given or "{}", parse_constant=_no_constant)
            except (ValueError, RecursionError):
                given = None
        if not isinstance(given, dict):
            raise self.wrong(arguments, "must be a JSON object")
        return Call(self.name(name), _clean(given), identity)


def read_body(raw: bytes) -> Body:
    try:
        values = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadRequest("the body must be JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise BadRequest("the body must be a JSON object")
    # Escapes can spell lone surrogates, which no file and no tokenizer accepts, and numbers that are too large.
    return Body(_clean(values), raw=raw)


def _clean(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRequest("the body has a number that is too large")
    if isinstance(value, (dict, list)):
        if depth > 100:
            raise BadRequest("the body is nested too deep")
        if isinstance(value, list):
            return [_clean(item, depth + 1) for item in value]
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
