"""SkillGraph: what is refused, whose file it is, and which embedder made its vectors."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_memory import (
    BadInputError,
    GraphSettings,
    NewSkill,
    SkillGraph,
    StorageError,
    StoreRefusedError,
    StrategyHubs,
    UnknownSkillError,
)

OpenGraph = Callable[..., SkillGraph]
Call = Callable[[SkillGraph], object]


def texts(graph: SkillGraph, query: str, user: str, k: int = 5) -> list[str]:
    return [hit.skill.text for hit in graph.recall(query, user=user, k=k)]


# What is refused


def asking(query: Any = "query", **how: Any) -> Call:
    return lambda graph: graph.recall(query, user="ana", **how)


def adding(**changed: Any) -> Call:
    return lambda graph: graph.add(**{"owner": "ana", "text": "fine", **changed})


def connecting(source: str, kind: str, target: str, weight: float = 1.0) -> Call:
    return lambda graph: graph.connect(source, kind, target, weight=weight)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (asking(""), "the query is empty"),
        (asking("x" * 10_000_000), "10,000,000|10000000"),
        (asking(None), "query"),
        (asking("half \ud83e"), "query"),
        *((asking(k=k), "can't recall") for k in (0, 2.5, True)),
        *((asking(at_least=wrong), "at_least") for wrong in (-0.1, float("nan"))),
        (adding(text=3), "not a string"),
        (adding(owner="ana \ud83e"), "owner"),
        (adding(owner="x" * 201), "owner"),
        (adding(tools="calendar"), "tools"),
        (adding(scenarios=["a\tb"]), "scenario"),
        (adding(visibility="public"), "public"),
        (adding(valid_from=float("nan")), "nan"),
        (adding(valid_from=9e9), "in the future"),
        *((adding(**{name: -7e10}), "not in the years 1 to 9999") for name in ("valid_from", "expires_at")),
        (lambda graph: graph.hear("I live in Rome", user="ana", at=-7e10), "not in the years 1 to 9999"),
        (lambda graph: graph.update("s2", text="anew", valid_from=1.0), "can't change at"),
        (connecting("s2", "LIKES", "s3"), "not a kind of edge"),
        (connecting("ana", "OWNS", "s3"), "added automatically"),
        (connecting("s2", "CONFLICTS", "s2"), "with itself"),
        (connecting("s2", "REQUIRES", ""), "name of the tool is empty"),
        (connecting("s2", "CONFLICTS", "s3", 0), "weigh"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do_and_nothing_is_changed(
    graph: SkillGraph, rows_of: Callable[[SkillGraph], list[Any]], call: Call, words: str
) -> None:
    assert [one.id for one in graph.add_all([NewSkill("ana", "one"), NewSkill("ana", "two")])] == ["s2", "s3"]
    before = rows_of(graph)
    with pytest.raises(BadInputError, match=words) as refusal:
        call(graph)
    assert refusal.value.fix
    assert rows_of(graph) == before


@pytest.mark.parametrize("name", ["%", "a_b", "'; DROP TABLE live; --", "[a-z]"])
def test_quotes_and_wildcards_in_a_name_mean_themselves(graph: SkillGraph, name: str) -> None:
    graph.add(owner="ana", text="hers")
    graph.add(owner="axb", text="not theirs")
    graph.add(owner=name, text="theirs", tools=[name], scenarios=[name])
    (hit,) = graph.recall("theirs", user=name)
    assert (hit.skill.owner, hit.skill.tools) == (name, (name,))
    assert graph.forget(name).skills == 1
    assert graph.recall("theirs", user=name) == []
    assert texts(graph, "hers", "ana") == ["hers"]


@pytest.mark.parametrize("skill", ["s99", "17", "s01", None])
def test_an_unknown_skill_is_named(graph: SkillGraph, skill: Any) -> None:
    graph.add(owner="ana", text="one")
    for call in (graph.get, graph.history, graph.retire, lambda one: graph.connect(one, "CONFLICTS", "s2")):
        with pytest.raises(UnknownSkillError, match="unknown skill"):
            call(skill)


def test_a_vector_with_nan_is_refused_and_nothing_kept(open_graph: OpenGraph) -> None:
    value = 1.0

    def embed(wanted: Any) -> np.ndarray:
        return np.full((len(wanted), 4), value, np.float32)

    graph = open_graph(":memory:", embedder=embed)
    graph.add(owner="ana", text="well")
    value = np.nan
    with pytest.raises(BadInputError, match="NaN"):
        graph.add(owner="ana", text="sick")
    with pytest.raises(BadInputError, match="NaN"):
        graph.recall("well", user="ana")
    value = 1.0
    assert texts(graph, "well", "ana") == ["well"]


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"merge_above": 0.0}, {"query_weight": float("nan")}, {"at_least": -0.1}, {"resolutions": ()}):
        with pytest.raises(BadInputError) as refusal:
            GraphSettings(**wrong)
        assert next(iter(wrong)) in str(refusal.value)
    with pytest.raises(BadInputError, match="unknown ablation"):
        GraphSettings.ablation("C1")


# Whose file it is


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"PK\x03\x04 this is something else" * 100),
        lambda path: sqlite3.connect(path).executescript("CREATE TABLE theirs (a)"),
        lambda path: sqlite3.connect(path).executescript("PRAGMA application_id = 7"),
    ],
)
def test_a_file_of_another_program_is_refused_and_untouched(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "theirs.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreRefusedError, match=r"theirs\.db"):
        SkillGraph.open(path, tenant="t", embedder="hash")
    with pytest.raises(ValueError, match=r"theirs\.db"):
        StrategyHubs.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("opened", [lambda path: SkillGraph.open(path, tenant="t", embedder="hash"), StrategyHubs.open])
def test_a_newer_file_is_refused_and_untouched(tmp_path: Path, opened: Callable[[Path], Any]) -> None:
    path = tmp_path / "skills.db"
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    with pytest.raises((StoreRefusedError, ValueError), match="another version"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("CREATE TRIGGER away AFTER INSERT ON version BEGIN DELETE FROM live; END", "trigger away"),
        ("CREATE VIEW more AS SELECT * FROM node", "view more"),
    ],
)
def test_a_file_with_triggers_or_views_is_refused(tmp_path: Path, sql: str, named: str) -> None:
    SkillGraph.open(tmp_path / "graph.db", tenant="t", embedder="hash:16").close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as connection:
        connection.execute(sql)

    with pytest.raises(StoreRefusedError, match=named):
        SkillGraph.open(tmp_path / "graph.db", tenant="t", embedder="hash:16")


def test_a_place_that_is_no_file_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "no folder" / "skills.db", "", "sqlite://"):
        with pytest.raises(StoreRefusedError):
            SkillGraph.open(place, tenant="t", embedder="hash")
    with pytest.raises(BadInputError, match="tenant"):
        SkillGraph.open(tmp_path / "skills.db", tenant="", embedder="hash")


def test_another_embedder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with SkillGraph.open(path, tenant="t", embedder="hash:64") as graph:
        kept = graph.add(owner="ana", text="mornings").id
    with pytest.raises(StoreRefusedError, match=r"hash:64 .*64 dimensions.* not by hash:32") as refusal:
        SkillGraph.open(path, tenant="t", embedder="hash:32")
    assert "reembed" in refusal.value.fix
    with SkillGraph.open(path, tenant="t") as again:  # without a choice it is the one that was recorded
        assert texts(again, "mornings", "ana") == ["mornings"]
        SkillGraph.reembed(path, tenant="t", embedder="hash:32")
        for call in (
            asking(),
            adding(),
            lambda graph: graph.update(kept, text="evenings"),
            lambda graph: graph.set_profile("ana", "likes tea"),
            lambda graph: graph.hear("I live in Berlin.", user="ana"),
        ):
            with pytest.raises(StoreRefusedError, match=r"hash:32 .* not by hash:64"):
                call(again)
    with pytest.raises(StorageError, match="closed"):
        again.get(kept)


def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with SkillGraph.open(path, tenant="team", embedder="hash") as graph:
        graph.add_all(NewSkill("ana", f"way {place} " * 50) for place in range(300))
    pages = bytearray(path.read_bytes())
    for page in range(5, len(pages) // 4096):
        pages[page * 4096 : page * 4096 + 16] = b"\xff" * 16
    path.write_bytes(pages)

    with (
        pytest.raises(StorageError, match=r"skills.db is damaged: .*malformed") as told,
        SkillGraph.open(path, tenant="team") as graph,
    ):
        graph.recall("way", user="ana")
    assert "restore a backup" in told.value.fix


def test_a_disk_without_space_for_a_new_store_is_told(tmp_path: Path) -> None:
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash") as graph:
        skills = [one.id for one in graph.add_all(NewSkill("ana", f"way {place} " * 50) for place in range(300))]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with SkillGraph.open(tmp_path / "skills.db", tenant="team") as graph:
        for size, call in (
            (4096, lambda: SkillGraph.open(tmp_path / "full.db", tenant="team", embedder="hash")),
            (200_000, lambda: graph.delete(skills[0])),  # which writes the whole file anew
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
            try:
                with pytest.raises(StorageError, match="the disk failed"):
                    call()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
