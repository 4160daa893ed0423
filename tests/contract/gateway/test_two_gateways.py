"""Gateways that share sessions: whoever answers in one has it to itself, until the answer is recorded or it dies."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_gateways import EARS, TOKENS, Gateway, gateway_of, said, shared_session
from waiting import until

from .conftest import Start, hold_for_nobody, let_leases_lapse, written_as_heard

PATIENCE = {"queue_timeout": 0.3}


@pytest.fixture
def gateways(gateway: Start, shared: str) -> list[Gateway]:
    """The first gives one answer at once, and the others don't wait long for a session."""
    limits: dict[str, dict[str, Any]] = {"a": {"concurrency": 1}, "b": PATIENCE, "c": PATIENCE}
    return [gateway(name, limits={"shared": shared, **own}) for name, own in limits.items()]


def is_answering(gateway: Gateway) -> bool:
    """Whether a gateway has asked the policy something that isn't answered yet."""
    return gateway.figure("answers_in_progress") >= 1


def waits(gateway: Gateway) -> None:
    """The gateway doesn't get the session, and says so."""
    answer = gateway.ask("tea", "me, too")
    assert answer.status_code == 503, answer.text
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "session_busy")
    assert answer.headers["retry-after"] == "1"


def test_a_session_stays_until_its_last_request_is_answered_while_others_wait_or_stop(
    gateways: list[Gateway], shared: str, tmp_path: Path
) -> None:
    a, b, c = gateways
    first, go = said(b.ask("tea", "hello")), [tmp_path / "go-1", tmp_path / "go-2"]
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(a.ask, "tea", f"hold={go[0]}")
        until(lambda: is_answering(a))
        other = threads.submit(a.ask, "tea", f"hold={go[1]}")
        until(lambda: a.figure("requests_waiting") == 1)
        waits(b)
        go[0].touch()
        answered = [said(one.result())]
        waits(c)
        b.stop()
        until(lambda: not is_up(b))
        waits(c)
        go[1].touch()
        answered.append(said(other.result()))
    last = said(c.ask("tea", "me"))

    told = [turn.text for turn in shared_session(shared, "tea").turns]
    assert told == [one["content"] for one in (first, *answered, last)]
    with ThreadPoolExecutor(1) as threads:
        both = threads.submit(a.ask, "tea", f"take={go[0]}", n=2)
        until(lambda: len(shared_session(shared, "tea").turns) == 5)
        waits(c)
        go[0].touch()
        assert len(both.result().json()["choices"]) == 2


def test_who_was_silent_too_long_has_lost_the_session(gateways: list[Gateway], shared: str, tmp_path: Path) -> None:
    a, b, c = gateways
    go = [tmp_path / "go-a", tmp_path / "go-b"]
    questions = [f"hold={each}" for each in go]
    with ThreadPoolExecutor(2) as threads:
        lost = threads.submit(a.ask, "tea", questions[0])
        until(lambda: is_answering(a))
        let_leases_lapse(shared)
        taken = threads.submit(b.ask, "tea", questions[1])
        until(lambda: is_answering(b))
        go[0].touch()

        refused = lost.result()
        waits(c)
        a.stop()
        until(lambda: not is_up(a))
        waits(c)
        go[1].touch()
        answered = said(taken.result())
    last = said(c.ask("tea", "me"))

    assert refused.status_code == 503
    assert "taken this session over" in refused.json()["error"]["message"]
    assert [turn.text for turn in shared_session(shared, "tea").turns] == [answered["content"], last["content"]]


def test_a_session_without_a_gateway_is_free_when_its_lease_ends(gateways: list[Gateway], shared: str) -> None:
    a, b, _ = gateways
    first = said(a.ask("tea", "hello"))
    hold_for_nobody(shared)
    waits(b)
    let_leases_lapse(shared)
    last = said(b.ask("tea", "hello", first, "me"))

    assert [turn.text for turn in shared_session(shared, "tea").turns] == [first["content"], last["content"]]


def test_each_saying_is_heard_once_also_when_gateways_start_again(gateway: Start, shared: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"policy": str(TOKENS), "memories": [str(EARS)], "limits": {"shared": shared}}
    folders = list[Path]()
    with gateway_of(tmp_path / "a", **options) as a, gateway_of(tmp_path / "b", **options) as b:
        folders += [a.folder, b.folder]
        first = said(a.ask("tea", "one", user="ada"))
        second = said(b.ask("tea", "one", first, "two", user="ada"))
        said(a.ask("tea", "one", first, "two", second, "three", user="ada"))
        until(lambda: (len(a.remembered("ada")), len(b.remembered("ada"))) == (2, 1))

    for folder in folders:
        with gateway_of(folder.parent, resume=str(folder), limits={"shared": shared}) as again:
            said(again.ask(f"after-{folder.parent.name}", "four", user="ben"))
            until(partial(again.remembered, "ben"))

    logs = [(folder / "heard.log").read_text("utf-8").splitlines() for folder in folders]
    assert [[json.loads(line)["text"] for line in log] for log in logs] == [["one", "three", "four"], ["two", "four"]]


def test_a_user_is_forgotten_once_every_gateway_has_heard_what_they_said(
    gateway: Start, shared: str, tmp_path: Path
) -> None:
    a, b = (gateway(name, memories=[str(EARS)], limits={"shared": shared, **PATIENCE}) for name in "ab")

    said(a.ask("tea", f"hear={tmp_path / 'go'}", user="ada"))
    too_early = b.request("DELETE", "/memory?user=ada")
    (tmp_path / "go").touch()

    assert (too_early.status_code, "ask again" in too_early.text) == (503, True)
    until(lambda: b.request("DELETE", "/memory?user=ada").is_success)


def test_what_another_gateway_is_answering_is_heard_before_its_user_is_forgotten(
    gateway: Start, shared: str, tmp_path: Path
) -> None:
    limits = {"shared": shared, "queue_timeout": 2.0}
    a, b = (gateway(name, memories=[str(EARS)], limits=limits) for name in "ab")
    with ThreadPoolExecutor(2) as threads:
        asked = threads.submit(a.ask, "tea", f"hold={tmp_path / 'answer'} hear={tmp_path / 'hear'}", user="ada")
        until(lambda: is_answering(a))
        too_early = threads.submit(b.request, "DELETE", "/memory?user=ada")
        time.sleep(0.3)
        (tmp_path / "answer").touch()
        said(asked.result())
        refused = too_early.result()
    (tmp_path / "hear").touch()

    assert refused.status_code == 503


def test_what_is_being_answered_when_its_user_is_forgotten_is_heard_at_no_gateway(
    gateway: Start, shared: str, tmp_path: Path
) -> None:
    a, b = (gateway(name, memories=[str(EARS)], limits={"shared": shared, **PATIENCE}) for name in "ab")
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(a.ask, "tea", f"hold={tmp_path / 'go'}", user="ada")
        until(lambda: is_answering(a))
        assert a.request("DELETE", "/memory?user=ada").is_success
        (tmp_path / "go").touch()
        said(asked.result())
    until(lambda: written_as_heard(shared))
    b.post("/s/tea/end", {"user": "ada"}).raise_for_status()

    assert (a.remembered("ada"), b.remembered("ada")) == ([], [])


def test_a_session_that_ends_while_its_user_is_forgotten_has_ended(gateway: Start, shared: str, tmp_path: Path) -> None:
    limits = {"shared": shared, "queue_timeout": 10.0}
    a = gateway("a", memories=[str(EARS)], limits=limits)
    said(a.ask("tea", f"hear={tmp_path / 'go'}", user="ada"))
    with ThreadPoolExecutor(2) as threads:
        forgotten = threads.submit(a.request, "DELETE", "/memory?user=ada")
        time.sleep(0.3)
        ended = threads.submit(a.post, "/s/tea/end", {"user": "ada"})
        time.sleep(0.3)
        (tmp_path / "go").touch()

        assert (forgotten.result().status_code, ended.result().status_code) == (200, 200)
    assert a.ask("tea", "hello again", user="ada").status_code == 410
    assert a.remembered("ada") == []


def is_up(gateway: Gateway) -> bool:
    try:
        return gateway.request("GET", "/healthz").status_code == 200
    except httpx.TransportError:
        return False
