"""Every store that ships passes the contract of stores, and holds a graph as the others do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, SkillGraph, StoreBusyError, StoreRefusedError
from agentfw_memory.graph import graph_rows
from agentfw_memory.graph.exchange.skill_folders import (
    AgentSkill,
    as_new_skill,
    read_skill_folders,
    review_mark,
    write_skill_folders,
)
from agentfw_memory.graph.stores import sqlite
from agentfw_memory.graph.stores.store import Reading
from agentfw_memory.testing import StoreContract, Ticks

pytest.importorskip("igraph")

OpenGraph = Callable[..., SkillGraph]


class GraphContract(StoreContract):
    """What a graph does in each of our stores."""

    @pytest.fixture
    def open_graph(self, address: Callable[[str], str]) -> Iterator[OpenGraph]:
        clock = Ticks()
        with ExitStack() as opened:

            def open_(embedder: str = "hash:16", **options: Any) -> SkillGraph:
                made = SkillGraph.open(address("store"), tenant="team", embedder=embedder, clock=clock, **options)
                return opened.enter_context(made)

            yield open_

    def test_vectors_of_another_embedder_come_all_at_once(
        self, open_graph: OpenGraph, address: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph_rows, "EMBEDDED_AT_ONCE", 2)
        graph = open_graph()
        skill = graph.add(owner="ana", text="green tea").id
        for user in ("ana", "ben"):
            graph.set_profile(user, "likes tea")

        def stop(done: int) -> None:
            raise KeyboardInterrupt

        def embed(progress: Callable[[int], object] = lambda done: None) -> int:
            return SkillGraph.reembed(address("store"), tenant="team", embedder="hash:8", progress=progress)

        with pytest.raises(KeyboardInterrupt):
            embed(stop)
        assert graph.admin.stats().dimensions == 16
        graph.update(skill, text="changed meanwhile")
        graph.set_profile("ana", "changed meanwhile")
        assert embed() == 3
        again = open_graph(embedder="", settings=GraphSettings(query_similarity="vectors"))
        assert again.admin.stats().dimensions == 8
        (hit,) = again.recall("changed meanwhile", user="ana")
        assert min(hit.why.query, hit.why.user) > 0.99
        assert embed() == 0

    def test_owners_are_found_by_how_their_names_begin(self, open_graph: OpenGraph) -> None:
        graph = open_graph()
        below = {"notes/ana", "notes/ana/deep", "notes/Ana", "notes/\u00ff", "notes/\U0001f600"}
        for name in (*below, "notes", "notes0", "other_", "otherx"):
            graph.add(owner=name, text="tea")

        assert set(graph.admin.owners(prefix="notes/")) == below
        assert graph.admin.owners(prefix="other_") == ["other_"]
        assert graph.admin.owners(prefix="x") == []
        assert len(graph.admin.owners()) == 9


class TestSqliteStore(GraphContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> Callable[[str], str]:
        return lambda place: str(tmp_path / f"{place}.db")

    def test_a_spoilt_export_is_refused_and_nothing_of_it_taken(self, open_graph: OpenGraph, tmp_path: Path) -> None:
        graph, path = open_graph(), tmp_path / "exported.jsonl"
        skill = graph.add(owner="ana", text="green tea", tools=["kettle"])
        graph.update(skill.id, text="anew")
        graph.admin.export_jsonl(path)
        whole = path.read_text("utf-8").splitlines()
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
        with SkillGraph.open(":memory:", tenant="team", embedder="hash:16") as other:
            for lines, words in spoilt:
                path.write_text("\n".join(lines) + "\n", "utf-8")
                with pytest.raises(BadInputError, match=words):
                    other.admin.import_jsonl(path)
                assert (sum(other.admin.stats().nodes.values()), other.admin.owners()) == (0, [])

    def test_a_reader_that_still_sees_what_is_deleted_is_waited_for_and_then_named(
        self, open_graph: OpenGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        graph = open_graph()
        skill = graph.add(owner="ana", text="inimitable tea").id
        monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 0.2)
        graph._store._execute("PRAGMA busy_timeout = 100")  # type: ignore[attr-defined]
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM version").fetchone()
            with pytest.raises(StoreBusyError, match="another process reads the state before"):
                graph.delete(skill)
            assert graph.recall("tea", user="ana") == []
        graph.delete(skill)

        assert b"inimit" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())

    def test_who_is_forgotten_between_two_readings_is_only_missing(
        self, open_graph: OpenGraph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read, left = sqlite.SqliteStore.read, 0

        def interrupted(store: sqlite.SqliteStore, *readings: Reading) -> list[list[tuple[Any, ...]]]:
            nonlocal left
            left -= 1
            if left == 0:
                other.forget("ana")
            return read(store, *readings)

        monkeypatch.setattr(sqlite.SqliteStore, "read", interrupted)
        graph, other = open_graph(), open_graph()
        asked: list[Callable[[], list[Any]]] = [
            lambda: graph.skills(owner="ana"),
            lambda: graph.recall("tea", user="ben", as_of=9e9),
            lambda: graph.recall("tea", user="ben"),
        ]
        for asks in asked:
            for place in (3, 4):
                other.add(owner="ana", text="green tea", tools=["kettle"], visibility="shared")
                left = place
                assert len(asks()) <= 1
                left = 0
                other.forget("ana")


class TestPostgresStore(GraphContract):
    @pytest.fixture
    def address(self, postgres_database: Callable[[str], str]) -> Callable[[str], str]:
        return postgres_database


def test_a_scheme_that_no_store_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(StoreRefusedError, match="lancedb://") as refusal:
        SkillGraph.open("lancedb://somewhere", tenant="team")
    assert "postgresql://" in refusal.value.fix


def test_a_skill_is_reviewed_by_who_adds_it_and_not_because_it_says_so(tmp_path: Path) -> None:
    skill = AgentSkill("forms", "Fills in forms", "Use blue ink.", tmp_path, {"reviewed": "of itself"})

    marks = [as_new_skill(skill, owner="ana", reviewed=one).metadata.get("reviewed") for one in (False, True)]

    assert marks == [None, review_mark(skill.text)]


def test_folders_that_a_graph_wrote_are_the_skills_that_it_has(tmp_path: Path) -> None:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        skill = graph.add(
            owner="ana", text="Never move lunch", metadata={"reviewed": review_mark("Never move lunch")}
        ).id
        for trip in ("t1", "t2"):
            graph.learn({"id": trip, "user": "ana", "query": "q", "skills": [skill]}, 0.9)
            write_skill_folders(tmp_path, [(graph.get(skill), graph.history(skill))])
            graph.add_all(as_new_skill(one, reviewed=True) for one in read_skill_folders(tmp_path))
        assert [one.id for one in graph.skills(owner="ana")] == [skill]
