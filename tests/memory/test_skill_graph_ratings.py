"""What users thought of answers changes what is recalled for such questions, and no single thumb decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agentfw_memory import GraphSettings, SkillGraph, Trajectory
from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.graph.stores.sqlite import SqliteStore

pytest.importorskip("igraph")

QUESTION = "where do we have lunch?"


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as opened:
        for place in ("have lunch at the harbour", "lunch is good in the garden", "the tower serves lunch"):
            opened.add(owner="ana", text=place)
        opened.add(owner="ana", text="the dentist is Dr. Weiss")
        yield opened


def first(graph: SkillGraph, question: str = QUESTION) -> str:
    return graph.recall(question, user="ana")[0].skill.id


def rate(graph: SkillGraph, number: int, skill: str, reward: float, question: str = QUESTION) -> None:
    graph.learn(Trajectory(f"t{number}", "ana", question, shown=(skill,)), reward)


def test_what_was_shown_for_a_bad_answer_counts_less_for_such_a_question(graph: SkillGraph) -> None:
    before = first(graph)
    rate(graph, 1, before, 0.0)
    hits = {hit.skill.id: hit for hit in graph.recall(QUESTION, user="ana")}
    assert first(graph) != before
    assert hits[before].why.rating == pytest.approx(-0.5)
    assert sum(hits[before].why.points.values()) == pytest.approx(hits[before].score)
    assert graph.get(before).uses == 0  # it was shown; whether it was followed is another matter


def test_another_question_is_not_touched(graph: SkillGraph) -> None:
    asked = "who is the dentist?"
    dentist = first(graph, asked)
    rate(graph, 1, dentist, 0.0)  # it was beside the point there
    assert first(graph, asked) == dentist
    assert graph.recall(asked, user="ana")[0].why.rating == 0.0


def test_a_wrong_thumb_is_outweighed_by_later_right_ones(graph: SkillGraph) -> None:
    right = first(graph)
    rate(graph, 0, right, 0.0)
    for number in range(1, 8):  # from now on the user says what they think
        shown = first(graph)
        rate(graph, number, shown, 1.0 if shown == right else 0.0)
    assert first(graph) == right
    assert graph.recall(QUESTION, user="ana")[0].why.rating > 0


def test_ratings_count_for_their_user_only_and_go_with_them(graph: SkillGraph) -> None:
    shared = graph.add(owner="ben", text="have lunch at the harbour cafe", visibility="shared").id
    rate(graph, 1, shared, 0.0)
    (ratings,) = {hit.why.rating for hit in graph.recall(QUESTION, user="ben") if hit.skill.id == shared}
    assert ratings == 0.0
    graph.forget("ana")
    assert "SHOWN" not in graph.admin.stats().edges


def test_the_ratings_of_a_few_skills_are_found_without_reading_the_uses_of_all(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine, which are the same on every processor."""
    store, steps = SqliteStore.open(tmp_path / "skills.db", tenant="team"), Counter[str]()
    with SkillGraph(store, open_embedder("hash"), GraphSettings()) as graph:
        graph.add(owner="ana", text="lunch at the harbour")
        for others, uses in (("few", 5), ("many", 120)):
            for use in range(uses):
                other = graph.add(owner="ana", text=f"{others} {use}").id
                graph.learn(Trajectory(f"{others} {use}", "ana", "who was it?", skills=(other,)), 1.0)
            graph.recall("lunch", user="ana")
            store._connection.set_progress_handler(partial(steps.update, [others]), 1)
            graph.recall("lunch", user="ana")
            store._connection.set_progress_handler(None, 0)
    assert 0 < steps["many"] < 2 * steps["few"]
