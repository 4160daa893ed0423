"""Tells the text of tokens while they are sampled.

telling = Telling(chat, tell)
telling.hear([311]); telling.hear([17, 4])      # tells what is complete of their text
telling.end(generation.text)                    # tells the rest
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...models import Chat

__all__ = ["Telling"]


class Telling:
    """The text of one answer, as far as it was told."""

    def __init__(self, chat: Chat, tell: Callable[[str], object], stop: Sequence[str] = ()) -> None:
        self._chat, self._tell, self._stop = chat, tell, [word for word in stop if word]
        self._ids, self._told = list[int](), ""

    def hear(self, ids: Sequence[int]) -> bool:
        """Take the next tokens. Returns whether the text has one of the texts at which it stops."""
        self._ids += ids
        text = self._chat.text(self._ids)
        # A character that is not complete yet is told with the token that completes it.
        if not text.endswith("\ufffd"):
            self.end(text)
        return any(word in text for word in self._stop)

    def end(self, text: str) -> None:
        """Tell what was not told of this text so far."""
        if text.startswith(self._told) and text != self._told:
            new, self._told = text[len(self._told) :], text
            self._tell(new)
