"""Reads tool calls from the text of a model.

No text raises an exception here. Whatever can be understood becomes a call. Whatever looks like a call but can't be
parsed becomes a failure message, for the record and for a format reward.

It understands the formats that models are trained to write: a JSON object or list with `name` and `arguments` (or
`parameters`), bare, in a code fence, or in <tool_call> tags, anywhere in the text; the same in the format of an OpenAI
server (`function`, `tool_calls`); and XML elements such as <open message="3"/> whose name is an action.

    >>> text = 'Sure. <tool_call>{"name": "open", "arguments": {"message": 3}}</tool_call>'
    >>> parse_calls(text, ["open"]).calls[0].arguments
    {'message': 3}
    >>> parse_calls('<open message="3"/>', ["open"]).calls[0].arguments
    {'message': '3'}

Arguments hold plain JSON only: no NaN, no infinity, no lone surrogates, and no excessive nesting. Parsing takes linear
time for any text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import islice
from typing import Any

from .episode import Call
from .errors import nearest

__all__ = ["Parsed", "parse_calls"]


@dataclass(slots=True)
class Parsed:
    """The calls and failures found in a text."""

    calls: list[Call] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    rest: str = ""
    """The text outside of the calls."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A JSON value or a failure message, with its position."""

    start: int
    end: int
    value: object = None
    failure: str = ""


_BLOCK = re.compile(r"<tool_call>(?P<tagged>.*?)(?:</tool_call>|\Z)|```(?P<kind>[\w-]*)(?P<fenced>.*?)(?:```|\Z)", re.S)
_OBJECT = re.compile(r'\{\s*"')
_ATTRIBUTE = re.compile(r"""([\w.-]+)\s*=\s*("[^"]*"|'[^']*')""")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = ("", "json", "tool_call")  # of code fences; a fence marked as another language is not a call
_LONGEST = 1_000_000  # characters; the rest is not read
_MOST = 64  # calls, and failures, in one answer; more means that the model is stuck in a loop
_DEEPEST = 64  # levels of nesting
_ATTEMPTS = 1_000  # positions at which a bare object might begin
_decode = json.JSONDecoder().raw_decode


def parse_calls(text: str, names: Collection[str]) -> Parsed:
    """Parse the calls in a text to any of the actions `names`."""
    parsed = Parsed(rest=text)
    text = text[:_LONGEST]
    blocks = list(islice(_BLOCK.finditer(text), _MOST + 1))
    found = [*_in_blocks(blocks), *islice(_bare(text, blocks), _MOST + 1)]
    taken = [(one.start, one.end) for one in found if not one.failure]
    elements = list(_elements(text, names, taken))
    # An element inside a block is part of that block's content.
    found = [one for one in found if not (one.failure and _within(one, elements))]
    called: list[_Found] = []
    for one in sorted([*found, *elements], key=lambda one: one.start):
        before = len(parsed.calls)
        for value in one.value if isinstance(one.value, list) else [one.value]:
            if one.failure:
                parsed.failures.append(one.failure)
            else:
                _take(value, names, parsed)
            if len(parsed.calls) >= _MOST or len(parsed.failures) >= _MOST:
                parsed.failures.append(f"more than {_MOST} calls in one answer; the rest was not read")
                return parsed
        if len(parsed.calls) > before:
            called.append(one)
    if called:
        parsed.rest = _without(text, called)
    return parsed


def _without(text: str, called: list[_Found]) -> str:
    """The text outside of the calls that were found, in order."""
    ends = [0, *(one.end for one in called)]
    starts = [*(one.start for one in called), len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _within(block: _Found, elements: list[_Found]) -> bool:
    return any(block.start < element.start < block.end for element in elements)


def _take(value: object, names: Collection[str], parsed: Parsed) -> None:
    """Read one JSON value as a call, or record a failure."""
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
    arguments: Any = call.get("arguments", call.get("parameters"))
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        arguments = {}
    elif isinstance(arguments, str):
        arguments = _loads(arguments)
    if not isinstance(arguments, dict):
        parsed.failures.append(f"the arguments of {name} must be an object")
        return
    parsed.calls.append(Call(name, arguments, f"call_{len(parsed.calls)}"))


def _in_blocks(blocks: list[re.Match[str]]) -> Iterator[_Found]:
    """The JSON values in tags and fences."""
    for block in blocks:
        tagged = block["tagged"] is not None
        inner = block["tagged"] if tagged else block["fenced"]
        if not tagged and block["kind"].lower() not in _KINDS:
            continue
        value = _loads(inner)
        if value is not None and (tagged or _is_call(value)):
            yield _Found(*block.span(), value=_unwrapped(value))
        elif tagged:
            yield _Found(*block.span(), failure="a <tool_call> without JSON in it")
        elif '"name"' in inner:
            yield _Found(*block.span(), failure="a code block that looks like a call but contains no JSON")


def _bare(text: str, blocks: list[re.Match[str]]) -> Iterator[_Found]:
    """The JSON objects outside of tags and fences that are calls."""
    position = attempts = read = 0
    after = iter(blocks)
    block = next(after, None)
    while match := _OBJECT.search(text, position):
        start = match.start()
        while block is not None and block.end() <= start:
            block = next(after, None)
        if block is not None and block.start() <= start:
            position = block.end()
            continue
        attempts += 1
        if attempts > _ATTEMPTS or read > 4 * _LONGEST:
            yield _Found(start, start, failure="too many brackets to find a call among them")
            return
        try:
            value, position = _decode(text, start)
        except json.JSONDecodeError as error:
            read += error.pos - start
            position = start + 1
            continue
        except (ValueError, RecursionError):
            read += 10_000
            position = start + 1
            continue
        if _is_call(value):
            plain = _plain(value)
            if plain is None:
                yield _Found(start, position, failure="a call that is not plain JSON, or nested too deep")
            else:
                yield _Found(start, position, value=_unwrapped(plain))


def _elements(text: str, names: Collection[str], taken: list[tuple[int, int]]) -> Iterator[_Found]:
    """XML elements named like an action. Attributes are arguments, and text inside is `text`."""
    if not names or "<" not in text:
        return
    some = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"<({some})((?:\s+[\w.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*(?:/>|>([^<]*)</\1>)")
    for match in islice(pattern.finditer(text), _MOST + 1):
        if any(start < match.start() < end for start, end in taken):
            continue  # it is part of an argument
        arguments = {key: _whole(unescape(quoted[1:-1])) for key, quoted in _ATTRIBUTE.findall(match[2])}
        if match[3] and match[3].strip():
            arguments.setdefault("text", _whole(unescape(match[3].strip())))
        yield _Found(*match.span(), value={"name": match[1], "arguments": arguments})


def _is_call(value: object) -> bool:
    """Whether a value looks like a call, valid or not."""
    if isinstance(value, list):
        return bool(value) and all(_is_call(one) for one in value[:_MOST])
    return isinstance(value, dict) and any(key in value for key in ("name", "function", "tool_calls"))


def _unwrapped(value: object) -> object:
    """The list in which an OpenAI server wraps calls."""
    wrapped = value.get("tool_calls") if isinstance(value, dict) else None
    return wrapped if isinstance(wrapped, list) else value


def _loads(text: str) -> Any:
    """The text as a JSON value, or None."""
    try:
        return _plain(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _plain(value: Any, depth: int = 0) -> Any:
    """A decoded value without lone surrogates, or None if it is not plain JSON or nested too deep."""
    try:
        return _plainly(value, depth)
    except ValueError:
        return None


def _plainly(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a number")
    if isinstance(value, (dict, list)):
        if depth >= _DEEPEST:
            raise ValueError("nested too deep")
        if isinstance(value, list):
            return [_plainly(item, depth + 1) for item in value]
        return {_whole(key): _plainly(item, depth + 1) for key, item in value.items()}
    return value


def _whole(text: str) -> str:
    """A lone surrogate is not a character. No file or tokenizer accepts it."""
    return _SURROGATE.sub("\ufffd", text)
