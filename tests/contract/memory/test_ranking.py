"""What comes first and what isn't shown: relevance, neighbours in time, the context, ratings and what helped before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, NewSkill, SkillGraph, Trajectory

pytest.importorskip("snowballstemmer")
pytest.importorskip("wordllama")

OpenGraph = Callable[..., SkillGraph]
THINGS = ("tea", "trains", "chess", "gardens", "violins", "soup", "boats", "maps", "owls", "paint", "clocks", "snow")
WAYS = ("likes", "collects", "avoids", "draws", "sells", "studies")
DAY = 90_000.0


# Relevance: unrelated questions get nothing, and a recall may return fewer skills than were asked for


@pytest.fixture(scope="module")
def somebody() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="t") as opened:
        opened.add_all(
            NewSkill("ana", f"Somebody {way} {thing}", visibility="shared", valid_from=DAY * (7 * place + number))
            for place, thing in enumerate(THINGS)
            for number, way in enumerate(WAYS)
        )
        yield opened


def test_nonsense_gets_nothing_unless_asked_for(somebody: SkillGraph) -> None:
    draw = random.Random(2)
    nonsense = [" ".join("".join(draw.choices(ascii_lowercase, k=6)) for _ in range(3)) for _ in range(60)]

    assert sum(not somebody.recall(query, user="ben") for query in nonsense) >= 57
    assert somebody.recall("zzzz qqqq", user="ben") == []
    assert len(somebody.recall("zzzz qqqq", user="ben", at_least=0.0)) == 5


def test_what_is_about_the_question_is_kept_and_comes_with_its_relevance(somebody: SkillGraph) -> None:
    for thing in THINGS:
        first, *others = somebody.recall(f"Who studies {thing}?", user="ben")

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


# Neighbours: what was said just before and after a skill, and who is named


def test_the_answer_beside_a_question_is_found(open_graph: OpenGraph) -> None:
    # Candidates share a word with the query, so the answer must be found through them.
    graph = open_graph(":memory:", settings=GraphSettings(query_similarity="words"))
    said = ["shall we talk about the trip to Lisbon?", "yes: it was rainy and far too short", "let us eat something"]
    other = [f"nothing of interest, part {place}" for place in range(40)]
    graph.add_all(NewSkill("ana", text, valid_from=100_000.0 * place) for place, text in enumerate(other, start=2))
    graph.add_all(NewSkill("ana", text, valid_from=10.0 + place) for place, text in enumerate(said))

    hits = {hit.skill.text: hit for hit in graph.recall("how was the trip to Lisbon?", user="ana", k=3)}

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

    for asked, named in (("Caroline", "Caroline"), ("ben", "Ben"), ("Ana Silva", "Ana Silva")):
        assert first(f"What does {asked} drink?") == named
    assert first("小明喜欢喝什么 tea") == "小明"
    for name in ("Ana", "Silva"):
        assert [hit.why.owner for hit in graph.recall(f"What does {name} drink?", user="Ben")] == [0.0] * 4
    graph.forget("Ben")
    graph.add(owner="Dora", text="tea in the morning", visibility="shared", valid_from=9e5)
    assert first("What does Dora drink?") == "Dora"


def test_a_long_text_gains_less_from_its_neighbours_than_a_remark(graph: SkillGraph) -> None:
    for place, text in enumerate(("in winter", " ".join(f"word{place}" for place in range(300)))):
        graph.add(owner="ana", text=f"we sailed {place}", visibility="shared", valid_from=9e4 * place)
        graph.add(owner="ana", text=text, visibility="shared", valid_from=9e4 * place + 1)

    gained = {hit.skill.text: hit.why.neighbours for hit in graph.recall("sailed", user="ana", k=10)}

    assert gained["in winter"] > 5 * gained[text] > 0.0


# The context: a recall can start from a scenario and from tools


def test_a_skill_of_the_named_scenario_is_found_though_the_query_says_nothing_of_it(graph: SkillGraph) -> None:
    graph.add_all(NewSkill("ana", f"note {place} about the office", valid_from=DAY * place) for place in range(30))
    graph.add(owner="ana", text="earliest slot first", scenarios=["rescheduling"])
    graph.add(owner="ben", text="latest slot first", scenarios=["rescheduling"])

    plain = graph.recall("note about the office", user="ana", k=40)
    hits = graph.recall("note about the office", user="ana", k=40, scenario="rescheduling")

    assert "earliest slot first" not in [hit.skill.text for hit in plain]
    (hit,) = [hit for hit in hits if hit.why.context]
    assert (hit.skill.text, hit.why.context) == ("earliest slot first", 1.0)
    assert hit.why.path == "of the scenario or the tools that were named"
    unheard_of = graph.recall("office", user="ana", scenario="unheard of", tools=["telescope"])
    assert unheard_of == graph.recall("office", user="ana")
    for context in ({"scenario": ""}, {"tools": "mail"}):
        with pytest.raises(BadInputError):
            graph.recall("office", user="ana", **context)  # type: ignore[arg-type]


def test_skills_that_require_a_named_tool_come_first(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="write short notes", tools=["mail"], scenarios=["replying"])
    graph.add(owner="ana", text="write long notes", tools=["calendar"], scenarios=["replying"])

    for tool, first in (("mail", "write short notes"), ("calendar", "write long notes")):
        assert graph.recall("write notes", user="ana", tools=[tool])[0].skill.text == first
    both = graph.recall("write notes", user="ana", scenario="replying", tools=["mail"])
    assert [hit.why.context for hit in both[:2]] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, {"leaves at nine"}),
        ({"siblings": 10, "time_hop": False}, {"the day before", "leaves at nine", "pack light", "unrelated"}),
        ({"time_hop": False}, set()),
    ],
)
def test_the_hop_over_time_is_apart_from_the_hop_over_owners(changes: dict[str, Any], found: set[str]) -> None:
    settings = GraphSettings(candidates=1, at_least=0.0, query_similarity="words", **changes)
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", settings=settings) as graph:
        for text, scenarios, when in (
            ("the day before", [], 1.0),
            ("the ferry to Naxos", ["travel"], 9e4),
            ("leaves at nine", [], 9e4 + 60),
            ("pack light", ["travel"], 9e5),
            ("unrelated", [], 9e6),
        ):
            graph.add(owner="ana", text=text, scenarios=scenarios, valid_from=when)

        hits = graph.recall("ferry to Naxos", user="ana", k=10)

    assert {hit.skill.text for hit in hits} - {"the ferry to Naxos"} == found


# Ratings: what users thought of answers changes what is recalled for such questions, and no single thumb decides

QUESTION = "where do we have lunch?"


@pytest.fixture
def lunch(graph: SkillGraph) -> SkillGraph:
    places = "have lunch at the harbour", "lunch is good in the garden", "the tower serves lunch"
    for text in (*places, "the dentist is Dr. Weiss"):
        graph.add(owner="ana", text=text)
    return graph


def first(graph: SkillGraph, question: str = QUESTION) -> str:
    return graph.recall(question, user="ana")[0].skill.id


def rate(graph: SkillGraph, number: int, skill: str, reward: float, question: str = QUESTION) -> None:
    graph.learn(Trajectory(f"t{number}", "ana", question, shown=(skill,)), reward)


def test_what_was_shown_for_a_bad_answer_counts_less_for_such_a_question_and_no_other(lunch: SkillGraph) -> None:
    asked = "who is the dentist?"
    before, dentist = first(lunch), first(lunch, asked)
    for number, shown in enumerate((before, dentist)):
        rate(lunch, number, shown, 0.0)  # the dentist is beside the point there
    hits = {hit.skill.id: hit for hit in lunch.recall(QUESTION, user="ana")}
    assert first(lunch) != before
    assert hits[before].why.rating == pytest.approx(-0.5)
    assert sum(hits[before].why.points.values()) == pytest.approx(hits[before].score)
    assert lunch.get(before).uses == 0  # it was shown; whether it was followed is another matter
    assert first(lunch, asked) == dentist
    assert lunch.recall(asked, user="ana")[0].why.rating == 0.0


def test_a_wrong_thumb_is_outweighed_by_later_right_ones(lunch: SkillGraph) -> None:
    right = first(lunch)
    rate(lunch, 0, right, 0.0)
    for number in range(1, 8):  # from now on the user says what they think
        shown = first(lunch)
        rate(lunch, number, shown, 1.0 if shown == right else 0.0)
    assert first(lunch) == right
    assert lunch.recall(QUESTION, user="ana")[0].why.rating > 0


def test_ratings_count_for_their_user_only_and_go_with_them(lunch: SkillGraph) -> None:
    shared = lunch.add(owner="ben", text="have lunch at the harbour cafe", visibility="shared").id
    rate(lunch, 1, shared, 0.0)
    (ratings,) = {hit.why.rating for hit in lunch.recall(QUESTION, user="ben") if hit.skill.id == shared}
    assert ratings == 0.0
    lunch.forget("ana")
    assert "SHOWN" not in lunch.admin.stats().edges


def test_what_came_while_a_graph_was_open_counts_as_after_a_restart(open_graph: OpenGraph, tmp_path: Path) -> None:
    graph = open_graph(tmp_path / "skills.db")
    for some in (["green tea"], [f"black tea number {place}" for place in range(30)]):
        graph.add_all(NewSkill("ben", text, visibility="shared") for text in some)
        found = {hit.skill.id: hit.score for hit in graph.recall("green tea", user="ana")}
    again = open_graph(tmp_path / "skills.db").recall("green tea", user="ana")
    assert found == pytest.approx({hit.skill.id: hit.score for hit in again}, abs=1e-6)


# Trust: the terms of the graph count only as far as what people did shows that they help

WEIGHTS = {"user": "user_weight", "community": "community_weight"}


def trust(graph: SkillGraph, users: int) -> dict[str, float]:
    """Return the share of its weight that each term has added to a hit."""
    found = dict.fromkeys(WEIGHTS, 0.0)
    for place in range(40):
        for hit in graph.recall(f"way {place} of many", user=f"user{place % users}", k=10):
            for name, weight in WEIGHTS.items():
                if getattr(hit.why, name) > 0.0:
                    whole = getattr(GraphSettings(), weight) * getattr(hit.why, name)
                    found[name] = max(found[name], hit.why.points[name] / whole)
    return found


def test_random_rewards_make_no_term_of_the_graph_trusted(graph: SkillGraph) -> None:
    draw, users = random.Random(0), 10
    skills = graph.add_all(
        NewSkill(f"user{place % users}", f"way {place} of {draw.choice(('many', 'some'))}", visibility="shared")
        for place in range(60)
    )
    for place in range(120):
        used = [one.id for one in draw.sample(skills, 2)]
        trip = {"id": f"t{place}", "user": f"user{draw.randrange(users)}", "query": "which way?", "skills": used}
        graph.learn(trip, draw.random())

    assert max(trust(graph, users).values()) < 0.1


def test_rewards_make_a_term_trusted_where_texts_alone_do_not(graph: SkillGraph) -> None:
    # Texts are noise. Two circles of people succeed with the skills of their own circle only.
    draw, users = random.Random(5), 12
    skills = graph.add_all(
        NewSkill(f"user{place % users}", f"way {place} of w{draw.randrange(10**9)}", visibility="shared")
        for place in range(60)
    )
    for place in range(240):
        user, skill = draw.randrange(users), draw.choice(skills)
        reward = 0.9 if user % 2 == int(skill.owner[4:]) % 2 else 0.1
        if place == 1:
            graph.recall("way", user="user0")  # what is found out here is found out again as more is known
        graph.learn({"id": f"t{place}", "user": f"user{user}", "query": "q", "skills": [skill.id]}, reward)
    graph.prepare()

    assert trust(graph, users)["community"] > 0.7
