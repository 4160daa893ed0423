"""What a graph keeps of what its users say: their own words, once, with their time and conversation, and no secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from agentfw_memory import AsyncSkillGraph, BadInputError, SkillGraph
from agentfw_memory.writing.kinds import KINDS, WEIGHTS, weights_of
from agentfw_memory.writing.own_words import own_words
from agentfw_memory.writing.secrets import has_secret

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


def test_a_message_is_heard_once(graph: SkillGraph) -> None:
    graph.hear("I live in Berlin", user="ana", id="m1")
    assert graph.hear("I live in Berlin", user="ana", id="m1").known_already
    assert graph.hear("I live in Berlin", user="ben", id="m1").kept
    assert kept(graph) == kept(graph, "ben") == ["I live in Berlin"]


@pytest.mark.parametrize(
    "message",
    [
        "Please translate:\n\nI live in Rome.\nI am a cook.",
        "> I always want the window seat",
        "```\nI prefer tabs.\n```",
        "<mail>I live in Rome.</mail>",
        'She said "I hate tea".',
        "Er schrieb: „Ich hasse Tee“.",
        "From: Bob\nSubject: lunch\n\nI can't eat nuts.",
        "---- Forwarded message ----\nI live in Oslo.",
        "[12:31] I live in Rome\n[12:32] me too",
        "Ana: I live in Rome\nBen: So do I\nAna: Nice",
        "",
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


@pytest.mark.parametrize(
    "secret",
    [
        "My password is hunter2",
        "my card is 4111 1111 1111 1111",
        "the key is sk-proj-a8Jd02kLs93mdK2x",
        "我的密码是12345",
        "use postgres://ana:pa55@db/x",
        "it is Xq7Lw92mPz04RtYb81Ks",
    ],
)
def test_secrets_are_never_remembered(graph: SkillGraph, secret: str) -> None:
    graph.hear(f"I live in Rome. {secret}", user="ana", conversation="c")
    assert kept(graph) == ["I live in Rome."]
    assert not has_secret("My phone number is 030 555 0100 and I live at 12 Mill Lane")


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("My sister lives in Madrid.", True),
        ("I always take the train to work", True),
        ("I like jazz while cooking dinner", True),
        ("いつも電車で通勤してる", True),
        ("커피는 블랙으로만 마셔", True),
        ("今バスの中", False),
        ("Ich bin Lehrerin.", True),
        ("Je ne mange pas de poisson.", True),
        ("我是老师。", True),
        ("Please remember that my boss is called Priya.", True),
        ("For the future: I don't work on Mondays.", True),
        ("Recuerda que mi jefe se llama Luis.", True),
        ("please remember that I live in Rome", True),
        ("Please be brief.", True),
        ("Please remember to call the API", False),
        ("Don't forget to buy milk", False),
        ("Thanks a lot!", False),
        ("How high is Mont Blanc?", False),
        ("Let's play a game: you are a wizard.", False),
        ("Schreib ein Gedicht.", False),
        ("Write a story. The hero lives in Paris.", False),
        ("Let's play a game. I am a knight from Toledo.", False),
        ("My landlord wrote that he lives in Spain.", False),
        ("Mein Chef schrieb: Ich wohne in Rom", False),
        ("Imaginons que j'habite à Rome.", False),
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
        ("Tengo una gata nueva.", "Se llama Nube", "¿Cómo se llama mi gata?"),
        ("我换了新工作。", "在腾讯。", "我在哪里工作?"),
    ],
)
def test_a_fact_in_two_messages_is_kept_and_found(sorting: SkillGraph, first: str, second: str, question: str) -> None:
    for message in (first, second):
        sorting.hear(message, user="ana", conversation="c1")
    assert second in [hit.skill.text for hit in sorting.recall(question, user="ana")[:2]]


def test_a_correction_comes_first_and_the_older_saying_is_marked(sorting: SkillGraph) -> None:
    sorting.hear("My dentist is Dr Brown.", user="ana", conversation="c", at=NOON)
    sorting.hear("I have two brothers.", user="ana", conversation="c", at=NOON + 1)
    sorting.hear("That's wrong, my dentist is Dr White now.", user="ana", conversation="c", at=NOON + 2)
    newer, older, *_ = sorting.recall("Who is my dentist?", user="ana")
    assert (newer.skill.text, newer.newer) == ("That's wrong, my dentist is Dr White now.", "")
    assert (older.skill.text, older.newer) == ("My dentist is Dr Brown.", newer.skill.id)
    assert sorting.recall("Who is my dentist?", user="ben") == []


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
        ("Ich habe einen Hund.", "Bitte vergiss, dass ich einen Hund habe."),
        ("我养了一只狗。", "请忘记我养狗的事。"),
        ("I have a dog.", "Forget that I have a dog, and remember that I told you so"),
    ],
)
def test_forgetting_is_asked_for_and_done_once_it_is_confirmed(sorting: SkillGraph, said: str, request_: str) -> None:
    sorting.hear(said, user="ana", conversation="c")
    sorting.hear(said, user="ben", conversation="d")
    heard = sorting.hear(request_, user="ana", conversation="c")
    assert heard.kept == ()
    assert [sorting.get(one).text for one in heard.to_forget] == [said]
    assert kept(sorting) == [said]  # nothing is deleted before it is confirmed
    sorting.delete(*heard.to_forget)
    assert (kept(sorting), kept(sorting, "ben")) == ([], [said])


@pytest.mark.parametrize(
    "said",
    [
        "Please don't forget that I'm deaf in one ear.",
        "Merk dir bitte, dass ich keine Milch vertrage.",
        "N'oublie pas que j'ai deux enfants.",
        "Non dimenticare che mia moglie è celiaca.",
        "别忘了我有两个孩子。",
    ],
)
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
    assert sorting.standing("ben", k=3) == []


def test_hearing_in_an_event_loop_is_the_same(graph: SkillGraph) -> None:
    heard = asyncio.run(AsyncSkillGraph(graph).hear("I live in Rome.", user="ana", id="m1"))
    assert heard.kept == (graph.skills(owner="ana")[0].id,)


def test_a_message_of_any_length_and_of_any_characters_is_heard(graph: SkillGraph) -> None:
    graph.hear("I live in Rome. " + "x " * 5_000_000 + " I am a cook.", user="ana")
    graph.hear("I live in Bern \ud83d.", user="ana")
    assert "I live in Rome." in kept(graph)
    with pytest.raises(BadInputError):
        graph.hear(b"I live in Rome", user="ana")  # type: ignore[arg-type]
    with pytest.raises(BadInputError):
        graph.hear("I live in Rome", user="")


def test_forgetting_a_user_takes_their_messages_too(graph: SkillGraph) -> None:
    graph.hear("I live in Rome", user="ana", conversation="c1", id="m1")
    graph.forget("ana")
    assert {"fact", "saying", "conversation"}.isdisjoint(graph.admin.stats().nodes)
