"""The search index: what it finds, that it is always what the store holds, and that it is only ever a cache."""

from __future__ import annotations

import os
import random
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw_memory import GraphSettings, NewSkill, SkillGraph
from agentfw_memory.graph.arrays import grown
from agentfw_memory.graph.index.vector_index import ExactIndex, ListIndex

pytest.importorskip("faiss")
SMALL = GraphSettings(exact_up_to=100, probed=1.0)


def unit_rows(count: int, dimensions: int = 16, seed: int = 7) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(1, 60), min_size=1, max_size=8, unique=True)), max_size=15
    ),
    hidden=st.sets(st.integers(1, 60)),
    seed=st.integers(0, 1000),
)
def test_both_indexes_find_the_same_after_any_changes(
    steps: list[tuple[bool, list[int]]], hidden: set[int], seed: int
) -> None:
    rows = unit_rows(2000, seed=seed)
    exact, lists = ExactIndex(16), ListIndex.trained(unit_rows(50), 50, probed=1.0, seed=7)
    kept: dict[int, np.ndarray] = {}
    for turn, (put, numbers) in enumerate(steps):
        vectors = rows[[turn * 60 + number for number in numbers]]
        for index in (exact, lists):
            if put:
                index.put(np.array(numbers), vectors)
            else:
                index.remove(numbers)
        for number, vector in zip(numbers, vectors, strict=True):
            if put:
                kept[number] = vector
            else:
                kept.pop(number, None)
    assert len(exact) == len(lists) == len(kept)
    assert sorted(exact.numbers().tolist()) == sorted(lists.numbers().tolist()) == sorted(kept)
    query = unit_rows(1, seed=seed + 1)[0]
    allowed = sorted(set(kept) - hidden)
    best = sorted(allowed, key=lambda number: -float(kept[number] @ query))[:5]
    for index in (exact, lists):
        found, likeness = index.search(query, 5, np.array(allowed, np.int64))
        assert found.tolist() == best
        assert likeness.tolist() == pytest.approx([float(kept[number] @ query) for number in best], abs=1e-5)
        everyone, _ = index.search(query, 99, None)
        assert set(everyone.tolist()) == set(kept)
        if kept:
            some = np.array(sorted(kept))
            assert np.array_equal(index.vectors(some), np.stack([kept[number] for number in some.tolist()]))


def churn(graph: SkillGraph, generator: random.Random, turns: int) -> None:
    ids = [skill.id for skill in graph.add_all([NewSkill("ana", f"w{n} w{n % 7}") for n in range(150)])]
    for turn in range(turns):
        what = generator.random()
        if what < 0.5:
            visibility: Literal["private", "shared"] = generator.choice(["private", "shared"])
            ids.append(graph.add(owner="ben", text=f"w{turn} new {turn}", visibility=visibility).id)
        elif what < 0.75:
            graph.update(generator.choice(ids), text=f"w{turn} changed {turn}")
        else:
            graph.retire(ids.pop(generator.randrange(len(ids))))


def same_as_store(graph: SkillGraph) -> bool:
    """Each skill is in its own part with its own vector, and nothing else is there."""
    graph._recaller.catch_up()
    indexes = graph._recaller.cache.index.parts
    kept: dict[str, dict[int, np.ndarray]] = {"private": {}, "shared": {}}
    for rows in graph._rows.live():
        for number, shared, vector in zip(rows.numbers.tolist(), rows.shared.tolist(), rows.vectors, strict=True):
            kept["shared" if shared else "private"][number] = vector
    return all(
        sorted(indexes[part].numbers().tolist()) == sorted(rows)
        and all(np.array_equal(indexes[part].vectors(np.array([number]))[0], row) for number, row in rows.items())
        for part, rows in kept.items()
    )


def test_the_index_is_what_the_store_holds_also_after_others_wrote_and_after_it_was_saved(tmp_path: Path) -> None:
    path, generator = tmp_path / "skills.db", random.Random(7)
    with (
        SkillGraph.open(path, tenant="t", embedder="hash:16", settings=SMALL) as one,
        SkillGraph.open(path, tenant="t", settings=SMALL) as other,
    ):
        churn(one, generator, 60)
        assert same_as_store(other)
        kinds = {part: type(index) for part, index in other._recaller.cache.index.parts.items()}
        assert kinds == {"private": ListIndex, "shared": ExactIndex}
        other.prepare()
        one.add(owner="cleo", text="after it was saved")
        one.update("s2", text="changed after it was saved")
        one.update("s4", visibility="shared")
        one.retire("s3")
    with SkillGraph.open(path, tenant="t", settings=SMALL) as again:
        assert same_as_store(again)
        assert again._recaller.cache._saved_at > 0  # it came from the file


@pytest.mark.parametrize("spoil", ["cut", "flipped", "foreign", "newer", "other dimensions"])
def test_a_saved_index_that_does_not_fit_is_not_used(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "skills.db"

    def fill(place: Path, embedder: str) -> None:
        with SkillGraph.open(place, tenant="t", embedder=embedder, settings=SMALL) as graph:
            graph.add_all([NewSkill("ana", f"w{n} w{n % 7}") for n in range(150)])
            graph.prepare()

    fill(path, "hash:16")
    (index,) = tmp_path.glob("*.index")
    data = bytearray(index.read_bytes())
    if spoil == "cut":
        index.write_bytes(data[: len(data) // 2])
    elif spoil == "flipped":
        data[len(data) // 2] ^= 1
        index.write_bytes(data)
    elif spoil == "newer":
        with SkillGraph.open(path, tenant="t") as graph:
            counter = graph._store.head().counter
        path.unlink()
        fill(tmp_path / "older.db", "hash:16")
        (tmp_path / "older.db").rename(path)
        assert counter > 0
    else:
        (tmp_path / "other").mkdir()
        fill(tmp_path / "other" / "skills.db", "hash:16" if spoil == "foreign" else "hash:8")
        index.write_bytes(next((tmp_path / "other").glob("*.index")).read_bytes())
    with SkillGraph.open(path, tenant="t", settings=SMALL) as graph:
        assert same_as_store(graph)
        assert graph._recaller.cache._saved_at == 0


def test_a_graph_grows_from_one_kind_of_index_into_the_other_without_a_difference(tmp_path: Path) -> None:
    def without_ties(texts: Sequence[str]) -> list[np.ndarray]:
        return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(32) for text in texts]

    wanted = [NewSkill("ana", f"word {number}") for number in range(300)]
    answers = {}
    for limit in (100, 1000):
        chosen = GraphSettings(exact_up_to=limit, probed=1.0)
        with SkillGraph.open(tmp_path / f"{limit}.db", tenant="t", embedder=without_ties, settings=chosen) as graph:
            for start in range(0, 300, 50):
                graph.add_all(wanted[start : start + 50])
                graph.recall("word3", user="ana")
            answers[limit] = [
                (hit.skill.id, round(hit.score, 5))
                for query in ("word1 word7", "word12", "word200")
                for hit in graph.recall(query, user="ana", k=10)
            ]
    assert answers[100] == answers[1000]


def test_without_faiss_a_large_graph_is_looked_through_whole_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = replace(SMALL, query_similarity="vectors", candidates=10)

    def found(path: Path) -> list[tuple[str, float]]:
        with SkillGraph.open(path, tenant="t", settings=vectors) as graph:
            graph.add(owner="ana", text=f"word {len(asked)} more")
            graph.prepare()
            return [(hit.skill.id, round(hit.score, 5)) for query in asked for hit in graph.recall(query, user="ana")]

    asked = ["word 17", "word 203", "more"]
    with SkillGraph.open(tmp_path / "with.db", tenant="t", embedder="hash:64", settings=SMALL) as graph:
        graph.add_all(NewSkill("ana", f"word {number}") for number in range(300))
        graph.admin.export_jsonl(tmp_path / "all.jsonl")
    assert list(tmp_path.glob("*.index")) == []  # nothing was recalled yet
    with_faiss = found(tmp_path / "with.db")
    assert list(tmp_path.glob("with.db-*.index")) != []
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert found(tmp_path / "with.db") == with_faiss  # the index that somebody else left is no hindrance
    with SkillGraph.open(tmp_path / "without.db", tenant="t", embedder="hash:64", settings=SMALL) as graph:
        graph.admin.import_jsonl(tmp_path / "all.jsonl")
    assert found(tmp_path / "without.db") == with_faiss
    assert list(tmp_path.glob("without.db-*.index")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_array_that_has_grown_keeps_its_content_and_is_not_shared_after_a_fork() -> None:
    array = grown(np.ones(16), 1_000_000)
    child = os.fork()
    if not child:
        array[:] = 7.0
        os._exit(0)
    os.waitpid(child, 0)

    assert array[:16].tolist() == [1.0] * 16
    assert not array[16:].any()
