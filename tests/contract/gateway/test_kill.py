"""`kill -9` of `agentfw serve`, twice each: in the middle of a stream, and between an answer and the memory's hearing.

What was acknowledged is there afterwards, once, and each saying is heard once.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from waiting import until

from .conftest import CLIENT, EARS, TOKENS, Gateway, Message, Start, said, user

OPTIONS = ("--policy", str(TOKENS), "--memory", str(EARS))


def started(killable: Start, before: Gateway | None) -> Gateway:
    return killable(*OPTIONS) if before is None else killable("--resume", before.folder.name)


def has_heard(gateway: Gateway, sayings: int) -> bool:
    """Whether so many sayings were heard, and it is on disk."""
    return len((gateway.folder / "heard.jsonl").read_text("utf-8").splitlines()) == sayings


def killed_in_a_stream(gateway: Gateway, messages: list[Message]) -> None:
    """Kill the gateway when a part of an answer has come."""
    body = {"model": "agentfw", "stream": True, "messages": messages, "user": "ada"}
    with CLIENT.stream("POST", f"{gateway.url}/s/tea/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        until(lambda: "Heard: " in next(lines))
        until(lambda: list((gateway.folder / "streams").glob("*")))
        gateway.stop()


@pytest.mark.slow
def test_two_kills_in_the_middle_of_a_stream(killable: Start, tmp_path: Path) -> None:
    never, talk, answers = f"hold={tmp_path / 'never'}", list[Message](), list[str]()
    running: Gateway | None = None
    for number in range(3):
        running = started(killable, running)
        talk.append(user(f"question {number}"))
        talk.append(said(running.ask("tea", *talk, user="ada")))
        answers.append(talk[-1]["content"])
        if number < 2:
            killed_in_a_stream(running, [*talk, user(f"{never}-{number}")])
    assert running is not None
    until(partial(has_heard, running, 5))

    kept = running.kept("tea")
    assert [turn.text for turn in kept.turns] == answers
    cut = [event.data for event in kept.events if event.name == "cut_off"]
    assert [(one["text"], one["why"]) for one in cut] == [("Heard: ", "killed")] * 2
    asked = [message.content for message in kept.messages if message.role == "user"]
    assert sorted(asked) == sorted({*asked}), "each question is there once"
    heard = [json.loads(line)["text"] for line in (running.folder / "heard.log").read_text("utf-8").splitlines()]
    expected = ["question 0", f"{never}-0", "question 1", f"{never}-1", "question 2"]
    assert sorted(heard) == sorted(expected), "what was asked is heard although it was never answered"


@pytest.mark.slow
def test_two_kills_between_an_answer_and_its_hearing(killable: Start, tmp_path: Path) -> None:
    gate, talk = tmp_path / "gate", list[Message]()
    running: Gateway | None = None
    for number in range(2):
        running = started(killable, running)
        talk.append(user(f"hear={gate} {number}"))
        talk.append(said(running.ask("tea", *talk, user="ada")))
        assert running.remembered("ada") == []
        running.stop()
    gate.touch()
    for _ in range(2):
        running = started(killable, running)
        until(partial(has_heard, running, 2))
        running.stop()

    assert running is not None
    rows = [json.loads(line) for line in (running.folder / "heard.log").read_text("utf-8").splitlines()]
    assert [row["text"] for row in rows] == [f"hear={gate} 0", f"hear={gate} 1"]
    assert [turn.text for turn in running.kept("tea").turns] == [one["content"] for one in talk[1::2]]
