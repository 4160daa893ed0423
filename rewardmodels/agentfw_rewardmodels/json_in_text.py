"""JSON values in the text that a language model wrote: after a thought, in a fence, with small mistakes.

The last value of a text comes first, because what a model says last is what it has come to.

    >>> list(json_values('Here you are: {"opportunities": [],}'))
    [({'opportunities': []}, True)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

__all__ = ["json_values", "without_thought"]

_LONGEST = 100_000
"""Characters of an answer that are read."""
_ATTEMPTS = 200
"""Places at which a value may begin before the text counts as holding none."""
_REPAIRS = 8
"""Places at which repairing is tried."""
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.S)
_TYPOGRAPHY = str.maketrans("“”„‟″", '"' * 5)
_COMMA = re.compile(r",(?=\s*[\]}])")
_decode = json.JSONDecoder().raw_decode


def without_thought(text: str) -> str:
    """The text after the last closing tag of a thought, cut to a length that is safe to read."""
    return _THOUGHT.sub("", text[:_LONGEST])


def json_values(text: str) -> Iterator[tuple[object, bool]]:
    """The objects and lists in a text, the last one first, and whether they had to be repaired.

    Values inside of others are not repeated.
    """
    return reversed(list(_values(without_thought(text))))


def _values(text: str) -> Iterator[tuple[object, bool]]:
    position, repairs, repaired = 0, 0, False
    for _ in range(_ATTEMPTS):
        starts = [place for place in (text.find("{", position), text.find("[", position)) if place >= 0]
        if not starts:
            return
        try:
            value, position = _decode(text, min(starts))
        except RecursionError:
            return
        except ValueError:
            # Repaired before looking further in, or a part of a damaged answer would pass for the answer.
            candidate = _repaired(text[min(starts) :]) if repairs < _REPAIRS else ""
            repairs += 1
            try:
                value, position = _decode(candidate)
            except (ValueError, RecursionError):
                position = min(starts) + 1
                continue
            text, repaired = candidate, True
        yield value, repaired


def _repaired(text: str) -> str:
    """The text with straight quotes, without commas before a closing bracket, and with open brackets closed."""
    text, closing, quoted, escaped = text.translate(_TYPOGRAPHY), list[str](), False, False
    for letter in text:
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            closing.append("}" if letter == "{" else "]")
        elif letter in "}]" and closing and closing[-1] == letter:
            closing.pop()
    return _COMMA.sub("", text.rstrip().removesuffix("```").rstrip() + "".join(reversed(closing)))
