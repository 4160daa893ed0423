"""Neighbours: what was said just before and after a skill, what connects skills, and how far the graph is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agentfw_memory import GraphSettings, NewSkill, SkillGraph

pytest.importorskip("igraph")


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as opened:
        yield opened


@pytest.fixture
def by_words() -> Iterator[SkillGraph]:
    """A graph whose candidates share a word with the query, so that others must be found through these."""
    chosen = GraphSettings(query_similarity="words")
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", settings=chosen) as opened:
        yield opened


def test_the_answer_beside_a_question_is_found(by_words: SkillGraph) -> None:
    graph = by_words
    said = ["shall we talk about the trip to Lisbon?", "yes: it was rainy and far too short", "let us eat something"]
    other = [f"nothing of interest, part {place}" for place in range(40)]
    graph.add_all(NewSkill("ana", text, valid_from=100_000.0 * place) for place, text in enumerate(other, start=2))
    graph.add_all(NewSkill("ana", text, valid_from=10.0 + place) for place, text in enumerate(said))

    hits = {hit.skill.text: hit for hit in graph.recall("how was the trip to Lisbon?", user="ana", k=3)}

    assert said[1] in hits
    assert hits[said[1]].why.neighbours > 0
    assert "just before or after" in hits[said[1]].why.path


def test_what_a_person_has_much_of_does_not_hide_what_they_ask_for(graph: SkillGraph) -> None:
    graph.add_all(
        NewSkill("ana", f"dear diary number{place}, supper with the family went well", valid_from=9e4 * (place + 1))
        for place in range(60)
    )
    rooms = ("attic", "cellar", "kitchen", "garage", "library", "nursery")
    for place, room in enumerate(rooms, start=100):
        text = f"the {room} of the house has to be aired"
        graph.add(owner="handbook", text=text, visibility="shared", valid_from=9e4 * place)

    first = [graph.recall(f"went well airing the {room} with family?", user="ana")[0].skill.text for room in rooms]

    assert first == [f"the {room} of the house has to be aired" for room in rooms]


def test_who_is_named_in_a_question_is_preferred(graph: SkillGraph) -> None:
    for place, owner in enumerate(("Ana Silva", "Ben", "Caroline", "小明")):
        graph.add(owner=owner, text="tea in the morning", visibility="shared", valid_from=9e4 * (place + 1))

    def first(query: str) -> str:
        return graph.recall(query, user="Ana Silva")[0].skill.owner

    assert [first(f"What does {name} drink?") for name in ("Caroline", "ben", "Ana Silva")] == [
        *("Caroline", "Ben", "Ana Silva")
    ]
    assert first("小明喜欢喝什么 tea") == "小明"
    assert [hit.why.owner for hit in graph.recall("What does Silva drink?", user="Ben")] == [0.0] * 4
    graph.forget("Ben")
    graph.add(owner="Dora", text="tea in the morning", visibility="shared", valid_from=9e5)
    assert first("What does Dora drink?") == "Dora"


def test_a_long_text_gains_less_from_its_neighbours_than_a_remark(graph: SkillGraph) -> None:
    for place, text in enumerate(("in winter", " ".join(f"word{place}" for place in range(300)))):
        graph.add(owner="ana", text=f"we sailed {place}", visibility="shared", valid_from=9e4 * place)
        graph.add(owner="ana", text=text, visibility="shared", valid_from=9e4 * place + 1)

    gained = {hit.skill.text: hit.why.neighbours for hit in graph.recall("sailed", user="ana", k=10)}

    assert gained["in winter"] > 5 * gained[text] > 0.0


def test_calibration_can_be_turned_off() -> None:
    chosen = replace(GraphSettings(), calibrate=False)
    with SkillGraph.open(":memory:", tenant="t", embedder="hash", settings=chosen) as graph:
        graph.add_all(NewSkill("ana", f"w{place} v{place}") for place in range(40))
        hit = graph.recall("w3", user="ana")[0]

    assert hit.why.points["community"] == pytest.approx(chosen.community_weight * hit.why.community)
