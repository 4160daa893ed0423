"""What it costs to put many short episodes on disk: each with a flush of its own, and with a shared one.

    python benchmarks/group_commit.py
    python benchmarks/group_commit.py --episodes 100 --json

1,000 episodes of one turn, 32 in progress at a time, with an answer that takes 50 ms. Each leaves a record in two
journals on this disk. What the disk takes is the time beyond that of the same without any flush. Required: at most a
tenth of playing.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw.runs.records.journal import Journal
from agentfw_benchmarks import Options, tell

IN_PROGRESS, ANSWER = 32, 0.05
REQUIRED = 0.1


class CountingFlushes:
    """Counts the flushes of a block, or leaves them out."""

    def __init__(self, flushes: bool) -> None:
        self.flushes = flushes

    def __enter__(self) -> CountingFlushes:
        self.count, self._flush = 0, os.fsync
        os.fsync = self._fsync  # type: ignore[assignment]
        return self

    def __exit__(self, *error: object) -> None:
        os.fsync = self._flush

    def _fsync(self, handle: int) -> None:
        self.count += 1
        if self.flushes:
            self._flush(handle)


async def play(path: Path, episodes: int, how: str) -> float:
    """Seconds to play and to write."""
    record = {"id": "00000-0", "turns": [{"prompt_ids": list(range(400)), "text": "an answer " * 20}]}
    room = asyncio.Semaphore(IN_PROGRESS)
    began = time.perf_counter()
    with Journal.open(path) as episodes_journal, Journal.open(path.with_suffix(".metrics")) as metrics:

        async def one() -> None:
            async with room:
                await asyncio.sleep(ANSWER)
            for journal in (episodes_journal, metrics):
                if how == "a flush each":
                    journal.append(record)
                else:
                    await journal.commit(record)

        await asyncio.gather(*(one() for _ in range(episodes)))
    return time.perf_counter() - began


def measure(episodes: int, repeats: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"without a flush": [], "a flush each": [], "shared flushes": []}
    flushes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        for number in range(repeats):
            for how, found in seconds.items():
                with CountingFlushes(how != "without a flush") as flushed:
                    found.append(asyncio.run(play(Path(name) / f"{how} {number}.jsonl", episodes, how)))
                flushes[how] = flushed.count
    best = {how: min(found) for how, found in seconds.items()}
    return {
        "episodes": episodes,
        "seconds": {how: round(value, 3) for how, value in best.items()},
        "flushes": flushes,
        "disk against playing": {
            how: round(best[how] / best["without a flush"] - 1, 3) for how in ("a flush each", "shared flushes")
        },
        "required": REQUIRED,
    }


def show(result: dict[str, Any]) -> None:
    for how, seconds in result["seconds"].items():
        print(f"{how:16} {seconds:7.3f} s   {result['flushes'][how]} flushes")
    shared, each = (f"{result['disk against playing'][how]:.0%}" for how in ("shared flushes", "a flush each"))
    print(f"of playing, the disk takes {shared} if flushes are shared (at most {REQUIRED:.0%} required), {each} if not")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, episodes=1000, repeats=5).parse_args(arguments)
    return tell(measure(options.episodes, options.repeats), options.json, show)


if __name__ == "__main__":
    main()
