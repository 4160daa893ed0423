"""Reading calls out of what a model wrote.

The one rule: no text whatsoever raises here. What can be understood becomes calls; what looks like a call and can't be
understood becomes a failure in words, which the agent is told and a format reward sees.

Understood are the shapes that models are trained to write: a JSON object or list with `name` and `arguments` (or
`parameters`), bare, in a code fence, or in <tool_call> tags, anywhere in the text; and XML elements such as
<handle message="3"/> whose name is one of the actions.

    >>> parse_calls('Sure. <tool_call>{"name": "open", "arguments": {"message": 3}}</tool_call>', ["open"]).calls[0].arguments
    {'message': 3}
    >>> parse_calls('<open message="3"/>', ["open"]).calls[0].arguments
    {'message': '3'}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from .episode import Call
from .errors import nearest

__all__ = ["Parsed", "parse_calls"]


@dataclass(slots=True)
class Parsed:
    """What a text holds."""

    calls: list[Call] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_FENCED = re.compile(r"```(?:json|tool_call)?\s*\n?(.*?)(?:```|\Z)", re.S)
_ATTRIBUTE = re.compile(r"""([A-Za-z_][\w.-]*)\s*=\s*("[^"]*"|'[^']*')""")
_LONGEST = 1_000_000  # characters; what is beyond is not read
_MOST = 64  # calls in one answer; more is a model that has lost the thread
_DEEPEST = 64  # nested brackets


def parse_calls(text: str, names: Collection[str]) -> Parsed:
    """The calls in a text, to any of the actions `names`."""
    parsed = Parsed()
    text = text[:_LONGEST]
    found = [(match.start(), value) for match, value in _json_values(text, parsed)]
    found += [(match.start(), value) for match, value in _elements(text, names)]
    for _, value in sorted(found, key=lambda item: item[0]):
        for one in value if isinstance(value, list) else [value]:
            _take(one, names, parsed)
            if len(parsed.calls) >= _MOST:
                parsed.failures.append(f"more than {_MOST} calls in one answer; the rest was not read")
                return parsed
    return parsed


def _take(value: object, names: Collection[str], parsed: Parsed) -> None:
    """One JSON value as a call, or as a failure."""
    if not isinstance(value, dict):
        parsed.failures.append(f"a call must be an object with a name and arguments, not {type(value).__name__}")
        return
    inner = value.get("function")
    call: dict[str, Any] = inner if isinstance(inner, dict) else value
    name = call.get("name")
    if not isinstance(name, str):
        parsed.failures.append("a call without a name")
        return
    if name not in names:
        guess = nearest(name[:100], names)
        parsed.failures.append(f'there is no action "{name[:100]}"' + (f'; did you mean "{guess}"?' if guess else ""))
        return
    arguments: Any = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _loads(arguments) if arguments.strip() else {}
    if not isinstance(arguments, dict):
        parsed.failures.append(f"the arguments of {name} must be an object")
        return
    parsed.calls.append(Call(name, arguments, f"call_{len(parsed.calls)}"))


class _Span:
    """Where a value began; stands in for a match."""

    __slots__ = ("_start",)

    def __init__(self, start: int) -> None:
        self._start = start

    def start(self) -> int:
        return self._start


def _json_values(text: str, parsed: Parsed) -> Iterator[tuple[_Span | re.Match[str], Any]]:
    """Every JSON value that is tagged, fenced, or stands in the text by itself and has a name."""
    covered: list[tuple[int, int]] = []
    for pattern in (_TAGGED, _FENCED):
        for match in pattern.finditer(text):
            if any(start <= match.start() < end for start, end in covered):
                continue
            covered.append(match.span())
            inner = match[1].strip()
            value = _loads(inner)
            if value is not None:
                yield match, value
            elif pattern is _TAGGED:
                parsed.failures.append("a <tool_call> that holds no JSON")
            elif '"name"' in inner:
                parsed.failures.append("a code block that is meant as a call but holds no JSON")
    decoder = json.JSONDecoder()
    position = 0
    attempts = 0
    while (start := text.find("{", position)) >= 0 and attempts < 10 * _MOST:
        position = start + 1
        end = next((end for begin, end in covered if begin <= start < end), None)
        if end is not None:
            position = end
            continue
        attempts += 1
        if _depth(text, start) > _DEEPEST:
            parsed.failures.append("brackets nested too deep to be a call")
            return
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and ("name" in value or "function" in value):
            yield _Span(start), value


def _elements(text: str, names: Collection[str]) -> Iterator[tuple[re.Match[str], Any]]:
    """XML elements named like an action; attributes are arguments, and text inside is `text`."""
    if not names or "<" not in text:
        return
    some = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"<({some})((?:\s+[\w.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*(?:/>|>([^<]*)</\1>)")
    for match in pattern.finditer(text):
        arguments = {key: unescape(quoted[1:-1]) for key, quoted in _ATTRIBUTE.findall(match[2])}
        if match[3] and match[3].strip():
            arguments.setdefault("text", unescape(match[3].strip()))
        yield match, {"name": match[1], "arguments": arguments}


def _loads(text: str) -> Any:
    """The JSON value that a text is, or None."""
    if _depth(text, 0) > _DEEPEST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _depth(text: str, start: int) -> int:
    """How many brackets open in a row at most, counted roughly: enough to keep the decoder off the recursion limit."""
    depth = deepest = 0
    for character in text[start : start + 100_000]:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > _DEEPEST:
                return deepest
        elif character in "]}":
            depth -= 1
            if depth <= 0:
                return deepest
    return deepest
