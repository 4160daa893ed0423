"""Decides how much of a growing text can be told: all but what may still become a call, or the end of the text.

pieces = Pieces(names={"weather"}, stop=("END",))
pieces.take("I look it up.\\n<tool"), pieces.rest("I look it up.\\n")
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

__all__ = ["Pieces"]

_TAG = "<tool_call>"
_PLACE = re.compile(r"(?:^|\n|[.!?>])[ \t]*(?=<)")
"""Where a call in tags can begin: on a line of its own, or after a sentence or another call."""
_WHOLE = re.compile(r"\s*(?:<think>.*?(?:</think>\s*|\Z))?(?=[\[{])", re.S)
"""Where a call in bare JSON can begin: with the answer."""


class Pieces:
    """One text."""

    def __init__(self, names: Collection[str] = (), stop: Sequence[str] = ()) -> None:
        """`names` are those of the tools that are offered."""
        self._openings = tuple(f"<{name}" for name in names) + ((_TAG,) if names else ())
        self._stop = tuple(filter(None, stop))
        self._text = self.told = ""

    def take(self, piece: str) -> str:
        """Take the next piece of the policy's text. Returns what can be told now."""
        self._text += piece
        safe = self._text[: self._sure()]
        new = safe[len(self.told) :]
        self.told += new
        return new

    def rest(self, text: str) -> str:
        """The part of the reply's text that hasn't been passed on."""
        return text[len(self.told) :] if text.startswith(self.told) else ""

    def _sure(self) -> int:
        """Up to where the text stays as it is."""
        text, begin = self._text, len(self.told)
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
                return 0  # blank text before a call is nothing
        return max(end, begin)

    def _call(self, begin: int) -> int:
        """Where something begins that is a call, or may become one."""
        if whole := _WHOLE.match(self._text):
            return whole.end()
        for place in _PLACE.finditer(self._text, max(0, self._text.rfind("\n", 0, begin), begin - 200)):
            opened = self._text[place.end() : place.end() + 100]
            if place.end() >= begin and any(each.startswith(opened[: len(each)]) for each in self._openings):
                return place.end()
        return len(self._text)
