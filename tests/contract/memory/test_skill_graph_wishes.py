"""What a skill graph makes of what its users say: also after a failure, and when they say something else later."""

from __future__ import annotations

from typing import Any

import pytest

from agentfw_memory import GraphSettings, Learned, SkillGraph, Trajectory

pytest.importorskip("igraph")


def opened(**values: Any) -> SkillGraph:
    return SkillGraph.open(":memory:", tenant="team", embedder="hash", settings=GraphSettings(**values))


def say(graph: SkillGraph, name: str, words: str, reward: float = 0.9, *, about: str = "dining") -> Learned:
    return graph.learn(Trajectory(name, "ana", "a table for two", (about,), (), words), reward)


def texts(graph: SkillGraph, about: str = "dining") -> set[str]:
    return {hit.skill.text for hit in graph.recall(about, user="ana", k=20)}


def test_what_a_user_says_after_a_failure_is_learned() -> None:
    with opened() as graph:
        learned = say(graph, "t1", "I prefer quiet tables.", reward=0.2)

        assert texts(graph) == {"For dining: I prefer quiet tables."}
        assert graph.get(learned.added[0]).uses == 0  # it wasn't tried, so the failure isn't its own
    with opened(wishes_from=0.5) as graph:
        say(graph, "t1", "I prefer quiet tables.", reward=0.2)

        assert texts(graph) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("prefer quiet tables near the window", "prefer loud tables near the window"),
        ("prefer jazz with friends at dinner", "prefer rock with friends at dinner"),
    ],
)
def test_the_opposite_in_nearly_the_same_words_becomes_the_newest_version(before: str, after: str) -> None:
    with opened(merge_above=0.5) as graph:
        first = say(graph, "t1", f"I {before}.")
        (old,) = texts(graph)

        second = say(graph, "t2", f"I {after}.")

        (new,) = texts(graph)
        assert new != old
        assert second.updated == first.added
        assert [version.text for version in graph.history(first.added[0]).versions] == [old, new]


def test_without_newest_wins_both_stay() -> None:
    with opened(merge_above=0.5, newest_wins=False) as graph:
        say(graph, "t1", "I prefer quiet tables near the window")
        say(graph, "t2", "I prefer loud tables near the window")

        assert len(texts(graph)) == 2
