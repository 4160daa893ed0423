"""A memory that waits keeps nobody but itself waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentfw import Host, Memory, Message, Task
from agentfw.boundary.crossing import MemoryThread
from agentfw.memory import Query, Recollection
from agentfw.runs import LiveRun, parse_spec

SPEC = {
    "environment": "sessions",
    "policy": {"name": "scripted", "settings": {"replies": ["yes"]}},
    "memories": ["strategyhub"],
}


class Waits(Memory):
    """Waits without `await` until it is let go, as for a lock of a database."""

    def __init__(self) -> None:
        self.go_on, self.called, self.threads = threading.Event(), list[str](), set[str]()

    def begin(self, task: Task) -> None:
        self._note("begin")

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self._note("recall")
        assert self.go_on.wait(300)
        return [Recollection("Ada likes green tea.")]

    async def close(self) -> None:
        self._note("close")

    def _note(self, call: str) -> None:
        self.called.append(call)
        self.threads.add(threading.current_thread().name)


def test_others_are_answered_while_a_memory_waits(tmp_path: Path) -> None:
    memory = Waits()
    live = LiveRun.create(parse_spec(SPEC), Host.load(), tmp_path)
    live.assembly.memories[0].inside = memory

    async def run() -> str:
        async with live:
            waiting = asyncio.create_task(live.begin("with", "ada").answer([Message("user", "Which tea?")], user="ada"))
            while "recall" not in memory.called:
                await asyncio.sleep(0.001)
            await live.begin("without").answer([Message("user", "Anybody there?")])
            assert not waiting.done()
            memory.go_on.set()
            await waiting
            return live.sessions["with"].episode.messages[0].content

    assert "Ada likes green tea." in asyncio.run(run())
    assert memory.called[:2] == ["begin", "recall"]
    assert memory.called[-1] == "close"
    assert memory.threads == {"agentfw memories"}
    assert not any(thread.name == "agentfw memories" for thread in threading.enumerate())


def test_a_memory_that_fails_where_an_episode_begins_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Memory):
        def begin(self, task: Task) -> None:
            raise ValueError("no such table")

    thread = MemoryThread()
    memory = thread.beside(Fails())

    memory.begin(Task(0, 7))
    asyncio.run(memory.close())
    thread.close()

    assert "no such table" in caplog.text
