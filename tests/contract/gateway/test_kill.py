"""`kill -9` of `agentfw serve`: twice in the middle of a stream, and between an answer and the memory's hearing.

What was acknowledged is there afterwards, once, and each saying is heard once.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_gateways import CLIENT, EARS, TOKENS, Gateway, Message, said, shared_session, user
from waiting import until

from .conftest import Places, Start

OPTIONS = ("--policy", str(TOKENS), "--memory", str(EARS))


def started(killable: Start, before: Gateway | None) -> Gateway:
    return killable(*OPTIONS) if before is None else killable("--resume", before.folder.name)


def has_heard(gateway: Gateway, sayings: int) -> bool:
    """Whether so many sayings were heard, and it is on disk."""
    return len((gateway.folder / "heard.jsonl").read_text("utf-8").splitlines()) == sayings


def killed_in_a_stream(gateway: Gateway, messages: list[Message]) -> None:
    """Kill the gateway when a part of an answer has come."""
    body = {"model": "agentfw", "stream": True, "messages": messages, "user": "ada"}
    (full := gateway.folder / "streams").touch()  # nothing can be written there, as on a full disk
    with CLIENT.stream("POST", f"{gateway.url}/s/tea/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        until(lambda: "Heard: " in next(lines))
        time.sleep(0.6)
        full.unlink()
        [file] = until(lambda: list((gateway.folder / "streams").glob("*")))
        gateway.stop()
    with file.open("ab") as stream:  # killed in the middle of a character
        stream.write("é".encode()[:1])


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


def test_a_kill_between_an_answer_and_its_hearing(killable: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = killable(*OPTIONS)
    answer = said(running.ask("tea", f"hear={gate}", user="ada"))
    assert running.remembered("ada") == []
    running.stop()
    gate.touch()
    running = killable("--resume", running.folder.name)
    until(partial(has_heard, running, 1))
    running.stop()

    [row] = [json.loads(line) for line in (running.folder / "heard.log").read_text("utf-8").splitlines()]
    assert row["text"] == f"hear={gate}"
    assert [turn.text for turn in running.kept("tea").turns] == [answer["content"]]


# -- answers that don't come to their end ------------------------------------------------------------------------------


@contextmanager
def listening(gateway: Gateway, session: str, text: str) -> Iterator[Iterator[str]]:
    """A stream that somebody reads, and hangs up at the end of the block."""
    body = {"model": "agentfw", "stream": True, "messages": [{"role": "user", "content": text}]}
    with (
        httpx.Client(timeout=60) as client,
        client.stream("POST", f"{gateway.url}/s/{session}/v1/chat/completions", json=body) as answer,
    ):
        yield answer.iter_text()


def hear(pieces: Iterator[str], word: str) -> None:
    heard = ""
    while word not in heard:
        heard += next(pieces)


def cut_off(gateway: Gateway, session: str) -> list[dict[str, Any]]:
    return [event.data for event in gateway.kept(session).events if event.name == "cut_off"]


def test_what_was_said_before_the_model_broke_off_is_on_disk_when_the_client_is_told(gateway: Start) -> None:
    running = gateway()
    with listening(running, "tea", "break") as pieces:
        told = "".join(pieces)

    assert "Heard: " in told
    assert "the model broke off" in told
    [cut] = cut_off(running, "tea")
    assert cut["text"] == "Heard: "
    assert "the model broke off" in cut["why"]
    assert [message.content for message in running.kept("tea").messages] == ["break"]


def test_what_was_said_to_who_hung_up_is_on_disk_and_the_session_goes_on(gateway: Start, tmp_path: Path) -> None:
    running = gateway()
    with listening(running, "tea", f"hold={tmp_path / 'never'}") as pieces:
        hear(pieces, "Heard: ")
        assert running.post("/s/tea/end").status_code == 409, "it is being answered"
    until(lambda: cut_off(running, "tea"))
    answered = said(running.ask("tea", "still there?"))

    [cut] = cut_off(running, "tea")
    assert cut["text"] == "Heard: "
    assert [turn.text for turn in running.kept("tea").turns] == [answered["content"]]


@pytest.mark.parametrize("hangs_up", [False, True])
def test_what_broke_off_at_one_gateway_is_known_to_the_other(gateway: Start, tmp_path: Path, hangs_up: bool) -> None:
    shared = str(tmp_path / "sessions.db")
    one, other = (gateway(name, limits={"shared": shared}) for name in ("one", "other"))
    said(one.ask("tea", "hello"))
    said(other.ask("tea", "hello"))
    question = f"hold={tmp_path / 'never'}" if hangs_up else "break"
    with listening(one, "tea", question) as pieces:
        hear(pieces, "Heard: " if hangs_up else "broke off")
    said(other.ask("tea", "still there?"))

    shown = [message["content"] for message in other.request("GET", "/s/tea").json()["messages"]]
    assert shown == ["hello", question, "still there?"]
    [cut] = [event for event in shared_session(shared, "tea").events if event.name == "cut_off"]
    assert cut.data["text"] == "Heard: "


def test_an_answer_that_was_given_is_recorded_although_its_client_leaves_meanwhile(
    gateway: Start, tmp_path: Path
) -> None:
    shared, go = tmp_path / "sessions.db", tmp_path / "go"
    running = gateway(limits={"shared": str(shared)})
    with closing(sqlite3.connect(shared, isolation_level=None)) as busy:
        with listening(running, "tea", f"hold={go}") as pieces:
            hear(pieces, "Heard: ")
            busy.execute("BEGIN IMMEDIATE")
            go.touch()
            hear(pieces, "sample")
            until(lambda: running.figure("answers_in_progress") == 0)
        time.sleep(0.1)
        busy.execute("ROLLBACK")
    said(running.ask("tea", "still there?"))

    assert len(shared_session(str(shared), "tea").turns) == 2
    assert 'end="hung_up"' not in running.request("GET", "/metrics").text


def test_places_are_given_back_by_who_ends_breaks_hangs_up_or_waits_in_vain(gateway: Start, tmp_path: Path) -> None:
    """Two places. After all kinds of ends, two answers are given at once, and a third one waits."""
    running = gateway(limits={"concurrency": 2, "queue": 3, "queue_timeout": 0.3})
    held = tmp_path / "held"
    for number in range(2):
        said(running.ask(f"ends-{number}", "hello"))
        assert running.ask(f"breaks-{number}", "break").status_code >= 500
    with listening(running, "a", f"hold={held}") as a, listening(running, "b", f"hold={held}") as b:
        hear(a, "Heard")
        hear(b, "Heard")
        for number in range(2):
            late = running.ask(f"late-{number}", "hello")
            assert (late.status_code, late.json()["error"]["code"]) == (503, "server_busy")
        assert 1 <= int(late.headers["retry-after"]) <= 60
        with pytest.raises(httpx.ReadTimeout):  # hangs up while it waits
            CLIENT.post(f"{running.url}/s/gone/v1/chat/completions", json=_body("hello"), timeout=0.1)
        until(lambda: running.figure("requests_waiting") == 0)
    until(lambda: cut_off(running, "a") and cut_off(running, "b"))

    with listening(running, "c", f"hold={held}") as c, listening(running, "d", f"hold={held}") as d:
        hear(c, "Heard")
        hear(d, "Heard")
        assert running.ask("third", "hello").status_code == 503
        held.touch()
        hear(c, "sample")
        hear(d, "sample")
    assert running.ask("third", "hello").status_code == 200
    assert running.figure("requests_waiting") == 0


def test_whose_turn_comes_at_the_moment_they_hang_up_leaves_the_place_to_the_next(places: Places) -> None:
    async def run() -> list[str]:
        served, line, leave = list[str](), places(1), asyncio.Event()

        async def ask(client: str) -> None:
            async with line.place(client):
                served.append(client)
                await leave.wait()

        first, gone, following = [asyncio.create_task(ask(name)) for name in ("first", "gone", "following")]
        while line.length < 2:
            await asyncio.sleep(0)
        leave.set()
        while line.length == 2:  # until the place of the first one is given to the second
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(asyncio.gather(first, following), 30)
        return served

    assert asyncio.run(run()) == ["first", "following"]


def _body(text: str) -> dict[str, Any]:
    return {"model": "agentfw", "messages": [{"role": "user", "content": text}]}
