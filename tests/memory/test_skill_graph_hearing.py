"""What a graph keeps of what its users say: their own words, once, with their time and conversation, and no secrets.

A model that writes is believed only as far as what it answers holds, and what was said is kept otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentfw_memory import BadInputError, ModelWriter, Saying, SkillGraph
from agentfw_memory.writing.kinds import KINDS, WEIGHTS, own_words, weights_of

pytest.importorskip("igraph")


NOON = 1_700_000_000.0


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    """A graph whose embedder has no weights of its own for the kinds of sentences."""
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", clock=lambda: NOON + 3600) as opened:
        yield opened


@pytest.fixture
def sorting() -> Iterator[SkillGraph]:
    """A graph that tells kinds of sentences apart."""
    pytest.importorskip("wordllama")
    with SkillGraph.open(":memory:", tenant="team", embedder="wordllama", clock=lambda: NOON + 3600) as opened:
        yield opened


@pytest.fixture(scope="module", params=["hash", "wordllama"])
def hearing(request: pytest.FixtureRequest) -> Iterator[SkillGraph]:
    """A graph with each of these embedders, for tests that each hear a user of their own."""
    pytest.importorskip("wordllama")
    with SkillGraph.open(":memory:", tenant="team", embedder=request.param) as opened:
        yield opened


def kept(graph: SkillGraph, user: str = "ana") -> list[str]:
    return [skill.text for skill in graph.skills(owner=user)]


def test_what_a_user_says_is_kept_with_its_time_and_conversation(sorting: SkillGraph) -> None:
    text = "Hello! I live in Berlin. How far is the moon?"
    heard = sorting.hear(text, user="ana", conversation="c1", at=NOON, id="m1")
    (skill,) = sorting.skills(owner="ana")
    assert heard.kept == (skill.id,)
    assert (skill.text, skill.valid_from, skill.conversation) == ("I live in Berlin.", NOON, "c1")
    (hit,) = sorting.recall("Where do I live?", user="ana")
    assert hit.skill.told == "I live in Berlin. (since 2023-11-14)"
    assert sorting.recall("Where do I live?", user="ben") == []
    sorting.hear("I live in Rome.", user="ben", at=NOON + 9e9)
    assert [one.valid_from for one in sorting.skills(owner="ben")] == [NOON + 3600], "not before it was said"


def test_a_message_is_heard_once_and_forgotten_with_its_user(graph: SkillGraph) -> None:
    graph.hear("I live in Berlin", user="ana", conversation="c1", id="m1")
    assert graph.hear("I live in Berlin", user="ana", id="m1").known_already
    assert graph.hear("I live in Berlin", user="ben", id="m1").kept
    assert kept(graph) == kept(graph, "ben") == ["I live in Berlin"]
    rome = graph.hear("I live in Rome", user="ana", id="m2").kept
    assert graph.delete(*rome, user="ana", id="m3").skills == 1
    assert graph.hear("I live in Rome", user="ana", id="m2").known_already, "what was deleted stays deleted"
    berlin = [one.id for one in graph.skills(owner="ana")]
    assert graph.delete(*berlin, user="ana", id="m3").skills == 0, "a message deletes once"
    for user in ("ana", "ben"):
        graph.forget(user)
    assert {"fact", "saying", "conversation"}.isdisjoint(graph.admin.stats().nodes)


@pytest.mark.parametrize(
    "message",
    [
        "Please translate:\n\nI live in Rome.\nI am a cook.",
        "```\nI prefer tabs.\n```",
        "<mail>I live in Rome.</mail>",
        "Er schrieb: „Ich hasse Tee“.",
        "From: Bob\nSubject: lunch\n\nI can't eat nuts.",
        "---- Forwarded message ----\nI live in Oslo.",
        "[12:31] I live in Rome\n[12:32] me too",
        "Ana: I live in Rome\nBen: So do I\nAna: Nice",
        "\n\n",
    ],
)
def test_what_is_not_the_users_own_by_its_structure_is_left_out(message: str) -> None:
    assert own_words(message) in ([], ["Please translate:"])


def test_the_users_own_words_beside_what_is_not_theirs_are_kept() -> None:
    said = own_words('I am a nurse. Tom wrote "I quit". I live in Rome.\n> I like tea\nI never fly.')
    assert said == ["I am a nurse.", "I live in Rome.", "I never fly."]
    assert own_words("I live in Rome. What of this?\n\nHi all,\nI prefer tea.\n\nBest,\nBen") == [
        "I live in Rome.",
        "What of this?",
    ]
    assert own_words("Diet: vegan\nCity: Rome") == ["Diet: vegan", "City: Rome"]


def test_secrets_are_never_remembered(graph: SkillGraph) -> None:
    for secret in ("My password is hunter2", "我的密码是12345", "it is Xq7Lw92mPz04RtYb81Ks"):
        graph.hear(f"I live in Rome. {secret}", user="ana", conversation="c")
    assert kept(graph) == ["I live in Rome."]
    phone = "My phone number is 030 555 0100."
    assert [graph.get(one).text for one in graph.hear(phone, user="ben").kept] == [phone]


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("My sister lives in Madrid.", True),
        ("いつも電車で通勤してる", True),
        ("今バスの中", False),
        ("Ich bin Lehrerin.", True),
        ("Please remember that my boss is called Priya.", True),
        ("Please remember to call the API", False),
        ("Schreib ein Gedicht.", False),
        ("Write a story. The hero lives in Paris.", False),
        ("Let's play a game. I am a knight from Toledo.", False),
        ("My landlord wrote that he lives in Spain.", False),
        ("假如我住在罗马。", False),
        ("I'm vegan. What should I cook tonight?", True),
    ],
)
def test_lasting_facts_are_told_from_talk_play_and_requests(hearing: SkillGraph, text: str, is_kept: bool) -> None:
    assert bool(hearing.hear(text, user=text).kept) == is_kept


@pytest.mark.parametrize(
    ("first", "second", "question"),
    [
        ("We got a new neighbour.", "He's from Peru", "Where is our new neighbour from?"),
        ("我换了新工作。", "在腾讯。", "我在哪里工作?"),
    ],
)
def test_a_fact_in_two_messages_is_kept_and_found(sorting: SkillGraph, first: str, second: str, question: str) -> None:
    for message in (first, second):
        sorting.hear(message, user="ana", conversation="c1")
    assert second in [hit.skill.text for hit in sorting.recall(question, user="ana")[:2]]


def test_a_correction_comes_first_and_the_older_saying_is_marked(sorting: SkillGraph) -> None:
    said = "My brother lives in Madrid.", "My sister works in Madrid.", "My dentist is Dr Brown."
    for place, text in enumerate(said):
        sorting.hear(text, user="ana", conversation="c", at=NOON + place)
    sorting.hear("That's wrong, my dentist is Dr White now.", user="ana", conversation="d", at=NOON + 9)
    newer, older, *others = sorting.recall("Who is my dentist?", user="ana")
    assert (newer.skill.text, newer.newer) == ("That's wrong, my dentist is Dr White now.", "")
    assert (older.skill.text, older.newer) == ("My dentist is Dr Brown.", newer.skill.id)
    assert [hit.newer for hit in others] == ["", ""]
    assert sorting.recall("Who is my dentist?", user="ben") == []
    for at in (NOON + 20, NOON + 3):
        sorting.hear(said[2], user="ana", conversation="e", at=at)
        again, before = sorting.recall("Who is my dentist?", user="ana")[:2]
        assert (again.skill.id, again.skill.valid_from) == (older.skill.id, NOON + 20), "it holds again"
        assert (again.newer, before.newer) == ("", again.skill.id)
        sorting.hear(said[0], user="ana", at=at)
    assert len(sorting.history(others[0].skill.id).versions) == 1, "what nothing has corrected goes on"
    sorting.update(newer.skill.id, metadata={"n": 1})
    unmarked = sorting.recall("Who is my dentist?", user="ana", where={"n": {"$exists": False}})
    assert newer.skill.id not in [hit.skill.id for hit in unmarked]


def test_a_correction_that_names_nothing_is_about_ones_own_words_just_before_it(sorting: SkillGraph) -> None:
    said = ("ana", "I have two brothers."), ("ana", "My yoga class is on Mondays."), ("ben", "I play chess.")
    for place, (user, text) in enumerate((*said, ("ana", "No, that's wrong, make it Tuesdays."))):
        sorting.hear(text, user=user, conversation="c", at=NOON + place)
    newer, older, *_ = sorting.recall("When is my yoga class?", user="ana")
    assert (older.skill.text, older.newer) == ("My yoga class is on Mondays.", newer.skill.id)
    assert newer.skill.text == "No, that's wrong, make it Tuesdays."


def test_what_somebody_corrects_for_themselves_is_newer_for_them_alone(sorting: SkillGraph) -> None:
    shared, said = "The office is in room 4.", "That's wrong, the office is in room 5 now."
    sorting.add(owner="ana", text=shared, visibility="shared", valid_from=NOON)
    sorting.hear(said, user="ben", at=NOON + 1)
    for user, told in (("ben", [(said, False), (shared, True)]), ("carl", [(shared, False)])):
        hits = sorting.recall("Which room is the office in?", user=user)
        assert [(hit.skill.text, bool(hit.newer)) for hit in hits] == told


class Meanings:
    """An embedder that goes by the name of a multilingual e5-small. To it, only what has "dog" in it is a fact."""

    name, version, dimensions = "own:multilingual-e5-small", "1", 384

    def __init__(self) -> None:
        from safetensors.numpy import load_file

        learned = weights_of(load_file(WEIGHTS))
        fact = learned.hidden[:-1] @ (learned.out[:-1, KINDS.index("fact")] - learned.out[:-1, KINDS.index("other")])
        self._fact = fact / np.linalg.norm(fact)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self._fact if "dog" in text else -self._fact for text in texts], np.float32)


def test_an_embedder_that_knows_what_words_mean_helps_to_tell_what_is_lasting(sorting: SkillGraph) -> None:
    with SkillGraph.open(":memory:", tenant="team", embedder=Meanings()) as helped:
        for graph in (sorting, helped):
            for text in ("hm dog", "I live in Berlin."):
                graph.hear(text, user="ana")
        assert (kept(sorting), kept(helped)) == (["I live in Berlin."], ["hm dog"])


@pytest.mark.parametrize(
    ("said", "request_"),
    [
        ("I have a dog.", "Forget that I have a dog"),
        ("我养了一只狗。", "请忘记我养狗的事。"),
        ("I have a dog.", "Forget that I have a dog, and remember that I told you so"),
    ],
)
def test_forgetting_is_asked_for_and_done_once_it_is_confirmed(sorting: SkillGraph, said: str, request_: str) -> None:
    others = "I have a brother called Tom.", "My sister's son Tom breeds a dog in Madrid and sells it."
    sorting.hear(others[0], user="ana", conversation="c")
    sorting.hear(said, user="ana", conversation="c")
    sorting.add(owner="ana", text=others[1])
    sorting.add(owner="ben", text=said, visibility="shared")
    heard = sorting.hear(request_, user="ana", conversation="c")
    assert heard.kept == ()
    assert [(sorting.get(one).owner, sorting.get(one).text) for one in heard.to_forget] == [("ana", said)]
    assert kept(sorting) == [others[0], said, others[1]]  # nothing is deleted before it is confirmed
    sorting.delete(*heard.to_forget)
    assert (kept(sorting), kept(sorting, "ben")) == ([*others], [said])


@pytest.mark.parametrize("said", ["Please don't forget that I'm deaf in one ear.", "别忘了我有两个孩子。"])
def test_who_asks_not_to_forget_is_heard_and_nothing_is_deleted(sorting: SkillGraph, said: str) -> None:
    heard = sorting.hear(said, user="ana", conversation="c")
    assert (kept(sorting), heard.to_forget) == ([said], ())


def test_how_answers_should_be_stands_whatever_is_asked(sorting: SkillGraph) -> None:
    sorting.hear("Always answer in German.", user="ana", at=NOON)
    sorting.hear("My brother is a baker.", user="ana", at=NOON + 1)
    sorting.hear("Please keep answers short from now on.", user="ana", at=NOON + 2)
    assert [one.text for one in sorting.standing("ana", k=3)] == [
        "Please keep answers short from now on.",
        "Always answer in German.",
    ]
    sorting.hear("Always answer in German.", user="ana", at=NOON + 3)
    assert [one.text for one in sorting.standing("ana", k=1)] == ["Always answer in German."], "the latest word"
    assert sorting.standing("ben", k=3) == []
    first = sorting.recall("Do I want to be answered in German?", user="ana")[0]
    assert (first.skill.text, first.newer) == ("Always answer in German.", ""), "one wish doesn't replace another"


def test_a_message_of_any_length_and_of_any_characters_is_heard(graph: SkillGraph) -> None:
    graph.hear("I live in Rome. " + "x " * 600_000 + " I am a cook.", user="ana")
    graph.hear("I live in Bern \ud83d.", user="ana")
    assert "I live in Rome." in kept(graph)
    graph.hear(" ".join(f"My cousin number {one} lives in Rome." for one in range(40)), user="ben")
    assert len(kept(graph, "ben")) == 20, "one message doesn't fill a memory"
    with pytest.raises(BadInputError):
        graph.hear(b"I live in Rome", user="ana")  # type: ignore[arg-type]
    with pytest.raises(BadInputError):
        graph.hear("I live in Rome", user="")


# A model that writes


BLANK = {"action": "ADD", "shared": False, "always": False} | dict.fromkeys(
    ("text", "evidence", "id", "about", "since"), ""
)


class Scripted:
    """A model that answers what it is told to, and keeps what it was asked."""

    def __init__(self, *answers: object, wait: float = 0.0) -> None:
        self.answers, self.asked, self._wait = [*answers], list[list[dict[str, Any]]](), wait

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        self.asked.append(json.loads(messages[-1]["content"])["messages"])
        await asyncio.sleep(self._wait)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps({"messages": [answer]})


def decided(**fields: object) -> list[dict[str, object]]:
    return [{**BLANK, **fields}]


@pytest.fixture
def opened() -> Iterator[Any]:
    """Open graphs with a model that gives these answers."""
    with contextlib.ExitStack() as stack:

        def one(*answers: object, wait: float = 0.0, **settings: Any) -> tuple[SkillGraph, Scripted]:
            model = Scripted(*answers, wait=wait)
            writer = ModelWriter(model, **settings)
            graph = SkillGraph.open(":memory:", tenant="team", embedder="hash", writer=writer)
            return stack.enter_context(graph), model

        yield one


def test_what_a_model_remembers_may_be_a_paraphrase_with_its_evidence_and_date(opened: Any) -> None:
    said = "I moved to Lyon"
    graph, model = opened(decided(text="Lives in Lyon", evidence=said, since="2020-05-01", shared="no", always=True))

    heard = graph.hear(f"actually {said}", user="ana", conversation="c", answer_to="Where are you?")

    (skill,) = graph.skills(owner="ana")
    assert (heard.kept, heard.problem) == ((skill.id,), "")
    assert (skill.text, skill.metadata["said"], skill.valid_from) == ("Lives in Lyon", said, 1588291200)
    assert skill.visibility == "private"
    assert graph.standing("ana", k=1) == [skill]
    assert model.asked[0][0]["before"] == [{"role": "assistant", "text": "Where are you?"}]


def test_a_model_sees_the_turns_before_and_the_nearest_memories_of_this_user(opened: Any) -> None:
    dog, rex = decided(text="Has a dog", evidence="a dog"), decided(text="The dog is Rex", evidence="Rex")
    graph, model = opened(dog, [], [], rex)
    graph.add(owner="ben", text="Has a dog, too")
    graph.hear("I've got a dog", user="ana", conversation="c")
    for user, talk in (("ben", "c"), ("ana", "d")):
        graph.hear("What a day", user=user, conversation=talk)
    graph.hear("My password is hunter2", user="ana", conversation="c", answer_to="Your password is hunter1.")
    graph.hear("He's called Rex", user="ana", conversation="c", answer_to="Noted: hunter2.")

    (asked,) = model.asked[-1]
    assert asked["before"] == [{"role": "user", "text": "I've got a dog"}]
    assert [one["text"] for one in asked["memories"]] == ["Has a dog"]
    assert kept(graph) == ["Has a dog", "The dog is Rex"]


def test_a_model_sees_no_answer_to_a_message_that_has_a_secret_among_other_texts(opened: Any) -> None:
    graph, model = opened(*[decided(text="Has a dog", evidence="a dog")] * 4)
    for said, answer in (
        ("My password is hunter2", ""),
        ("I've got a dog", ""),
        ("He's called Rex", "Noted: hunter2."),
    ):
        graph.hear(said, user="ana", conversation="c", answer_to=answer)
    graph.hear("He's four", user="ana", conversation="c", answer_to="How old is he?")

    (asked,) = model.asked[-1]
    assert [one["text"] for one in asked["before"]] == ["I've got a dog", "He's called Rex", "How old is he?"]

    graph.forget("ana")
    graph.hear("He's five", user="ana", conversation="c")

    assert model.asked[-1][0]["before"] == [], "what was said before is forgotten"


def test_a_newer_statement_wins_and_the_older_keeps_its_dates(opened: Any) -> None:
    graph, _ = opened(decided(action="UPDATE", id="s2", text="Works at Bosch", evidence="I work", since="2999-01-01"))
    assert graph.add(owner="ana", text="Works at Siemens", visibility="shared", valid_from=1_000.0).id == "s2"
    graph.hear("I work at Bosch now", user="ana", at=2_000.0)

    assert [(one.text, one.valid_from, one.valid_to) for one in graph.history("s2").versions] == [
        ("Works at Siemens", 1_000.0, 2_000.0),
        ("Works at Bosch", 2_000.0, None),
    ]
    assert graph.get("s2").visibility == "shared"


def test_what_is_brought_back_to_what_was_said_before_is_said_anew(opened: Any) -> None:
    home = "I live in Berlin"
    graph, _ = opened(decided(action="UPDATE", id="s3", text=home, evidence=home))
    for at, text in ((1_000.0, home), (2_000.0, "I live in Hamburg")):
        graph.add(owner="ana", text=text, valid_from=at)
    assert graph.hear(home, user="ana", at=3_000.0).kept == ("s2",)

    newer, older = graph.recall("Where do I live?", user="ana")
    assert (newer.skill.valid_from, older.newer) == (3_000.0, newer.skill.id)


def test_a_colleague_corrects_what_is_shared_and_both_names_stay(opened: Any, tmp_path: Path) -> None:
    said = "the office is in room 5"
    graph, _ = opened(decided(action="UPDATE", id="s2", text="The office is in room 5", evidence=said))
    graph.add(owner="ana", text="The office is in room 4", visibility="shared", valid_from=1_000.0)
    graph.hear(said, user="ben", at=2_000.0)

    newer, older = graph.recall("Which room is the office in?", user="carl")
    assert (newer.skill.owner, newer.skill.text) == ("ben", "The office is in room 5")
    assert (older.skill.owner, older.newer) == ("ana", newer.skill.id)
    graph.forget("ana")
    graph.admin.export_jsonl(tmp_path / "left.jsonl")
    assert "ana" not in (tmp_path / "left.jsonl").read_text("utf-8"), "not even in what the newer one is about"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (decided(text="Owns a yacht", evidence="I own a yacht"), "wasn't said"),
        (decided(text="", evidence="I live in Rome"), "no text"),
        (decided(text="Rome " * 201, evidence="I live in Rome"), "no text"),
        (decided(text="The password is hunter2", evidence="I live in Rome"), "secret"),
        (decided(action="UPDATE", id="s2", text="Lives in Rome", evidence="I live in Rome"), "isn't about s2"),
        (decided(action="UPDATE", id="s9", text="Lives in Rome", evidence="I live in Rome"), "none of the memories"),
        (decided(action="DROP", evidence="I live in Rome"), "no action"),
        (decided(text="Lives in Rome", evidence="I live in Rome", since="yesterday"), "no date"),
        ({"facts": []}, "no list"),
        ("certainly! here you are", "another form"),
        (RuntimeError("the server is away"), "the server is away"),
    ],
)
def test_what_does_not_hold_is_not_written_and_what_was_said_is_kept(opened: Any, answer: object, problem: str) -> None:
    graph, _ = opened(answer)
    graph.add(owner="ana", text="zebra quagga")
    heard = graph.hear("I live in Rome.\n> I own a yacht", user="ana", id="m1")
    assert problem in heard.problem
    assert heard.to_forget == ()
    assert kept(graph) == ["zebra quagga", "I live in Rome."]


def test_what_holds_of_an_answer_is_not_kept_again_as_it_was_said(opened: Any) -> None:
    graph, _ = opened(
        decided(text="Lives in Rome", evidence="I live in Rome") + decided(text="Owns a yacht", evidence="a yacht")
    )
    assert "wasn't said" in graph.hear("I live in Rome. I have a cat.", user="ana").problem
    assert kept(graph) == ["Lives in Rome", "I have a cat."]


def test_a_model_that_is_slow_or_over_its_budget_is_done_without(opened: Any) -> None:
    slow, _ = opened(decided(), wait=5.0, timeout=0.05)
    assert "no answer within 0.05 s" in slow.hear("I live in Rome.", user="ana").problem
    dear, model = opened(decided(), most_characters=100)
    assert "budget of 100 characters" in dear.hear("I live in Rome.", user="ana").problem
    assert kept(slow) == kept(dear) == ["I live in Rome."]
    assert model.asked == []


def test_only_ones_own_memory_is_asked_to_be_deleted(opened: Any) -> None:
    request = "forget that I have a dog"
    graph, _ = opened(*[decided(action="DELETE", id="s2", evidence=request)] * 2)
    graph.add(owner="ana", text="Has a dog", visibility="shared")

    assert [graph.hear(request, user=user).to_forget for user in ("ben", "ana")] == [(), ("s2",)]
    assert [one.id for one in graph.asked_to_forget(f"{request} \ud83e", user="ana")] == ["s2"], "cut in an emoji"
    assert kept(graph) == ["Has a dog"]


def test_an_import_asks_about_several_messages_in_one_request_and_about_each_once(opened: Any) -> None:
    def answer(*numbers: int) -> str:
        return json.dumps({"messages": [decided(text=f"Has {one} cats", evidence=f"{one} cats") for one in numbers]})

    graph, model = opened(answer(0, *range(2, 10)), answer(10, 11))
    sayings = [Saying("> quoted" if one == 1 else f"I have {one} cats", "ana", id=f"m{one}") for one in range(12)]

    heard = graph.hear_all(sayings)
    again = graph.hear_all(sayings)

    assert [len(asked) for asked in model.asked] == [9, 2]
    assert [len(one.kept) for one in heard] == [int(one.known_already) for one in again] == [1, 0, *[1] * 10]
    assert kept(graph) == [f"Has {one} cats" for one in (0, *range(2, 12))]
