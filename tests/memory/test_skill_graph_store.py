"""Every store that ships passes the contract of stores, and holds a graph as the others do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, SkillGraph, StoreRefusedError
from agentfw_memory.graph.rows import graph_rows
from agentfw_memory.testing import StoreContract, Ticks

OpenGraph = Callable[..., SkillGraph]


def fill(graph: SkillGraph) -> list[str]:
    """Add two users with what can be kept of a user, and return the skill of each."""
    skills = []
    for name in ("unmistakable-0", "unmistakable-1"):
        tools = [f"{name} tool", "common tool"]
        skills.append(graph.add(owner=name, text=f"{name} text", tools=tools, visibility="shared").id)
        graph.learn({"id": f"{name} trip", "user": name, "query": f"{name} query", "skills": skills[-1:]}, 0.9)
        graph.set_profile(name, f"{name} profile")
    graph.update(skills[0], text="unmistakable-0 anew")
    return skills


class GraphContract(StoreContract):
    """What a graph does in each of our stores."""

    @pytest.fixture
    def open_graph(self, address: Callable[[str], str]) -> Iterator[OpenGraph]:
        clock = Ticks()
        with ExitStack() as opened:

            def open_(
                tenant: str = "team", place: str = "store", embedder: str = "hash:16", **options: Any
            ) -> SkillGraph:
                made = SkillGraph.open(address(place), tenant=tenant, embedder=embedder, clock=clock, **options)
                return opened.enter_context(made)

            yield open_

    def test_an_export_is_equal_after_it_was_imported(self, open_graph: OpenGraph, tmp_path: Path) -> None:
        graph, other = open_graph(place="here"), open_graph(place="there")
        fill(graph)
        rows = graph.admin.export_jsonl(tmp_path / "one.jsonl")
        assert other.admin.import_jsonl(tmp_path / "one.jsonl") == rows
        other.admin.export_jsonl(tmp_path / "two.jsonl")
        assert (tmp_path / "two.jsonl").read_text("utf-8") == (tmp_path / "one.jsonl").read_text("utf-8")
        with pytest.raises(BadInputError, match="is not empty"):
            other.admin.import_jsonl(tmp_path / "one.jsonl")

    def test_vectors_of_another_embedder_come_all_at_once(
        self, open_graph: OpenGraph, address: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph_rows, "EMBEDDED_AT_ONCE", 2)
        graph = open_graph()
        skill, _ = fill(graph)

        def stop(done: int) -> None:
            raise KeyboardInterrupt

        def embed(progress: Callable[[int], object] = lambda done: None) -> int:
            return SkillGraph.reembed(address("store"), tenant="team", embedder="hash:8", progress=progress)

        with pytest.raises(KeyboardInterrupt):
            embed(stop)
        assert graph.admin.stats().dimensions == 16
        graph.update(skill, text="changed meanwhile")
        assert embed() == 3
        again = open_graph(embedder="", settings=GraphSettings(query_similarity="vectors"))
        assert again.admin.stats().dimensions == 8
        assert again.recall("changed meanwhile", user="ben")[0].why.query > 0.99
        assert embed() == 0

    def test_writers_wait_for_each_other(self, open_graph: OpenGraph) -> None:
        graphs = [open_graph() for _ in range(3)]

        def write(graph: SkillGraph, name: str) -> None:
            for place in range(8):
                graph.add(owner=name, text=f"{name} {place}")

        threads = [threading.Thread(target=write, args=(graph, f"user-{one}")) for one, graph in enumerate(graphs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert graphs[0].admin.stats().nodes["skill"] == 24

    def test_owners_are_found_by_how_their_names_begin(self, open_graph: OpenGraph) -> None:
        graph = open_graph()
        names = ["notes", "notes/ana", "notes/ana/deep", "notes/Ana", "notes0", "notes/\u00ff", "notes/\U0001f600"]
        names += ["other_", "otherx"]
        for name in names:
            graph.add(owner=name, text="tea")

        found = set(graph.admin.owners(prefix="notes/"))

        assert found == {"notes/ana", "notes/ana/deep", "notes/Ana", "notes/\u00ff", "notes/\U0001f600"}
        assert graph.admin.owners(prefix="other_") == ["other_"]
        assert graph.admin.owners(prefix="notes/ana/deep") == ["notes/ana/deep"]
        assert graph.admin.owners(prefix="x") == []
        assert len(graph.admin.owners()) == len(names)


class TestSqliteStore(GraphContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> Callable[[str], str]:
        return lambda place: str(tmp_path / f"{place}.db")

    @pytest.mark.slow
    def test_a_spoilt_export_is_refused_and_nothing_of_it_taken(self, open_graph: OpenGraph, tmp_path: Path) -> None:
        graph, other = open_graph(place="here"), open_graph(place="there")
        fill(graph)
        graph.admin.export_jsonl(tmp_path / "one.jsonl")
        whole = (tmp_path / "one.jsonl").read_text("utf-8").splitlines()
        spoilt: list[tuple[list[str], str]] = [
            (["{}", *whole[1:]], "doesn't start with"),
            ([*whole[:-1], whole[-1][:20]], "not valid JSON"),
            ([whole[0], *whole[2:]], "starts with the row of its tenant"),
            ([line.replace('"OWNS"', '"OWES"') for line in whole], "OWES"),
            ([line for line in whole if '"row": "version"' not in line], "is invalid"),
            ([line.replace('"vector": "', '"vector": "AAAA') for line in whole], "vector"),
            ([*whole, '{"row": "sqlite_schema", "x": 1}'], "is invalid"),
            ([line.replace('"weight": 1.0', '"weight": {}') for line in whole], "is invalid"),
            ([line.replace("anew", "\\ud83e") for line in whole], "is invalid"),
        ]
        for lines, words in spoilt:
            (tmp_path / "spoilt.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
            with pytest.raises(BadInputError, match=words):
                other.admin.import_jsonl(tmp_path / "spoilt.jsonl")
            assert (sum(other.admin.stats().nodes.values()), other.admin.owners()) == (0, [])


class TestPostgresStore(GraphContract):
    @pytest.fixture
    def address(self, postgres_database: Callable[[str], str]) -> Callable[[str], str]:
        return postgres_database


def test_a_scheme_that_no_store_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(StoreRefusedError, match="lancedb://") as refusal:
        SkillGraph.open("lancedb://somewhere", tenant="team")
    assert "postgresql://" in refusal.value.fix
