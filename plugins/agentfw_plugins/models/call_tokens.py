"""The tokens that begin a call, of a tokenizer that has such.

A model that was trained with a token for `<tool_call>` begins its calls with it. The same characters in other tokens
are text that it quotes. So that it has nothing else to quote, what users and tools write is never turned into such a
token.

    >>> tokens = CallTokens("<tool_call>", {"<tool_call>": 7, "<": 1, "tool": 2})
    >>> tokens.in_text([7, 3], ["<tool_call>", "{}"]).places
    frozenset({0})
    >>> tokens.in_text([1, 2, 3], ["<", "tool", "_call>{}"]).places
    frozenset()
    >>> tokens.apart("Say <tool_call>.")
    ['Say <', 'tool_call>.']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentfw.request import CallsInText

__all__ = ["CallTokens"]


class CallTokens:
    """How the calls of one model begin."""

    def __init__(self, opening: str, vocabulary: Mapping[str, int], otherwise: CallsInText | None = None) -> None:
        """`opening` is what a call begins with. `otherwise` says where calls can be if no token begins with that."""
        tokens = {text: token for text, token in vocabulary.items() if opening and text.startswith(opening)}
        self._ids = frozenset(tokens.values())
        self._texts = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")
        self._otherwise = otherwise or CallsInText()

    def in_text(self, ids: Sequence[int], pieces: Sequence[str]) -> CallsInText:
        """Where the calls of an answer can be."""
        if not self._ids:
            return self._otherwise
        found, place = set[int](), 0
        for token, piece in zip(ids, pieces, strict=True):
            if token in self._ids:
                found.add(place + len(piece) - len(piece.lstrip()))
            place += len(piece)
        return CallsInText(places=frozenset(found))

    def apart(self, text: str) -> list[str]:
        """The text in parts that can be tokenised one by one, without such a token in any."""
        parts, start = list[str](), 0
        for found in self._texts.finditer(text):
            parts.append(text[start : found.start() + 1])
            start = found.start() + 1
        return [*parts, text[start:]]
