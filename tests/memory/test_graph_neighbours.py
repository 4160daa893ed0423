"""Neighbours: what was said just before and after a skill, what connects skills, and how far the graph is trusted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory import GraphSettings, NewSkill, SkillGraph
from agentfw_memory.graph.recall.calibration import calibrated
from agentfw_memory.graph.recall.timeline import GAP, Timeline

pytest.importorskip("igraph")
pytest.importorskip("leidenalg")

MOMENTS = st.dictionaries(
    st.integers(1, 30), st.tuples(st.integers(0, 40).map(lambda hours: hours * 1200.0), st.integers(0, 2)), max_size=20
)


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


@given(MOMENTS, MOMENTS, st.integers(1, 2))
def test_neighbours_are_the_nearest_visible_ones_within_the_hour(
    first: dict[int, tuple[float, int]], later: dict[int, tuple[float, int]], reader: int
) -> None:
    timeline = Timeline()
    for number, (when, part) in [*first.items(), *later.items()]:
        timeline.put(number, when, part)
    known = {**first, **later}
    for number in list(known)[::3]:
        timeline.remove(number)
        del known[number]

    for number, (when, _) in known.items():
        seen = sorted((then, other) for other, (then, part) in known.items() if part in (0, reader) and other != number)
        before = [other for then, other in seen if (then, other) < (when, number) and when - then <= GAP][-1:]
        after = [other for then, other in seen if (then, other) > (when, number) and then - when <= GAP][:1]
        assert timeline.around(number, (0, reader)) == [*before, *after]


def test_the_answer_beside_a_question_is_found(by_words: SkillGraph) -> None:
    graph = by_words
    said = ["shall we talk about the trip to Lisbon?", "yes: it was rainy and far too short", "let us eat something"]
    other = [f"nothing of interest, part {place}" for place in range(40)]
    graph.add_skills(NewSkill("ana", text, valid_from=100_000.0 * place) for place, text in enumerate(other, start=2))
    graph.add_skills(NewSkill("ana", text, valid_from=10.0 + place) for place, text in enumerate(said))

    hits = {hit.skill.text: hit for hit in graph.recall("how was the trip to Lisbon?", user="ana", k=3)}

    assert said[1] in hits
    assert hits[said[1]].why.neighbours > 0
    assert "just before or after" in hits[said[1]].why.path


def test_a_skill_used_together_with_a_candidate_is_found_and_says_so(by_words: SkillGraph) -> None:
    graph = by_words
    asked = graph.add_skill(owner="ana", text="move the meeting", valid_from=1.0)
    helper = graph.add_skill(owner="ana", text="the door code is 17", valid_from=90_000.0)
    graph.add_skills(NewSkill("ana", f"unrelated {place}", valid_from=1e6 * (place + 1)) for place in range(30))
    before = [hit.skill.id for hit in graph.recall("move the meeting", user="ana")]

    graph.learn({"id": "t1", "user": "ana", "query": "q", "skills": [asked.id, helper.id]}, 0.5)
    after = {hit.skill.id: hit.why.path for hit in graph.recall("move the meeting", user="ana")}

    assert before == [asked.id]
    assert after[helper.id].startswith(f"used together with {asked.id}")


def test_a_private_neighbour_of_somebody_else_is_not_found(graph: SkillGraph) -> None:
    graph.add_skill(owner="ana", text="the trip to Lisbon", visibility="shared", valid_from=1.0)
    graph.add_skill(owner="ana", text="my secret", valid_from=2.0)

    assert [hit.skill.text for hit in graph.recall("trip to Lisbon", user="ben")] == ["the trip to Lisbon"]


def test_a_forgotten_user_connects_nothing_any_more(graph: SkillGraph) -> None:
    one = graph.add_skill(owner="ana", text="move the meeting", visibility="shared", valid_from=1.0)
    other = graph.add_skill(owner="ana", text="the door code", visibility="shared", valid_from=90_000.0)
    graph.learn({"id": "t1", "user": "ben", "query": "q", "skills": [one.id, other.id]}, 0.5)
    graph.recall("meeting", user="ana")

    graph.forget("ben")
    graph.recall("meeting", user="ana")

    assert graph._recaller.cache.connections.used_with(int(one.id[1:])) == []


@pytest.mark.parametrize("shuffled", [False, True])
def test_owners_count_only_where_they_say_something(graph: SkillGraph, shuffled: bool) -> None:
    subjects = {f"user{place}": [f"subject{place}word{word}" for word in range(6)] for place in range(8)}
    draw = random.Random(3)
    texts = [(owner, " ".join(draw.sample(words, 4))) for owner, words in subjects.items() for _ in range(12)]
    owners = [owner for owner, _ in texts]
    if shuffled:
        draw.shuffle(owners)
    graph.add_skills(
        NewSkill(owner, f"{text} {place}", valid_from=90_000.0 * (place + 1))
        for place, (owner, (_, text)) in enumerate(zip(owners, texts, strict=True))
    )
    graph.recall("anything", user="user1")

    trust = calibrated(graph._recaller.cache, graph._recaller.membership)

    assert (trust.user < 0.3, trust.community < 0.3) == (shuffled, shuffled)


def test_rewards_make_a_term_trusted_where_texts_alone_do_not(graph: SkillGraph) -> None:
    # Texts are noise. Two circles of people succeed with the skills of their own circle only.
    draw = random.Random(5)
    users = [f"user{place}" for place in range(12)]
    skills = graph.add_skills(
        NewSkill(user, f"w{draw.randrange(10**9)} w{draw.randrange(10**9)}", visibility="shared", valid_from=9e4 * at)
        for at, user in enumerate(users * 5, start=1)
    )
    graph.recall("anything", user="user1")
    before = calibrated(graph._recaller.cache, graph._recaller.membership)
    for place in range(240):
        user, skill = draw.randrange(12), draw.choice(skills)
        fits = user % 2 == int(skill.owner[4:]) % 2
        graph.learn({"id": f"t{place}", "user": users[user], "query": "q", "skills": [skill.id]}, 0.9 if fits else 0.1)
    graph.prepare()

    after = calibrated(graph._recaller.cache, graph._recaller.membership)

    assert before.community < 0.4
    assert after.community > 0.7


def test_calibration_can_be_turned_off() -> None:
    chosen = replace(GraphSettings(), calibrate=False)
    with SkillGraph.open(":memory:", tenant="t", embedder="hash", settings=chosen) as graph:
        graph.add_skills(NewSkill("ana", f"w{place} v{place}") for place in range(40))
        hit = graph.recall("w3", user="ana")[0]

    assert hit.why.points["community"] == pytest.approx(chosen.community_weight * hit.why.community)
