"""`agentfw train --from RUN`: what people said of answers is what is learned, and nothing else.

A learner that writes down its batches shows what each optimizer is given.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

from agentfw import Message, Session, load
from agentfw.request import Action, Moment
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host

NOTING = """
import json

from agentfw import Component, hookimpl
from agentfw.learner import Update
from agentfw_laboratory.bandit import Bias, BiasSettings


class Noting(Bias):
    '''Writes down what it is given to learn, and learns nothing.'''

    def __init__(self):
        super().__init__(BiasSettings())

    def update(self, batch):
        turns = {(one.id, turn.index): (one, turn) for one in batch.episodes for turn in one.turns}
        with open("learned.jsonl", "a") as file:
            for one in batch.advantages:
                episode, turn = turns[one.episode, one.turn]
                asked = [episode.messages[place].content for place in turn.shown]
                words = [event.data["text"] for event in episode.events if event.name == "feedback"]
                file.write(json.dumps([asked[0], turn.text, one.value, episode.task.user, *words]) + "\\n")
        batch.folder.mkdir()
        adapter = batch.folder / "adapter.json"
        adapter.write_text(json.dumps({"bias": self.bias}))
        self.updates += 1
        return Update(f"noting@{self.updates}", adapter)


@hookimpl
def agentfw_learners():
    return [Component("noting", f"{__name__}:Noting", "Writes down what it is given")]
"""
LOOK = Action("look", "Look at the garden", {"type": "object", "properties": {"where": {"type": "string"}}})
GARBLED = '<tool_call>{"name": "look", "arguments": {"where": </tool_call>'
GOOD = 12
"""Conversations with a good answer besides those that a test is about: ten are needed for three full splits."""

Rate = Callable[[Session], None]
Row = tuple[Any, ...]
TrainedOn = Callable[..., list[Row]]


@pytest.fixture
def trained_on(agentfw: Agentfw, install: Callable[..., None], tmp_path: Path) -> TrainedOn:
    """Record conversations about each of these subjects, rate them, train from them, and return what was learned.

    `answers` are what the policy says, by subject; each subject is tried in several conversations, so that some of
    them are among those that are trained on. The subject "twice" is answered again, with "black tea". Returns rows of
    question, answer, advantage, user, and what was said of the answer.
    """
    install("agentfw-noting", "[agentfw]\nnoting = agentfw_noting\n", NOTING)

    async def record(rates: dict[str, Rate], answers: dict[str, str]) -> Path:
        host = fresh_host(builtins=True, strict=False)
        asked: list[tuple[str, Rate]] = []
        for number in range(GOOD):
            asked.append((f"plain {number}", lambda session: session.feedback(1.0, turn=0)))
            for subject, rate in rates.items():
                asked.append((f"{subject} {number}", rate))
        spec = {"environment": "sessions", "policy": "scripted", "rewards": ["feedback"]}
        async with LiveRun.create(parse_spec(spec), host, tmp_path / "recorded") as live:
            for number, (question, rate) in enumerate(asked):
                session = live.begin(f"s{number}", user="ada" if number % 2 else "bob")
                text = answers.get(question.split()[0], "mint tea")

                def demonstration(moment: Moment, said: str = text) -> list[str]:
                    return [said]

                await session.answer([Message("user", question)], [LOOK], demonstration=demonstration)
                if question.startswith("twice"):
                    again = [Message("user", question)]
                    await session.answer(again, [LOOK], demonstration=lambda moment: ["black tea"])
                rate(session)
                await live.keep(session)
            return live.folder.path

    def train(optimizer: str, rates: dict[str, Rate], answers: dict[str, str] | None = None) -> list[Row]:
        run = asyncio.run(record(rates, answers or {}))
        words = ["train", "--from", str(run), "--optimizer", optimizer, "--policy", "biased", "--learner", "noting"]
        updates = 6 if len(rates) > 1 else 1  # so many that all that is there to learn from is learned from
        words += ["--updates", str(updates), "--set", "tasks=20", "--set", f"evaluation.every={updates}"]
        answer = agentfw(*words, "--set", "evaluation.tasks=1")
        assert answer.code == 0, answer.err
        return [tuple(json.loads(line)) for line in Path("learned.jsonl").read_text().splitlines()]

    return train


def about(subject: str, rows: Sequence[Row]) -> set[tuple[str, float]]:
    """What was learned in the conversations about a subject: answers and their advantages."""
    return {(answer, value) for question, answer, value, *_ in rows if question.split()[0] == subject}


def rated(*values: float, **more: Any) -> Rate:
    """Say this of the answer, one after the other."""

    def rate(session: Session) -> None:
        for value in values:
            session.feedback(value, turn=0, **more)

    return rate


def whole_but_not_this(session: Session) -> None:
    session.feedback(-1.0, turn=0)
    session.feedback(1.0)


RATES: dict[str, Rate] = {
    "liked": rated(1.0),
    "disliked": rated(-1.0),
    "withdrawn": rated(1.0, 0.0),
    "turned": rated(1.0, -1.0),
    "forgiven": rated(-1.0, 1.0),
    "lukewarm": rated(0.2),
    "corrected": rated(-1.0, correction="green tea"),
    "improved": rated(1.0, correction="green tea"),
    "whole": lambda session: session.feedback(1.0),
    "mixed": whole_but_not_this,
    "garbled": rated(1.0),
    "ugly": rated(-1.0),
    "silent": lambda session: None,
}
ANSWERS = {"garbled": GARBLED, "ugly": GARBLED}


def test_kto_is_given_the_newest_rating_of_each_answer_and_none_to_measure_on(trained_on: TrainedOn) -> None:
    rows = trained_on("kto", RATES, ANSWERS)

    subjects = ["plain", *RATES]
    for question, _, _, user, *_ in rows:
        subject, number = question.split()
        place = len(subjects) * int(number) + subjects.index(subject)
        assert user == ("ada" if place % 2 else "bob")
    measured = {episode.messages[0].content for episode in load().episodes}
    assert measured
    assert not measured & {question for question, *_ in rows}
    found = {subject: about(subject, rows) for subject in RATES}
    assert found == {
        "liked": {("mint tea", 1.0)},
        "disliked": {("mint tea", -1.0)},
        "withdrawn": set(),
        "turned": {("mint tea", -1.0)},
        "forgiven": {("mint tea", 1.0)},
        "lukewarm": set(),
        "corrected": {("green tea", 1.0), ("mint tea", -1.0)},
        "improved": {("green tea", 1.0)},
        "whole": {("mint tea", 1.0)},
        "mixed": {("mint tea", -1.0)},
        "garbled": set(),
        "ugly": set(),
        "silent": set(),
    }


def test_imitation_is_given_the_wanted_answers_alone(trained_on: TrainedOn) -> None:
    rows = trained_on("imitation", RATES, ANSWERS)

    assert {answer for _, answer, *_ in rows} == {"mint tea", "green tea"}
    assert {value for _, _, value, *_ in rows} == {1.0}
    assert about("corrected", rows) | about("improved", rows) == {("green tea", 1.0)}
    for subject in ("disliked", "withdrawn", "turned", "lukewarm", "garbled", "ugly", "silent"):
        assert about(subject, rows) == set(), subject


def second_is_worse(session: Session) -> None:
    session.feedback(1.0, turn=0)
    session.feedback(-1.0, turn=1)


def test_dpo_is_given_the_better_and_the_worse_of_two_answers_to_a_request(trained_on: TrainedOn) -> None:
    rows = trained_on("dpo", {**RATES, "twice": second_is_worse}, ANSWERS)

    found = {subject: about(subject, rows) for subject in [*RATES, "twice", "plain"]}
    assert {subject: answers for subject, answers in found.items() if answers} == {
        "corrected": {("green tea", 1.0), ("mint tea", -1.0)},
        "improved": {("green tea", 1.0), ("mint tea", -1.0)},
        "twice": {("mint tea", 1.0), ("black tea", -1.0)},
    }


LONG = "Kürzer! Καλύτερα. もっと短く。" * 500
SAID: dict[str, Rate] = {
    "short": rated(-1.0, words="shorter"),
    "neutral": rated(0.0, words="in German"),
    "praised": rated(1.0, words="lovely"),
    "empty": rated(-1.0, words=" \n"),
    "long": rated(-1.0, words=LONG),
    "corrected": rated(-1.0, correction="green tea"),
    "ugly": rated(-1.0, words="nonsense"),
    "silent": rated(-1.0),
}


def contradicted(session: Session) -> None:
    for words in ("longer", "shorter"):
        session.feedback(-1.0, words=words, turn=0)
    session.feedback(-1.0, turn=0)


def test_a_hint_is_the_newest_that_was_said_of_an_answer_and_no_praise(trained_on: TrainedOn) -> None:
    rows = trained_on("hint", {**SAID, "contradicted": contradicted}, ANSWERS)

    found = {(question.split()[0], answer, value, *words) for question, answer, value, _, *words in rows}
    assert found == {
        ("short", "mint tea", 1.0, "shorter"),
        ("neutral", "mint tea", 1.0, "in German"),
        ("long", "mint tea", 1.0, LONG),
        ("corrected", "mint tea", 1.0, "green tea"),
        ("contradicted", "mint tea", 1.0, "shorter"),
    }


def test_notes_in_the_view_are_hints(
    trained_on: TrainedOn, note_in_view: Callable[[Path, Session, str], None], tmp_path: Path
) -> None:
    def noted(session: Session) -> None:
        (run,) = (tmp_path / "recorded").iterdir()
        note_in_view(run, session, "a warmer one")

    rows = trained_on("hint", {"noted": noted, "short": rated(-1.0, words="shorter")})

    found = {(question.split()[0], *words) for question, _, _, _, *words in rows}
    assert found == {("noted", "a warmer one"), ("short", "shorter")}


@pytest.mark.parametrize(("optimizer", "needed"), [("dpo", "corrected ones"), ("hint", "said in words")])
def test_a_recording_is_refused_with_what_it_lacks(trained_on: TrainedOn, optimizer: str, needed: str) -> None:
    with pytest.raises(AssertionError) as caught:
        trained_on(optimizer, {"disliked": rated(-1.0)})

    assert needed in str(caught.value)
    assert "--optimizer kto" in str(caught.value)
