"""What is said again with another value: the newest statement counts, and the older keeps its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from agentfw_memory import GraphSettings, NewSkill, SkillGraph, Trajectory
from agentfw_memory.graph.facts.statements import read_fact

pytest.importorskip("igraph")
pytest.importorskip("leidenalg")

DAY = 86_400.0
FIRST = 1_700_006_400.0
"""The 15th of November 2023."""


class Calendar:
    """A clock that goes on by a day each time something is said."""

    def __init__(self) -> None:
        self.now = FIRST

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Calendar:
    return Calendar()


@pytest.fixture
def graph(clock: Calendar) -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", clock=clock) as opened:
        yield opened


def say(graph: SkillGraph, clock: Calendar, *texts: str, owner: str = "ana") -> list[str]:
    ids = []
    for text in texts:
        clock.now += DAY
        ids.append(graph.add_skill(owner=owner, text=text).id)
    return ids


def held(graph: SkillGraph, owner: str = "ana") -> list[str]:
    return [skill.text for skill in graph.skills(owner=owner)]


@pytest.mark.parametrize(
    "statements",
    [
        ("Lena's phone number is 030 555 0100.", "Lena's number is now 030 555 0199.", "Call Lena at 030 555 0111."),
        ("I live in Berlin.", "I've just moved to Hamburg.", "My home is Bremen now."),
        ("Tom works at Bosch.", "Tom joined Siemens.", "Tom's employer is Nokia."),
        ("My name is Alexandra.", "Call me Alex.", "Please address me as Lex."),
        ("Answer in German.", "From now on reply in English, please."),
        ("The standup is fine.", "Ben's standup is at 9:15", "Ben's standup moved to 10:00"),
        ("I'm vegetarian.", "I have gone vegan."),
        ("I prefer green tea.", "My favourite drink is coffee now."),
        ("My sister's email is a@example.com", "You can email my sister at b@example.com"),
        ("Lena's manager is Ines.", "Paula is Lena's new boss.", "Lena answers to Max."),
        ("My doctor is Dr. Koch.", "I switched doctors, it's Dr. Berg now.", "My doctor is called Dr. Weber."),
        ("My trip budget is 900 euros", "I can spend 700 euros on the trip"),
        ("My door code is 4711", "The door code is 4712", "4713 opens my door"),
        ("Lena drives a Volvo", "Lena has a Fiat now", "Lena traded her Fiat for a Skoda"),
        ("Lena's team has 12 people", "There are 14 people in Lena's team"),
        ("Answer in German.", "Switch to English, please."),
        ("I prefer green tea", "I usually drink coffee"),
    ],
)
def test_the_newest_statement_of_a_fact_supersedes_the_older(
    graph: SkillGraph, clock: Calendar, statements: tuple[str, ...]
) -> None:
    say(graph, clock, *statements)
    facts = [fact.name if fact else None for fact in (read_fact(text, "ana") for text in statements)]
    for one, other in pairwise(facts):
        assert one == other or one is None
    assert held(graph)[-1] == statements[-1]
    assert len(held(graph)) == 1 + facts.count(None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lena's phone number is 030 555 0100", "Tom's phone number is 030 555 0101"),
        ("Lena's phone number is 030 555 0100", "Lena's work phone number is 030 555 0102"),
        ("My sister is Eva", "My sister is Maria"),
        ("I like hiking", "I like swimming"),
        ("I drink coffee", "I drink tea"),
        ("I live in Berlin", "I'm in Hamburg now"),
        ("Ines is my sister", "Maria is my sister"),
        ("My dog is hungry", "My dog is tired"),
        ("Lena's party is on 4 May", "Lena's party is at the Blue Note"),
        ("I live in Berlin", "I used to live in Hamburg"),
        ("I live in Berlin", "If I lived in Hamburg I would sail"),
        ("I live in Berlin", "Do I live in Hamburg?"),
        ("I prefer green tea", "I prefer aisle seats"),
        ("I live in Berlin", "I also live in Hamburg"),
        ("My old number is 030 555 0100", "My number is 030 555 0101"),
        ("Lena moved to Berlin", "Lena moved to the second row"),
        ("My budget for the trip is 800 euros", "My budget for the party is 300 euros"),
    ],
)
def test_different_facts_that_look_alike_are_both_kept(
    graph: SkillGraph, clock: Calendar, one: str, other: str
) -> None:
    say(graph, clock, one, other)
    assert held(graph) == [one, other]


def test_a_value_that_was_given_up_and_comes_back_is_the_newest_again(graph: SkillGraph, clock: Calendar) -> None:
    first, second, third = say(graph, clock, "I live in Berlin", "I live in Hamburg", "I live in Berlin")
    assert first == second == third
    assert [version.text for version in graph.history(first).versions] == [
        "I live in Berlin",
        "I live in Hamburg",
        "I live in Berlin",
    ]
    skill = graph.skill(first)
    assert (skill.corrections, skill.fact) == (2, "ana: home")
    assert skill.told == "I live in Berlin (since 2023-11-18; corrected 2 times)"


def test_recall_as_of_a_time_gives_what_held_then(graph: SkillGraph, clock: Calendar) -> None:
    say(graph, clock, "Lena lives in Berlin", "Lena lives in Hamburg", "Lena's sister lives in Rome", owner="ben")
    found = {
        day: [hit.skill.told for hit in graph.recall("Where does Lena live?", user="ben", as_of=FIRST + day * DAY)][:1]
        for day in (0.5, 1.5, 2.5)
    }
    assert found == {
        0.5: [],
        1.5: ["Lena lives in Berlin (2023-11-16 to 2023-11-17; no longer true)"],
        2.5: ["Lena lives in Hamburg (since 2023-11-17; corrected once)"],
    }
    assert graph.recall("Where does Lena live?", user="ana", as_of=FIRST + 1.5 * DAY) == []  # it is ben's


def test_what_was_retired_is_found_as_of_the_time_when_it_held(graph: SkillGraph, clock: Calendar) -> None:
    (skill,) = say(graph, clock, "The projector needs the long cable")
    clock.now += DAY
    graph.retire_skill(skill)
    (hit,) = graph.recall("projector cable", user="ana", as_of=clock.now - DAY / 2)
    assert hit.skill.text == "The projector needs the long cable"
    assert graph.recall("projector cable", user="ana") == []


def test_a_statement_that_is_told_late_takes_its_place_in_the_past(graph: SkillGraph, clock: Calendar) -> None:
    say(graph, clock, "I live in Hamburg")
    late = graph.add_skill(owner="ana", text="I live in Berlin", valid_from=FIRST)
    assert late.valid_to == FIRST + DAY
    assert held(graph) == ["I live in Hamburg"]
    (hit,) = graph.recall("Where do I live?", user="ana", as_of=FIRST + DAY / 2)
    assert hit.skill.text == "I live in Berlin"


def test_what_is_denied_no_longer_holds(graph: SkillGraph, clock: Calendar) -> None:
    say(graph, clock, "I live in Berlin", "I no longer live in Rome", "I no longer live in Berlin.")
    assert held(graph) == ["I no longer live in Berlin.", "I no longer live in Rome"]


def test_all_statements_of_a_batch_are_taken_in_their_order(graph: SkillGraph) -> None:
    told = ["Tom's desk is number 4", "I live in Berlin", "bring a towel", "I live in Rome", "Tom's desk is number 7"]
    added = graph.add_skills(NewSkill("ana", text) for text in told)
    assert held(graph) == ["Tom's desk is number 7", "I live in Rome", "bring a towel"]
    assert [skill.text for skill in added] == told


def test_an_instruction_that_contradicts_an_earlier_one_is_its_newest_version(
    graph: SkillGraph, clock: Calendar
) -> None:
    early, late = say(graph, clock, "Offer the earliest slot first", "Offer the latest slot first")
    assert early == late
    assert held(graph) == ["Offer the latest slot first"]


def test_what_others_said_and_other_scenarios_are_left_alone(graph: SkillGraph, clock: Calendar) -> None:
    say(graph, clock, "Lena lives in Berlin", owner="ana")
    say(graph, clock, "Lena lives in Hamburg", owner="ben")
    graph.add_skill(owner="ana", text="Answer in German", scenarios=["letters"])
    graph.add_skill(owner="ana", text="Answer in English", scenarios=["code"])
    assert held(graph, "ana") == ["Lena lives in Berlin", "Answer in German", "Answer in English"]
    assert held(graph, "ben") == ["Lena lives in Hamburg"]


@pytest.mark.parametrize(
    ("settings", "new"),
    [
        (GraphSettings(newest_wins=False), NewSkill("ana", "I live in Rome")),
        (GraphSettings(), NewSkill("ana", "I live in Rome")),
    ],
)
def test_superseding_can_be_turned_off(settings: GraphSettings, new: NewSkill, clock: Calendar) -> None:
    with SkillGraph.open(":memory:", tenant="t", embedder="hash", settings=settings, clock=clock) as graph:
        say(graph, clock, "I live in Berlin")
        clock.now += DAY
        graph.add_skills([new])
        assert held(graph) == ["I live in Berlin", "I live in Rome"]
        shown = [hit.skill.text for hit in graph.recall("my town", user="ana", k=2)]
        assert shown == ["I live in Rome", "I live in Berlin"]  # both, the newest first


def test_a_question_finds_a_fact_that_shares_no_word_with_it_but_the_name(graph: SkillGraph, clock: Calendar) -> None:
    others = (f"Lena Berg {what}" for what in ("is vegan", "drives a Volvo", "paints", "sings", "sails", "hikes"))
    say(graph, clock, *others, "Lena Berg resides in Oslo", "Tom Berg moved to Kyoto")
    (first, *_) = graph.recall("In which city is Lena Berg's home?", user="ana")
    assert first.skill.text == "Lena Berg resides in Oslo"
    assert first.why.fact == 1.0


def test_facts_survive_export_and_import_and_are_forgotten(clock: Calendar, graph: SkillGraph, tmp_path) -> None:  # type: ignore[no-untyped-def]
    say(graph, clock, "I live in Berlin", "I live in Rome")
    graph.export_jsonl(tmp_path / "facts.jsonl")
    with SkillGraph.open(":memory:", tenant="copy", embedder="hash", clock=clock) as copy:
        copy.import_jsonl(tmp_path / "facts.jsonl")
        say(copy, clock, "I live in Oslo")
        assert held(copy) == ["I live in Oslo"]
        assert copy.skills(owner="ana")[0].corrections == 2
        copy.forget("ana")
        assert "fact" not in copy.stats().nodes


def test_a_server_keeps_facts_as_a_file_does(postgres_database: Callable[..., str], clock: Calendar) -> None:
    pytest.importorskip("psycopg")
    settings = GraphSettings(in_memory_up_to=2)  # beyond that, the database searches
    with SkillGraph.open(postgres_database(), tenant="team", embedder="hash", clock=clock, settings=settings) as graph:
        say(graph, clock, "Lena lives in Berlin", "bring a towel", "Lena lives in Rome", "call before noon")
        graph.hear("I moved to Oslo.", user="ana", conversation="c1", id="m1")
        assert graph.hear("I moved to Oslo.", user="ana", conversation="c1", id="m1").known_already
        (first, *_) = graph.recall("Where does Lena live?", user="ana")
        assert first.skill.told == "Lena lives in Rome (since 2023-11-18; corrected once)"
        assert graph.recall("Where do I live?", user="ana")[0].skill.conversation == "c1"
        (past, *_) = graph.recall("Where does Lena live?", user="ana", as_of=FIRST + 1.5 * DAY)
        assert past.skill.text == "Lena lives in Berlin"
        graph.learn(Trajectory("t1", "ana", "Where does Lena live?", shown=(first.skill.id,)), 0.0)
        assert {hit.why.rating for hit in graph.recall("Where does Lena live?", user="ana")} == {0.0, -0.5}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I live in Lisbon and I am allergic to peanuts.", "I just moved to Porto."),
        ("I live in Lisbon with my two kids.", "I moved to Porto."),
        ("I moved to Berlin because my son has asthma.", "I live in Hamburg now."),
        ("My dog is called Rex and he needs insulin.", "My dog is called Bo."),
    ],
)
def test_what_else_a_statement_says_is_not_lost_with_its_fact(first: str, second: str) -> None:
    with SkillGraph.open(":memory:", tenant="home", embedder="hash") as graph:
        graph.add_skill(owner="ana", text=first, valid_from=1_700_000_000)
        graph.add_skill(owner="ana", text=second, valid_from=1_750_000_000)

        assert [skill.text for skill in graph.skills(owner="ana")] == [first, second]
        assert [skill.valid_to for skill in graph.skills(owner="ana")] == [None, None]


@pytest.mark.parametrize("said", ["He's based in Rome", "She's called Lotte.", "It's called Nightjar"])
def test_somebody_who_is_not_named_has_no_facts_that_another_could_supersede(said: str) -> None:
    assert read_fact(said, "ana") is None
