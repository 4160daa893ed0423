"""A tenant that is too large for a process: the database searches, and recalls what a process in memory would."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentfw_memory import GraphSettings, NewSkill, SkillGraph, Trajectory
from agentfw_memory.graph.recall.in_database import DatabaseRecall

pytest.importorskip("psycopg")
pytest.importorskip("igraph")

Database = Callable[..., str]
SERVED = GraphSettings(in_memory_up_to=0)
WORDS = (
    *("slot", "lunch", "meeting", "calendar", "mail", "early", "late", "phone"),
    *("window", "aisle", "hotel", "train", "Berlin", "Lisbon", "invoice", "report"),
)


def open_graph(url: str, settings: GraphSettings = SERVED, tenant: str = "team") -> SkillGraph:
    return SkillGraph.open(url, tenant=tenant, embedder="hash:64", settings=settings)


def fill(graph: SkillGraph, count: int, seed: int = 7) -> None:
    draw = random.Random(seed)
    skills = graph.add_all(
        NewSkill(
            f"user{draw.randrange(12)}",
            f"{' '.join(draw.choices(WORDS, k=6))} number {place}",
            (f"tool{draw.randrange(3)}",),
            (f"scenario{draw.randrange(8)}",),
            "shared" if draw.random() < 0.7 else "private",
            1e9 + 1000 * place,
        )
        for place in range(count)
    )
    for trip in range(60):
        used = tuple(skill.id for skill in draw.sample(skills, 3))
        learned = Trajectory(f"trip {trip}", f"user{draw.randrange(12)}", "q", (f"scenario{trip % 8}",), skills=used)
        graph.learn(learned, draw.random())
    graph.connect(skills[0].id, "CONFLICTS", skills[1].id)
    graph.set_profile("user3", "likes mornings and the window")


@pytest.mark.slow
def test_the_database_recalls_what_a_process_in_memory_does_in_at_most_nine_queries(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each query, it waits for a free core of the server, and for the network."""
    import psycopg

    url, asked, execute = postgres_database(), 0, psycopg.Cursor.execute

    def counted(cursor: psycopg.Cursor[Any], *arguments: Any, **options: Any) -> psycopg.Cursor[Any]:
        nonlocal asked
        asked += 1
        return execute(cursor, *arguments, **options)

    draw = random.Random(1)
    with open_graph(url, GraphSettings()) as memory, open_graph(url) as served:
        fill(memory, 200)
        served.prepare()
        memory.prepare()
        assert isinstance(served._recaller._by, DatabaseRecall)
        assert not isinstance(memory._recaller._by, DatabaseRecall)
        same = total = 0
        for _ in range(30):
            user, query = f"user{draw.randrange(12)}", " ".join(draw.choices(WORDS, k=3))
            here, there = (graph.recall(query, user=user, k=10) for graph in (memory, served))
            assert all(hit.skill.visibility == "shared" or hit.skill.owner == user for hit in there)
            total += len(here)
            same += len({hit.skill.id for hit in here} & {hit.skill.id for hit in there})
            assert there[0].score == pytest.approx(here[0].score, abs=0.05)
        assert same / total > 0.9
        assert served.admin.stats().communities == memory.admin.stats().communities
        monkeypatch.setattr(psycopg.Cursor, "execute", counted)
        assert len(served.recall("an early train to Lisbon", user="user3", k=10)) == 10
        assert 0 < asked <= 9


def test_an_unprepared_graph_is_searched_too_and_says_what_makes_it_fast(
    postgres_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with open_graph(postgres_database()) as graph:
        graph.add(owner="ana", text="offer the earliest slot", visibility="shared")
        assert graph.recall("which slot?", user="ben")[0].skill.text == "offer the earliest slot"
        assert "agentfw memory prepare" in caplog.text
        caplog.clear()
        graph.prepare()
        assert graph.recall("which slot?", user="ben")
        assert not caplog.records


@pytest.mark.parametrize("settings", [SERVED, GraphSettings()], ids=["in the database", "in memory"])
def test_a_graph_learns_the_same_either_way(postgres_database: Database, settings: GraphSettings) -> None:
    sharing = replace(settings, share_after=3, skills_per_owner=3, merge_above=0.8)
    with open_graph(postgres_database(), sharing) as graph:
        for user in ("ana", "ben", "cleo"):
            learned = graph.learn(Trajectory(f"{user} 1", user, "q", ("trip",), (), "I prefer window seats."), 0.5)
        assert len(learned.shared) == 1
        changed = graph.learn(Trajectory("ana 2", "ana", "q", ("trip",), (), "I prefer window seats, always."), 0.5)
        assert changed.updated or changed.retired
        for number, wish in enumerate(("tea", "jazz", "mornings", "trains", "hotels with a pool")):
            graph.learn(Trajectory(f"ben {number + 2}", "ben", "q", (f"s{number}",), (), f"I prefer {wish}."), 0.5)
        assert len(graph.skills(owner="ben")) == 3
        assert graph.forget("cleo").skills == 1
        assert {skill.owner for hit in graph.recall("seats", user="ana", k=20) for skill in [hit.skill]} == {"ana"}


def test_a_graph_moves_to_the_database_when_it_outgrows_the_process(postgres_database: Database) -> None:
    with open_graph(postgres_database(), GraphSettings(in_memory_up_to=50)) as graph:
        fill(graph, 50)
        graph.recall("slot", user="user1")
        assert not isinstance(graph._recaller._by, DatabaseRecall)
        fill(graph, 60, seed=8)
        assert graph.recall("slot", user="user1")
        assert isinstance(graph._recaller._by, DatabaseRecall)
        assert len(graph._recaller.cache) < 50
