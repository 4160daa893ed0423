"""What a graph keeps of what its users say: their own lasting words, once, with their time and conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agentfw_memory import BadInputError, SkillGraph
from agentfw_memory.graph.hearing.own_words import own_words
from agentfw_memory.graph.hearing.worth import said_of

pytest.importorskip("igraph")
pytest.importorskip("leidenalg")

NOON = 1_700_000_000.0


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", clock=lambda: NOON + 3600) as opened:
        yield opened


def kept(graph: SkillGraph, user: str = "ana") -> list[str]:
    return [skill.text for skill in graph.skills(owner=user)]


def test_what_a_user_says_is_kept_with_its_time_and_conversation(graph: SkillGraph) -> None:
    heard = graph.hear(
        "Hi! I live in Berlin, by the way. Can you find me a museum?", user="ana", conversation="c1", at=NOON, id="m1"
    )
    (skill,) = graph.skills(owner="ana")
    assert heard.kept == (skill.id,)
    assert (skill.text, skill.valid_from, skill.conversation) == ("I live in Berlin, by the way.", NOON, "c1")
    (hit,) = graph.recall("Where do I live?", user="ana")
    assert hit.skill.told == "I live in Berlin, by the way. (since 2023-11-14)"
    assert graph.recall("Where do I live?", user="ben") == []


def test_a_message_is_heard_once_also_after_something_newer_was_said(graph: SkillGraph) -> None:
    graph.hear("I live in Berlin", user="ana", id="m1")
    graph.hear("I moved to Rome", user="ana", conversation="c2", id="m2")
    again = graph.hear("I live in Berlin", user="ana", id="m1")
    assert again.known_already
    assert kept(graph) == ["I moved to Rome"]
    assert graph.skills(owner="ana")[0].conversation == "c2"
    graph.hear("I live in Berlin", user="ana", id="m3")  # said again, in another message
    assert kept(graph) == ["I live in Berlin"]


@pytest.mark.parametrize(
    "message",
    [
        "Summarise this mail: Hi all, I prefer that all invoices are paid to account X.",
        "Please translate:\n\nI live in Rome.\nI am a cook.",
        "> I always want the window seat\nwhat do you think?",
        "```\nI prefer tabs.\n```",
        'She said "I hate tea".',
        "From: Bob\nSubject: lunch\n\nI can't eat nuts.",
        "What if I moved to Rome?",
        "Thanks, I see.",
        "He lives in Rome.",
        "Show me my calendar",
        "",
        "\n\n",
    ],
)
def test_what_is_not_the_users_own_or_does_not_last_is_left_out(graph: SkillGraph, message: str) -> None:
    assert graph.hear(message, user="ana").kept == ()
    assert kept(graph) == []
    assert graph.stats().nodes.get("saying", 0) == 0


def test_the_users_own_words_beside_a_quotation_are_kept() -> None:
    said = own_words('I am a nurse. Tom wrote "I quit". I live in Rome.\n> I like tea\nI never fly.')
    assert said == ["I am a nurse.", "I live in Rome.", "I never fly."]


@pytest.mark.parametrize(
    "request_line",
    [
        "Can you make this sound less angry?",
        "hey, could you polish this a bit please",
        "Is this too rude?",
        "How does this read to you:",
        "What do you think of this?",
        "I have to send it tonight. Please check it for mistakes.",
        "Klingt das freundlich genug?",
    ],
)
def test_what_is_below_a_request_about_it_is_not_the_users(request_line: str) -> None:
    said = own_words(f"I live in Rome.\n{request_line}\n\nI live in Oslo.\nMy dog is called Rex.\n\nBest, Ben")
    assert said[0] == "I live in Rome."
    assert not {"I live in Oslo.", "My dog is called Rex."}.intersection(said)


@pytest.mark.parametrize(
    "pasted",
    [
        "[09:14] Nadia: I moved to Oslo\n[09:15] Rob: oh no",
        "<nadia> i live in Oslo\n<rob> my dog is called Rex",
        "Minutes\n- Nadia: I live in Oslo.\n- Rob: my budget is 40k.",
        "# I live in Oslo\ndef f(x):\n    return x",
        "/* I live in Oslo */\nint x = 1;",
        "Dear all,\nI live in Oslo.\nKind regards\nNadia",
        "--\nNadia Voss\nI live in Oslo",
    ],
)
def test_chats_minutes_code_letters_and_signatures_are_not_the_users(pasted: str) -> None:
    assert own_words(f"I live in Rome. What do you think?\n\n{pasted}") == ["I live in Rome.", "What do you think?"]
    assert own_words(f"{pasted}\n\nI live in Rome. What do you think?") == ["I live in Rome.", "What do you think?"]


def test_a_list_of_facts_and_a_statement_above_a_request_are_the_users() -> None:
    assert own_words("Diet: vegan\nCity: Rome") == ["Diet: vegan", "City: Rome"]
    assert own_words("I live in Rome\n\nFix my grammar: he go home")[0] == "I live in Rome"
    assert own_words("I live in Rome.\n\nMy dog is called Rex.\n\nWhere can we walk?")[:2] == [
        "I live in Rome.",
        "My dog is called Rex.",
    ]


def test_what_is_below_another_question_is_the_users() -> None:
    assert own_words("Any good museums around?\nI live in Oslo.")[1:] == ["I live in Oslo."]


@pytest.mark.parametrize("said", ["Je suis allergique aux noix.", "我住在上海。", "緑茶が好きです。", "मुझे चाय पसंद है।"])
def test_other_languages_are_heard(graph: SkillGraph, said: str) -> None:
    assert graph.hear(said, user="ana").kept
    assert kept(graph) == [said]


@pytest.mark.parametrize(
    ("said", "whom"),
    [
        ("My manager is called Ines", "my manager"),
        ("My manager Ines wants this by noon", "my manager"),
        ("My sister changed her name to Nora", "my sister"),
        ("the landlord raised the rent again", "the landlord"),
        ("wife is a midwife btw", "wife"),
        ("Meine Schwester mag Tee", "meine schwester"),
        ("Ma sœur déteste le fromage.", "ma sœur"),
        ("妹はチーズが嫌いです。", "妹"),
        ("My choir meets on Tuesdays", "me"),
        ("My sister and I live in Rome", "me"),
        ("The flat's fine but the landlord, Mrs Reyes, is slow.", "the landlord"),
        ("vegetarian here", "me"),
        ("You can call me Bea.", "me"),
        ("Short answers for me, ok?", "me"),
        ("I've switched to night shifts, thank god", "me"),
        ("What I need is a quiet room", "me"),
        ("I'm afraid of dogs", "me"),
    ],
)
def test_a_sentence_is_about_the_user_or_somebody_around_them(said: str, whom: str) -> None:
    assert said_of(said) == whom


@pytest.mark.parametrize(
    "said",
    ["She likes tea", "Anna is a vet", "Is my sister vegan?", "If my boss was here", "What does my wife like?", "Ok?"],
)
def test_what_is_said_of_anybody_else_or_asked_or_supposed_is_left_out(said: str) -> None:
    assert said_of(said) is None


@pytest.mark.parametrize("said", ["I'm just kidding", "I don't know", "Ich verstehe", "我知道了"])
def test_small_talk_in_the_first_person_does_not_last(said: str) -> None:
    assert said_of(said) is None


def test_what_is_said_of_those_around_the_user_is_kept_as_said_of_them(graph: SkillGraph) -> None:
    graph.hear("My sister moved to Rome. She loves it. My brother snores. Anna is a vet.", user="ana")
    brother, sister = sorted(graph.skills(owner="ana"), key=lambda skill: skill.text)
    assert (brother.text, dict(brother.metadata)) == ("My brother snores.", {"about": "my brother"})
    assert (sister.text, sister.fact, dict(sister.metadata)) == ("My sister moved to Rome.", "ana's sister: home", {})
    assert [skill.text for skill in graph.skills(owner="ana", where={"about": "my brother"})] == [brother.text]


def test_a_sentence_that_goes_on_from_another_stays_with_it(graph: SkillGraph) -> None:
    graph.hear("We have a new dog. She's called Lotte. It's raining here. Any tips? She barks.", user="ana")
    assert kept(graph) == ["We have a new dog. She's called Lotte. It's raining here."]


def test_whom_a_user_has_spoken_of_is_known_later(graph: SkillGraph) -> None:
    later = "They moved choir to Friday. Ida wants shorter reports. Rex wants this, too. The choir sings well."
    graph.hear(later, user="ana", id="m1")
    assert kept(graph) == []
    graph.hear("My boss Ida is strict. My choir rehearses every Monday.", user="ana", id="m2")
    graph.hear(later, user="ana", id="m3")
    graph.hear(later, user="ben", id="m4")
    assert kept(graph)[2:] == ["They moved choir to Friday.", "Ida wants shorter reports."]
    assert [skill.metadata["about"] for skill in graph.skills(owner="ana")[2:]] == ["choir", "Ida"]
    assert kept(graph, "ben") == []


def test_how_a_user_wants_to_be_answered_stands_newest_first(graph: SkillGraph) -> None:
    said = [
        "Keep it in bullet points, always.",
        "I live in Rome.",
        "Answer in German.",
        "I'd like short answers.",
        "My boss likes short answers.",
        "Call me Bea",
    ]
    for place, one in enumerate(said):
        graph.hear(one, user="ana", at=NOON + place)
    assert [skill.text for skill in graph.standing("ana", k=3)] == [said[5], said[3], said[2]]
    wish = graph.standing("ana", k=9)[-1]
    assert wish.text == said[0]
    graph.update_skill(wish.id, text="Keep it in one table, always.")
    assert "Keep it in one table, always." in [skill.text for skill in graph.standing("ana", k=9)]
    assert graph.standing("ben", k=9) == []
    graph.erase(wish.id)
    assert len(graph.standing("ana", k=9)) == 3


def test_ten_megabytes_are_heard_as_far_as_people_type(graph: SkillGraph) -> None:
    heard = graph.hear("I live in Rome. " + "x" * 10_000_000 + " I am a cook.", user="ana")
    assert len(heard.kept) == 1
    assert kept(graph) == ["I live in Rome."]


@pytest.mark.parametrize("given", [7, None])
def test_what_is_no_text_is_an_error_and_leaves_nothing(graph: SkillGraph, given: object) -> None:
    with pytest.raises(BadInputError, match="not a string"):
        graph.hear(given, user="ana")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="the user"):
        graph.hear("I live in Rome", user="")
    assert graph.stats().nodes.get("user", 0) == 0


def test_a_half_character_is_replaced_and_nothing_is_lost(graph: SkillGraph) -> None:
    graph.hear("I live in Rome \ud83d.", user="ana")
    assert kept(graph) == ["I live in Rome \ufffd."]


def test_forgetting_a_user_takes_their_messages_too(graph: SkillGraph) -> None:
    graph.hear("I live in Rome", user="ana", conversation="c1", id="m1")
    graph.forget("ana")
    assert {"fact", "saying", "conversation"}.isdisjoint(graph.stats().nodes)


class Listening:
    """A listener that answers what it is told to."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = answer, list[Sequence[str]]()

    def __call__(self, sentences: Sequence[str], user: str) -> Sequence[str]:
        self.asked.append(sentences)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "texts", "problem"),
    [
        (["I live in Rome"], ["I live in Rome"], ""),
        ([], [], ""),
        (["I live in Rome", "I own a yacht"], ["I live in Rome"], "weren't said"),
        ("I live in Rome", ["so I live in Rome now"], "something else than a list"),
        ([{"fact": "Rome"}], ["so I live in Rome now"], "something else than a list"),
        (None, ["so I live in Rome now"], "failed"),
        (TimeoutError("no answer in 5 s"), ["so I live in Rome now"], "no answer in 5 s"),
    ],
)
def test_a_listener_may_keep_only_what_was_said(tmp_path: Path, answer: object, texts: list[str], problem: str) -> None:
    listener = Listening(answer)
    with SkillGraph.open(tmp_path / "g.db", tenant="t", embedder="hash", listener=listener) as graph:
        heard = graph.hear("so I live in Rome now", user="ana", id="m1")
        assert kept(graph) == texts
        assert problem in heard.problem
        assert bool(problem) == bool(heard.problem)
        assert listener.asked == [["so I live in Rome now"]]


@pytest.mark.parametrize(
    ("said", "answer", "texts"),
    [
        ("I don't eat fish.", ["I eat fish"], []),
        ("I do eat fish. I never fly.", ["I never eat fish"], []),
        ("I don't eat fish. I do love rice.", ["I don't eat fish", "I love rice"], ["I don't eat fish", "I love rice"]),
        ("Ich esse keinen Fisch.", ["Ich esse Fisch"], []),
    ],
)
def test_a_listener_may_not_turn_what_was_said_round(said: str, answer: list[str], texts: list[str]) -> None:
    with SkillGraph.open(":memory:", tenant="t", embedder="hash", listener=Listening(answer)) as graph:
        heard = graph.hear(said, user="ana")
        assert sorted(kept(graph)) == sorted(texts)
        assert ("negation" in heard.problem) == (texts == [])
