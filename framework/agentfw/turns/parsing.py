"""Reads tool calls from the text of a model.

A call is a call only where the model made it as one. Whoever can write into what a model quotes must not be able to
act, so the place of a call counts as much as its format:

- `<tool_call>` blocks with a JSON object or list of `name` and `arguments` (or `parameters`), and XML elements such as
  <open message="3"/> whose name is an action. Each begins a line, or follows the end of a sentence or another call. The
  last one ends the text.
- The same JSON bare, also in the format of an OpenAI server (`function`, `tool_calls`). Such calls are all of the
  answer.

Thoughts (<think>) may stand before them. What is in quotation marks, in code or inside of a sentence is text.
`CallsInText` says which of the formats count for an answer, and, where the tokens of the answer show it, at which
places. For a policy that tells calls apart by itself, no text is a call (`NO_CALLS`).

    >>> text = 'Sure. <tool_call>{"name": "open", "arguments": {"message": 3}}</tool_call>'
    >>> parse_calls(text, ["open"]).calls[0].arguments
    {'message': 3}
    >>> parse_calls(f'The mail says: "{text}"', ["open"]).calls
    []
    >>> parse_calls('<open message="3"/>', ["open"]).calls[0].arguments
    {'message': '3'}

No text raises an exception here. What stands at the place of a call but can't be parsed becomes a failure message, for
the record and for a format reward. Arguments hold plain JSON only: no NaN, no infinity, no lone surrogates, and no
excessive nesting. Parsing takes linear time for any text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from ..episode import Call
from ..errors import nearest
from ..request import CallFormat, CallsInText

__all__ = ["Parsed", "StreamedText", "parse_calls"]


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


_TAG, _TAG_ENDS = "<tool_call>", "</tool_call>"
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.S)
_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"[\s,;]*")
_FENCED = re.compile(r"\s*```(?:json|tool_call)?\s*(?=[\[{])(.*?)```\s*", re.S | re.I)
_ATTRIBUTE = re.compile(r"""([\w.-]+)\s*=\s*("[^"]*"|'[^']*')""")
_PLACE = re.compile(r"(?:^|\n|[.!?>])[ \t]*(?=<)")
"""Where a call in tags can begin: on a line of its own, or after a sentence or another call."""
_WHOLE = re.compile(r"\s*(?:<think>.*?(?:</think>\s*|\Z))?(?=[\[{])", re.S)
"""Where a call in bare JSON can begin: with the answer."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST = 1_000_000  # characters; the rest is not read
_MOST = 64  # calls, and failures, in one answer; more means that the model is stuck in a loop
_DEEPEST = 64  # levels of nesting
_decode = json.JSONDecoder().raw_decode


def parse_calls(text: str, names: Collection[str], where: CallsInText | None = None) -> Parsed:
    """Parse the calls in a text to any of the actions `names`."""
    parsed = Parsed(rest=text)
    where = where or CallsInText()
    text = text[:_LONGEST]
    reader = _Reader(text, names, where.follows_anything)
    if where.places is None:
        found = reader.whole(where.formats) or reader.ending(where.formats)
    else:
        found = reader.at(sorted(where.places))
    end = 0
    outside: list[str] = []
    for one in found:
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
            outside.append(text[end : one.start])
            end = one.end
    if outside:
        parsed.rest = "".join([*outside, text[end:]])
    return parsed


class _Reader:
    """Finds calls in one text."""

    def __init__(self, text: str, names: Collection[str], follows_anything: bool) -> None:
        self._follows_anything = follows_anything
        self._text = text
        some = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        self._begins = re.compile(rf"{_TAG}|<(?:{some or '(?!)'})(?=[\s/>])")
        attributes = r"((?:\s+[\w.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)"
        self._element = re.compile(rf"<({some or '(?!)'}){attributes}\s*(?:/>|>([^<]*)</\1>)")
        thought = _THOUGHT.match(text)
        self._begin = thought.end() if thought else 0  # where the answer begins, after the thoughts

    def whole(self, formats: Collection[CallFormat]) -> list[_Found]:
        """The calls, if the text consists of nothing else."""
        found, place = list[_Found](), self._skip(_BETWEEN, self._begin)
        while place < len(self._text):
            if (one := self._one(place, formats)) is None:
                fenced = _FENCED.fullmatch(self._text, self._begin) if "json" in formats else None
                if fenced and '"name"' in fenced[1]:
                    return [_Found(self._begin, len(self._text), failure="a call in a code block is not carried out")]
                return []
            found.append(one)
            if len(found) > _MOST:
                break
            place = self._skip(_BETWEEN, one.end)
        return found

    def ending(self, formats: Collection[CallFormat]) -> list[_Found]:
        """The calls in tags and elements, if the last of them ends the text."""
        places = (begins.start() for begins in self._begins.finditer(self._text, self._begin))
        found = self.at(places, [each for each in formats if each != "json"])
        return found if found and not self._text[found[-1].end :].strip() else []

    def at(self, places: Iterable[int], formats: Collection[CallFormat] = ("tags", "json")) -> list[_Found]:
        """The calls at these places, as far as they are places of calls."""
        found, last, quoting = list[_Found](), 0, _Quoting(self._text)
        for place in places:
            # What is before the end of the last call is part of its arguments.
            if place < last or not self._follows(place, last if found else 0) or quoting.at(place):
                continue
            if (one := self._one(place, formats)) is None:
                continue
            last = one.end
            after = self._text[last : last + 1]
            if after and not after.isspace() and after not in "<{[":
                continue  # somebody's words go on
            found.append(one)
            quoting.skip(last)
            if len(found) > _MOST:
                break
        return found

    def _follows(self, place: int, last: int) -> bool:
        """Whether a call can begin here: on a new line, or after a sentence or another call."""
        if self._follows_anything:
            return True
        before = self._text[max(self._text.rfind("\n", 0, place) + 1, place - 200, last) : place]
        if not before.strip():
            return len(before.expandtabs()) < 4  # from 4 on it is code
        return before.rstrip().endswith((".", "!", "?", "</think>"))

    def _one(self, place: int, formats: Collection[CallFormat]) -> _Found | None:
        first = self._text[place : place + 1]
        if self._text.startswith(_TAG, place):
            return self._block(place) if "tags" in formats else None
        if first in ("{", "["):
            value: Any = None
            with suppress(ValueError, RecursionError):
                value, end = _decode(self._text, place) if "json" in formats else (None, place)
            if not _is_call(value):
                return None
            try:
                return _Found(place, end, value=_unwrapped(_plain(value)))
            except ValueError:
                return _Found(place, end, failure="a call that is not plain JSON, or nested too deep")
        element = self._element.match(self._text, place) if "elements" in formats else None
        return self._read(element) if element else None

    def _block(self, place: int) -> _Found:
        """A block in tags. One without an end goes to the end of the text: it ran out of tokens after the call."""
        inside = self._skip(_SPACE, place + len(_TAG))
        if self._text[inside : inside + 1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                value, end = _decode(self._text, inside)
                closing, plain = self._skip(_SPACE, end), _plain(value)
                if self._text[closing : closing + len(_TAG_ENDS)] in ("", _TAG_ENDS):
                    return _Found(place, min(closing + len(_TAG_ENDS), len(self._text)), value=_unwrapped(plain))
        closing = self._text.find(_TAG_ENDS, inside)
        closing = len(self._text) if closing < 0 else closing
        end = min(closing + len(_TAG_ENDS), len(self._text))
        element = self._element.match(self._text, inside)
        if element and self._skip(_SPACE, element.end()) == closing:
            return _Found(place, end, value=self._read(element).value)
        whole = self._text[inside:closing].strip()
        if whole and whole[0] in "-0123456789" and (number := _loads(whole)) is not None:
            return _Found(place, end, value=number)
        return _Found(place, end, failure="a <tool_call> without JSON in it")

    def _read(self, element: re.Match[str]) -> _Found:
        """An XML element. Attributes are arguments, and text inside is `text`."""
        arguments = {key: _whole(unescape(quoted[1:-1])) for key, quoted in _ATTRIBUTE.findall(element[2])}
        if element[3] and element[3].strip():
            arguments.setdefault("text", _whole(unescape(element[3].strip())))
        return _Found(*element.span(), value={"name": element[1], "arguments": arguments})

    def _skip(self, what: re.Pattern[str], place: int) -> int:
        found = what.match(self._text, place)
        return found.end() if found else place


class _Quoting:
    """Whether a place is quoted. Places are asked for in order, so that the text is read once."""

    def __init__(self, text: str) -> None:
        self._text, self._read = text, 0
        self._fences = self._ticks = self._marks = self._open = 0

    def skip(self, end: int) -> None:
        """Go on after a call. What is in its arguments quotes nothing outside of it."""
        self._read = end

    def at(self, place: int) -> bool:
        new = self._text[self._read : place]
        self._read = place
        self._fences += new.count("```")
        # A quotation that nobody closed ends with its paragraph, and code in a line with the line.
        _, gap, paragraph = new.rpartition("\n\n")
        if gap:
            self._marks = self._open = 0
        self._marks += paragraph.count('"')
        self._open += paragraph.count("“") + paragraph.count("«") - paragraph.count("”") - paragraph.count("»")
        _, ended, line = new.rpartition("\n")
        self._ticks = (0 if ended else self._ticks) + line.replace("```", "").count("`")
        return bool(self._fences % 2 or self._ticks % 2 or self._marks % 2 or self._open > 0)


def _take(value: object, names: Collection[str], parsed: Parsed) -> None:
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


def _is_call(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_call(one) for one in value[:_MOST])
    return isinstance(value, dict) and any(key in value for key in ("name", "function", "tool_calls"))


def _unwrapped(value: object) -> object:
    """The list in which an OpenAI server wraps calls."""
    wrapped = value.get("tool_calls") if isinstance(value, dict) else None
    return wrapped if isinstance(wrapped, list) else value


def _loads(text: str) -> Any:
    try:
        return _plain(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _plain(value: Any, depth: int = 0) -> Any:
    """A decoded value without lone surrogates. Raises ValueError if it is not plain JSON or nested too deep."""
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a number")
    if isinstance(value, (dict, list)):
        if depth >= _DEEPEST:
            raise ValueError("nested too deep")
        if isinstance(value, list):
            return [_plain(item, depth + 1) for item in value]
        return {_whole(key): _plain(item, depth + 1) for key, item in value.items()}
    return value


def _whole(text: str) -> str:
    """A lone surrogate is not a character. No file or tokenizer accepts it."""
    return _SURROGATE.sub("\ufffd", text)


class StreamedText:
    """Tells of a growing text all but what may still become a call, or the end of the text."""

    def __init__(self, tell: Callable[[str], object], names: Collection[str] = (), stop: Sequence[str] = ()) -> None:
        """`names` are those of the tools that are offered."""
        self._tell = tell
        self._openings = tuple(f"<{name}" for name in names) + ((_TAG,) if names else ())
        self._stop = tuple(filter(None, stop))
        self._text = self._told = ""

    def take(self, piece: str) -> None:
        """Take the next piece of the policy's text."""
        self._text += piece
        text, begin = self._text, len(self._told)
        end = len(text)
        for word in self._stop:
            found = text.find(word, max(0, begin - len(word)))
            if found >= 0:
                end = min(end, found)
            else:
                beginnings = (size for size in range(min(len(word) - 1, end), 0, -1) if text.endswith(word[:size]))
                end = min(end, len(text) - next(beginnings, 0))
        if self._openings:
            end = min(end, self._call(begin))
            if not text[:end].strip():
                return  # blank text before a call is nothing
        if new := text[begin:end]:
            self._told += new
            self._tell(new)

    def end(self, text: str) -> None:
        """Tell what is left of the reply's text."""
        if text.startswith(self._told) and (rest := text[len(self._told) :]):
            self._tell(rest)

    def _call(self, begin: int) -> int:
        """Where something begins that is a call, or may become one."""
        if whole := _WHOLE.match(self._text):
            return whole.end()
        for place in _PLACE.finditer(self._text, max(0, self._text.rfind("\n", 0, begin), begin - 200)):
            opened = self._text[place.end() : place.end() + 100]
            if place.end() >= begin and any(each.startswith(opened[: len(each)]) for each in self._openings):
                return place.end()
        return len(self._text)
