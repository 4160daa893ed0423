"""Relevance: unrelated questions get nothing, and a recall may return fewer skills than were asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

import pytest

from agentfw_memory import BadInputError, GraphSettings, NewSkill, SkillGraph

pytest.importorskip("snowballstemmer")
pytest.importorskip("wordllama")

THINGS = ("tea", "trains", "chess", "gardens", "violins", "soup", "boats", "maps", "owls", "paint", "clocks", "snow")
WAYS = ("likes", "collects", "avoids", "draws", "sells", "studies")
DAY = 90_000.0


@pytest.fixture(scope="module")
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="t") as opened:
        opened.add_all(
            NewSkill("ana", f"Somebody {way} {thing}", visibility="shared", valid_from=DAY * (7 * place + number))
            for place, thing in enumerate(THINGS)
            for number, way in enumerate(WAYS)
        )
        yield opened


def test_nonsense_gets_nothing_unless_asked_for(graph: SkillGraph) -> None:
    draw = random.Random(2)
    nonsense = [" ".join("".join(draw.choices(ascii_lowercase, k=6)) for _ in range(3)) for _ in range(60)]

    assert sum(not graph.recall(query, user="ben") for query in nonsense) >= 57
    assert graph.recall("zzzz qqqq", user="ben") == []
    assert len(graph.recall("zzzz qqqq", user="ben", at_least=0.0)) == 5


def test_what_is_about_the_question_is_kept_and_comes_with_its_relevance(graph: SkillGraph) -> None:
    for thing in THINGS:
        first, *others = graph.recall(f"Who studies {thing}?", user="ben")

        assert first.skill.text == f"Somebody studies {thing}"
        assert 1.0 >= first.relevance >= max(hit.relevance for hit in others) > 0.0


def test_a_skill_is_as_relevant_beside_one_that_suits_the_user_better(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with SkillGraph.open(path, tenant="t", embedder="hash") as graph:
        theirs = graph.add(owner="ben", text="offer tea in the garden", visibility="shared", valid_from=1.0)
        graph.add(owner="ana", text="offer tea in the kitchen", valid_from=DAY)
        graph.add_all(NewSkill("carl", f"number {place}", visibility="shared") for place in range(40))

    def relevance(community_weight: float) -> float:
        settings = GraphSettings(calibrate=False, community_weight=community_weight, user_weight=0.0)
        with SkillGraph.open(path, tenant="t", settings=settings) as graph:
            hits = {hit.skill.id: hit for hit in graph.recall("offer tea", user="ana", k=2, at_least=0.0)}
            return hits[theirs.id].relevance

    assert relevance(1.0) == pytest.approx(relevance(0.0)) != 0.0


def test_a_few_notes_are_always_worth_showing() -> None:
    with SkillGraph.open(":memory:", tenant="t") as small:
        small.add(owner="ana", text="Call me Alex")

        assert [hit.skill.text for hit in small.recall("what is my name?", user="ana")] == ["Call me Alex"]


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan")])
def test_a_bound_is_a_probability(graph: SkillGraph, wrong: float) -> None:
    with pytest.raises(BadInputError, match="at_least"):
        graph.recall("tea", user="ben", at_least=wrong)
    with pytest.raises(BadInputError, match="at_least"):
        GraphSettings(at_least=wrong)
