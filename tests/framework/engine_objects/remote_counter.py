"""Objects that the tests of engines start in other processes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from agentfw.errors import SettingsError


class Counter:
    """Adds numbers, fails in several ways, and notes on disk that it was closed."""

    def __init__(self, start: int = 0, notes: str = "") -> None:
        if start < 0:
            raise SettingsError(f"start is {start}", fix="count from 0")
        self.total, self.notes, self.met, self.here = start, notes, asyncio.Event(), 0

    async def add(self, number: int) -> int:
        self.total += number
        return self.total

    async def echo(self, value: Any) -> Any:
        return value

    async def say(self, text: str) -> int:
        print(text)
        return len(sys.stdin.read())

    async def sleep(self, seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.total = -1
            raise
        return "slept"

    async def meet(self, count: int) -> str:
        """Wait until so many calls are here."""
        self.here += 1
        if self.here == count:
            self.met.set()
        await self.met.wait()
        return "met"

    async def process(self) -> list[Any]:
        return [os.getpid(), os.environ.get("OMP_NUM_THREADS"), os.environ.get("COLOUR")]

    async def fail(self) -> None:
        raise KeyError("no such user")

    async def refuse(self) -> None:
        raise SettingsError("limit is 0", fix="set limit to 1 or more")

    async def strange(self) -> object:
        return object()

    async def die(self) -> None:
        os._exit(3)

    async def close(self) -> None:
        if self.notes:
            Path(self.notes).write_text("closed", encoding="utf-8")
