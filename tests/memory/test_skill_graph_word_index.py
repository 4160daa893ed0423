"""The saved word index: it is what the store holds, spares reading the texts, and is only ever a cache."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.graph.index import word_index
from agentfw_memory.graph.index.word_index import SHARED, WordIndex
from agentfw_memory.graph.recall.embedded import EmbeddedRecall
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Delete

VOCABULARY = [f"word{number}" for number in range(40)]

Held = dict[int, tuple[int, list[tuple[str, int]]]]


def held(index: WordIndex) -> Held:
    """By skill: its part, and its terms with their counts."""
    found: Held = {}
    arrays = index.taken_apart()
    names, pairs = arrays["names"].tobytes().decode().split("\n"), iter(arrays["pairs"].tolist())
    for number, part, size in zip(*(arrays[name].tolist() for name in ("numbers", "parts", "sizes")), strict=True):
        counts = [next(pairs) for _ in range(size)]
        found[number] = part, sorted((names[term], count) for term, count in counts)
    return found


def same_as_rows(graph: SkillGraph) -> bool:
    """Whether the index holds and finds what one does that was filled from the store."""
    graph._recaller.catch_up()
    by = graph._recaller._by
    assert isinstance(by, EmbeddedRecall)
    index, fresh = by._words, WordIndex()
    assert index is not None
    for rows in graph._rows.live():
        texts = graph._rows.texts(rows.numbers.tolist())
        parts = [SHARED if shared else int(owner) for owner, shared in zip(rows.owners, rows.shared, strict=True)]
        for number, part in zip(rows.numbers.tolist(), parts, strict=True):
            fresh.put(number, texts[number], part)
    readers = [None, *{part for part, _ in held(fresh).values() if part}]
    return held(index) == held(fresh) and all(
        index.question(word, reader).best(10).tolist() == fresh.question(word, reader).best(10).tolist()
        for word in VOCABULARY[::5]
        for reader in readers
    )


def churn(graph: SkillGraph, generator: random.Random, turns: int) -> list[str]:
    """Add, change and retire skills. Return the ids of those that are left."""

    def text() -> str:
        return " ".join(generator.choices(VOCABULARY, k=generator.randint(1, 6)))

    ids = [skill.id for skill in graph.add_all([NewSkill("ana", f"{text()} {place}") for place in range(20)])]
    for turn in range(turns):
        what = generator.random()
        if what < 0.5:
            visibility: Literal["private", "shared"] = generator.choice(["private", "shared"])
            ids.append(graph.add(owner="ben", text=f"{text()} new {turn}", visibility=visibility).id)
        elif what < 0.7:
            graph.update(generator.choice(ids), text=f"{text()} changed {turn}")
        elif what < 0.8:
            graph.update(generator.choice(ids), visibility=generator.choice(["private", "shared"]))
        else:
            graph.retire(ids.pop(generator.randrange(len(ids))))
    return ids


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The skills whose texts were read from a store."""
    numbers: list[int] = []
    texts = GraphRows.texts

    def recorded(store: GraphRows, asked: Sequence[int]) -> dict[int, str]:
        numbers.extend(asked)
        return texts(store, asked)

    monkeypatch.setattr(GraphRows, "texts", recorded)
    return numbers


def check_saving(where: str | Path, read: list[int]) -> None:
    with SkillGraph.open(where, tenant="t", embedder="hash:16") as one:
        ids = churn(one, random.Random(7), 60)
        with SkillGraph.open(where, tenant="t") as other:
            assert same_as_rows(other)
        ids.append(one.add(owner="cleo", text="word1 new since it was saved").id)
        one.update(ids[0], text="word2 changed since it was saved")
        one.update(ids[1], visibility="shared")
        one.retire(ids[2])
    read.clear()
    with SkillGraph.open(where, tenant="t") as again:
        again.recall("word1", user="cleo")
        assert sorted(read) == sorted(int(ids[place][1:]) for place in (0, 1, 2, -1))
        assert same_as_rows(again)
        churn(again, random.Random(8), 60)
        assert same_as_rows(again)
    with SkillGraph.open(where, tenant="t") as last:
        assert same_as_rows(last)


def test_only_texts_that_changed_after_it_was_saved_are_read(tmp_path: Path, read: list[int]) -> None:
    check_saving(tmp_path / "skills.db", read)


@pytest.mark.slow
def test_it_is_saved_on_a_server_too(postgres_database: Callable[..., str], read: list[int]) -> None:
    pytest.importorskip("psycopg")
    check_saving(postgres_database(), read)


@pytest.mark.parametrize("spoil", ["unreadable", "gone", "other stemmer"])
def test_a_saved_index_that_does_not_fit_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    path = tmp_path / "skills.db"
    with SkillGraph.open(path, tenant="t", embedder="hash:16") as graph:
        churn(graph, random.Random(7), 30)
        graph.prepare()
        with graph._rows.writing() as change:
            if spoil == "unreadable":
                graph._rows.save_state(change, "words of texts", b"PK\x03\x04 and so on")
            elif spoil == "gone":
                graph._store.write(Delete("state", {"name": "words of texts"}))
            else:
                monkeypatch.setattr(word_index, "FORMAT", word_index.FORMAT + 1)
                graph._rows.save_state(change, "words of texts", b"of an older version")

    with SkillGraph.open(path, tenant="t") as graph:
        assert same_as_rows(graph)
        graph.prepare()
    with SkillGraph.open(path, tenant="t") as graph:
        assert same_as_rows(graph)


def test_a_process_that_lags_behind_does_not_bring_back_a_forgotten_user(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with SkillGraph.open(path, tenant="t", embedder="hash:16") as one, SkillGraph.open(path, tenant="t") as other:
        one.add_all([NewSkill("ana", "zanzibar trip"), NewSkill("ben", "trip home", visibility="shared")])
        other.recall("trip", user="ben")
        by = other._recaller._by
        assert isinstance(by, EmbeddedRecall)
        index, counter = by._words, other._recaller.cache.counter
        assert index is not None
        one.forget("ana")

        assert not word_index.save_words(index, counter, other._rows)
        other.prepare()

        saved = word_index.load_words(one._rows)
        assert saved is not None
        assert list(held(saved[0])) == [int(hit.skill.id[1:]) for hit in one.recall("trip", user="ben")]


def test_a_word_can_be_added_and_removed_while_somebody_still_holds_an_earlier_question() -> None:
    """As a thread that watches for hanging plugins does, when it has looked at the frames of a recall."""
    index = WordIndex()
    index.put(1, "rare word")
    held = index.question("rare word", None)

    index.put(2, "rare word")
    later = index.question("rare word", None)
    index.remove(1)

    assert (held.count, later.count) == (1, 2)
    assert index.question("rare word", None).best(5).tolist() == [2]
