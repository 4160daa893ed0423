"""A conversation over standard input and output, line by line, so that it can be scripted.

A line that ends with a backslash goes on in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import IO

from agentfw.errors import UsageError
from agentfw.out import Out

from .commands import END, obey, said
from .conversation import Conversation

__all__ = ["PlainScreen", "talk_plainly"]


class PlainScreen:
    """Answers on stdout as they come, and everything else on stderr. With --json nothing is shown."""

    def __init__(self, out: Out) -> None:
        self.out = out

    def words(self, piece: str) -> None:
        if not self.out.json:
            self.out.words(piece)

    def done(self) -> None:
        self.words("\n")  # written at once, for whoever reads line by line

    def aside(self, text: str) -> None:
        if not self.out.json:
            self.out.note(text)


async def talk_plainly(conversation: Conversation, source: IO[str], out: Out) -> None:
    """Read and answer line by line until the end of the input."""
    entries = _entries(source)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        if entry.strip() in END:
            return
        if not entry.strip():
            continue
        words = said(entry)
        if words is not None:
            await conversation.say(words)
            continue
        try:
            lines = await obey(conversation, entry)
        except UsageError as error:
            out.error(error.message, error.fix)
            continue
        for line in lines:
            if out.json:
                out.note(line)
            else:
                out.words(f"{line}\n")


def _entries(source: IO[str]) -> Iterator[str]:
    parts = list[str]()
    for line in source:
        text = line.rstrip("\r\n")
        if text.endswith("\\"):
            parts.append(text[:-1])
            continue
        yield "\n".join([*parts, text])
        parts.clear()
    if parts:
        yield "\n".join(parts)
