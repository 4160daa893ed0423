"""Gateways as their users see them, and what goes wrong with what they share.

`gateway` starts one in a thread of this process, which takes a tenth of a second; `killable` starts `agentfw serve` as
a process of its own. The policy and the memory are the one-file components in `components/`. This is the only module of
these tests that imports more than the documented API.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from serving_gateways import TOKENS, Gateway, begun, gateway_of, told

from agentfw import Message
from agentfw_cli.main import main
from agentfw_plugins.gateway.answering import Line
from agentfw_plugins.gateway.learning.version_file import VersionFile
from agentfw_plugins.view.episode_view import read_episode
from agentfw_plugins.view.index import Index
from agentfw_plugins.view.search import Filter
from agentfw_plugins.view.search import select as episodes

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("sqlalchemy")

from sqlalchemy import Executable, insert, select, text, update

from agentfw_plugins.gateway.sessions.session_database import GATEWAYS, SESSIONS, SessionDatabase

Start = Callable[..., Gateway]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Start]:
    """Starts gateways, each until the test ends: by default with the policy in `components/tokens.py`."""
    with ExitStack() as stack:

        def start(folder: str = "runs", **options: Any) -> Gateway:
            if "resume" not in options:
                options = {"policy": str(TOKENS), **options}
            return stack.enter_context(gateway_of(tmp_path / folder, **options))

        yield start


Places = Callable[[int], Line]


@pytest.fixture
def places() -> Places:
    """The line in front of a policy that gives so many answers at once."""
    return lambda at_once: Line(at_once=at_once)


@pytest.fixture(params=["file", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where gateways share sessions: a file, then PostgreSQL."""
    if request.param == "file":
        return str(tmp_path / "sessions.db")
    database: Callable[[], str] = request.getfixturevalue("postgres_database")
    return database()


def let_leases_lapse(where: str) -> None:
    """Do as if no gateway that has a session had said for a long time that it is alive, nor could say so now."""
    _change(where, update(SESSIONS).values(holder="silent"))


def never_alive_again(where: str) -> None:
    """Do as if the gateway that has the sessions was killed long ago."""
    _change(where, update(GATEWAYS).values(alive_until=0))


def hold_for_nobody(where: str) -> None:
    """Do as if a gateway that was killed had all sessions."""
    killed = {"name": "killed", "alive_until": time.time() + 1000, "settings": {}}
    _change(where, insert(GATEWAYS).values(**killed), update(SESSIONS).values(holder="killed"))


def crash(where: str) -> None:
    """Break all connections with a PostgreSQL, and take back what it was told to be heard."""
    ours = "datname = current_database() AND pid <> pg_backend_pid()"
    breaks = text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
    _change(where, update(SESSIONS).values(heard=0), breaks)


def written_as_heard(where: str) -> bool:
    """Whether the database says of all turns that the memory has heard them."""
    database = SessionDatabase(where)
    try:
        with database.transaction() as connection:
            return all(connection.execute(select(SESSIONS.c.heard)).scalars())
    finally:
        database.close()


def _change(where: str, *statements: Executable) -> None:
    database = SessionDatabase(where)
    with database.transaction() as connection:
        for statement in statements:
            connection.execute(statement)
    database.close()


def counts_ratings(run: Path) -> None:
    """Let `agentfw serve versions` and `forget-feedback` work on a run, as on one that learns."""
    VersionFile(run).create()


class Process:
    """`agentfw serve` as a process of its own."""

    def __init__(self, runs: Path, *options: str) -> None:
        self._process = begun(runs, *options)
        self.gateway = Gateway(*told(self._process), self.kill)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Start]:
    """Starts `agentfw serve`. `Gateway.stop` is `kill -9`."""
    started: list[Process] = []

    def start(*options: str) -> Gateway:
        started.append(Process(tmp_path / "runs", *options))
        return started[-1].gateway

    yield start
    for process in started:
        process.kill()


def command(*words: str) -> Any:
    """Call `agentfw WORD... --json`. Returns the JSON value."""
    with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    assert ended.value.code == 0
    return json.loads(out.getvalue())


@pytest.fixture
def agentfw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Calls `agentfw WORD... --json` in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return command


def shown(runs: Path) -> tuple[int, list[Message]]:
    """How many turns the one session of a record has in a list of `agentfw view`, and the messages on its page."""
    index = Index(runs)
    index.refresh()
    with index.reading() as rows:
        [row] = episodes(rows, Filter())
        return row["turns"], list(read_episode(index.lines(rows, row["id"])).messages)
