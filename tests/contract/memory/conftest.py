"""What the contract tests of the memory share: where a graph is stored, its rows as a file, and the command."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from command_line import agentfw as agentfw

from agentfw_memory import GraphSettings, SkillGraph

pytest.importorskip("igraph")


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path or the address of an empty store, once of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "skills.db")
    database: Callable[[], str] = request.getfixturevalue("postgres_database")
    return database()


@pytest.fixture(params=["in memory", "on the server"])
def way_of_searching(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, GraphSettings]:
    """A store with the settings of each way to search: in this process, or by the server's own indexes."""
    if request.param == "in memory":
        return str(tmp_path / "skills.db"), GraphSettings()
    database: Callable[[], str] = request.getfixturevalue("postgres_database")
    return database(), GraphSettings(in_memory_up_to=0)


@pytest.fixture
def open_graph() -> Iterator[Callable[..., SkillGraph]]:
    """Open graphs that are closed when the test ends, with the small embedder unless another one is given."""
    with ExitStack() as opened:

        def one(where: str | Path, tenant: str = "team", *, embedder: Any = "hash:64", **options: Any) -> SkillGraph:
            return opened.enter_context(SkillGraph.open(where, tenant=tenant, embedder=embedder, **options))

        yield one


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[SkillGraph]:
    """A graph in a file."""
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash") as opened:
        yield opened


@pytest.fixture
def rows_of(tmp_path: Path) -> Callable[[SkillGraph], list[dict[str, Any]]]:
    """Export a graph, and return the rows of the file."""
    numbers = itertools.count()

    def rows(graph: SkillGraph) -> list[dict[str, Any]]:
        path = tmp_path / f"rows-{next(numbers)}.jsonl"
        graph.admin.export_jsonl(path)
        lines = path.read_text("utf-8").splitlines()
        path.unlink()
        return [json.loads(line) for line in lines[1:]]

    return rows
