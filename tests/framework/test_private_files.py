"""Whatever holds what people said can be read by its owner only, whatever the umask says."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentfw
from agentfw import Host, Message
from agentfw.runs import LiveRun, parse_spec, write_whole

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """The files and folders that somebody else can read, with their modes."""
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    return {str(path.relative_to(folder)): oct(mode) for path, mode in found.items() if mode & 0o077}


def test_a_run_with_memories_is_private(tmp_path: Path) -> None:
    pytest.importorskip("igraph")
    runs, memories = tmp_path / "runs", ["strategyhub", "skillgraph"]
    settings = {"memory.skillgraph.embedder": "hash", "max_turns": 3}

    agentfw.run("inbox", policy="random", memory=memories, settings=settings, episodes=1, runs=runs)

    assert len(list(runs.rglob("*.db"))) == 2
    assert open_to_others(runs) == {}


def test_sessions_are_private_while_they_go_on_and_afterwards(tmp_path: Path) -> None:
    spec = parse_spec(
        {
            "environment": "sessions",
            "policy": {"name": "scripted", "settings": {"replies": ["yes"]}},
            "memories": ["strategyhub"],
            "rewards": ["feedback"],
        }
    )

    async def talk() -> None:
        async with LiveRun.create(spec, Host.load(), tmp_path / "runs") as live:
            session = live.begin("tea", "ada")
            await session.answer([Message("user", "Which tea?")], user="ada")
            await live.keep(session)
            assert open_to_others(tmp_path / "runs") == {}
            session.feedback(1.0, words="Green.")
            await live.conclude(session)

    asyncio.run(talk())

    assert open_to_others(tmp_path / "runs") == {}


def test_who_opened_a_report_to_others_keeps_it_open(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_whole(path, "first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)

    write_whole(path, "second")

    assert stat.S_IMODE(path.stat().st_mode) == 0o644
