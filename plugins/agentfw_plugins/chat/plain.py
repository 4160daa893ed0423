"""A conversation over standard input and output, line by line, so that it can be scripted.

A line that ends with a backslash goes on in the next one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from agentfw.errors import UsageError
from agentfw.printing.out import Out

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
    typed = _typed(source)
    while (entry := await typed.get()) is not None:
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


def _typed(source: IO[str]) -> asyncio.Queue[str | None]:
    """What is read, and None at the end. Nobody waits for the thread: after Ctrl-C it may read for ever."""
    typed: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(RuntimeError):  # the loop may be closed by then
            for entry in _entries(source):
                loop.call_soon_threadsafe(typed.put_nowait, entry)
            loop.call_soon_threadsafe(typed.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    return typed


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
