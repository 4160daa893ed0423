"""Recorded runs to look at: a careful one, a careless one that came after it, and the page that shows them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from viewed_pages import HOST, viewed

from agentfw import Component, Intervention, Memory, Moment, Run, hookimpl
from agentfw.memory import Query, Recollection
from agentfw.runs import RunFolder, parse_spec
from agentfw.testing import fresh_host

__all__ = ["HOST", "viewed"]

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jinja2")

NOTE = "Mails of Ada come first"


class Notes(Memory):
    """Remembers one thing, for mails."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(NOTE, 0.75, {"because": "she is in a hurry"})] if "mail" in query.text else []


class NotesPlugin:
    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("desk_notes", f"{__name__}:Notes", "Remembers one thing")]


def careful(moment: Moment) -> Iterator[Intervention]:
    for mail in moment.of("mail"):
        yield Intervention("open_message", {"message": mail.data["message"]})


def careless(moment: Moment) -> Iterator[Intervention]:
    for _ in moment.of("mail"):
        yield Intervention("open_message", {"message": 99})


def play(runs: Path, rule: Callable[..., object] = careful, episodes: int = 2) -> RunFolder:
    values = {
        "environment": {"name": "inbox", "settings": {"horizon": 20}},
        "policy": {"name": "scripted", "settings": {"rule": f"{__name__}:{rule.__name__}"}},
        "memories": ["desk_notes"],
        "rewards": ["utility"],
        "episodes": episodes,
    }
    run = Run.create(parse_spec(values), fresh_host(NotesPlugin(), builtins=True), runs)
    asyncio.run(run.execute())
    return run.folder


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a careful run and a careless one."""
    runs = tmp_path_factory.mktemp("recorded") / "runs"
    for rule in (careful, careless):
        play(runs, rule)
    return runs


@pytest.fixture
def runs(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "runs"))


@pytest.fixture
def view() -> Iterator[Callable[..., str]]:
    """Serves the page of a folder of runs, until the test ends."""
    with ExitStack() as stack:
        yield lambda *of, **options: stack.enter_context(viewed(*of, **options))
