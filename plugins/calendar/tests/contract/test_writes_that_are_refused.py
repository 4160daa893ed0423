"""A change that a server doesn't take is told as that: never as written, restored or done. It can be tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CalendarSession = Callable[..., Any]

GROUP = """UID:group
DTSTAMP:20260101T000000Z
DTSTART:20261123T090000Z
DURATION:PT1H
SUMMARY:Group meeting
DESCRIPTION:Grüße\\, of another program
X-OF-ANOTHER:kept
ORGANIZER:mailto:bob@lab.example
ATTENDEE:mailto:ana@lab.example"""
CALL = """UID:call
DTSTAMP:20260101T000000Z
DTSTART:20261123T093000Z
DURATION:PT1H
SUMMARY:Call with Acme
ORGANIZER:mailto:eve@acme.example
ATTENDEE:mailto:ana@lab.example"""
REVIEW = GROUP.replace("group", "review").replace("Group meeting", "Review").replace("20261123", "20261124")
DEMO = CALL.replace("call", "demo").replace("Call with Acme", "Demo").replace("20261123", "20261124")
ME = ("--me", "ana@lab.example", "--zone", "Europe/Berlin")
DECLINED = "X-AGENTFW-DECLINED"


@pytest.fixture
def decide(calendar_session: CalendarSession, server: Any) -> Callable[..., Any]:
    return lambda answers: calendar_session("decide", server.address, *ME, "--json", answers=answers)


def marked(server: Any) -> set[str]:
    return {place.rpartition("/")[2] for place, text in server.events.items() if DECLINED in text}


def titles(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["title"] for row in rows)


@pytest.mark.parametrize("status", [404, 409, 412])
def test_a_mark_that_the_server_keeps_is_not_restored_and_can_be_undone_later(
    decide: Callable[..., Any], calendar_session: CalendarSession, server: Any, status: int
) -> None:
    for name, event in (("group", GROUP), ("call", CALL)):
        server.put(name, event)
    before = dict(server.events)
    decide("a\n")

    server.refuses = status
    refused = calendar_session("undo", "--json").json
    kept = marked(server)
    server.refuses = 0
    again = calendar_session("undo", "--json").json

    assert refused["restored"] == []
    assert len(refused["failed"]) == 1
    assert refused["decisions"] == 0, "the decision stands as long as its mark does"
    assert len(kept) == 1
    assert titles(again["restored"]) == titles(refused["failed"])
    assert again["decisions"] == 1
    assert server.events == before


def test_an_undo_that_is_refused_says_so_to_a_person(
    decide: Callable[..., Any], calendar_session: CalendarSession, server: Any
) -> None:
    for name, event in (("group", GROUP), ("call", CALL)):
        server.put(name, event)
    decide("a\n")
    server.refuses = 412

    said = calendar_session("undo")

    assert "restored" not in said.out.lower()
    assert "again" in (said.out + said.err).lower()


@pytest.mark.parametrize("status", [403, 423, 507])
def test_an_undo_that_the_server_forbids_is_an_error_and_loses_nothing(
    decide: Callable[..., Any], calendar_session: CalendarSession, server: Any, status: int
) -> None:
    for name, event in (("group", GROUP), ("call", CALL)):
        server.put(name, event)
    decide("a\n")
    server.refuses = status

    said = calendar_session("undo", "--json")
    server.refuses = 0
    again = calendar_session("undo", "--json").json

    assert said.code == 1
    assert "restored" not in said.out
    assert len(again["restored"]) == 1
    assert marked(server) == set()


@pytest.mark.parametrize("status", [409, 412])
def test_a_declined_event_that_the_server_does_not_take_is_not_declined(
    decide: Callable[..., Any], calendar_session: CalendarSession, server: Any, status: int
) -> None:
    for name, event in (("group", GROUP), ("call", CALL), ("review", REVIEW), ("demo", DEMO)):
        server.put(name, event)
    before = dict(server.events)
    server.refuses = status

    decided = decide("a\na\n")
    listed = calendar_session("undo", "--list", "--json")
    server.refuses = 0
    again = calendar_session("list", server.address, *ME, "--json").json

    assert [text.rpartition(" to ")[0] for text in decided.json["outputs"]] == ["2 not written"]
    assert server.events == before
    assert listed.json == []
    assert len(again["conflicts"]) == 2


def test_what_somebody_else_changed_at_that_moment_stays(
    decide: Callable[..., Any], calendar_session: CalendarSession, server: Any
) -> None:
    places = [server.put(name, event) for name, event in (("group", GROUP), ("call", CALL))]

    def edit(place: str) -> None:
        server.before_write = lambda place: None
        for one in places:
            server.save(one, server.events[one].replace("SUMMARY:", "SUMMARY:Edited "))

    server.before_write = edit
    decided = decide("a\n")

    assert [text.partition(" to ")[0] for text in decided.json["outputs"]] == ["1 not written"]
    assert marked(server) == set()
    assert all("SUMMARY:Edited " in text for text in server.events.values())
