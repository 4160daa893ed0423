"""The page of `agentfw calendar serve` in a real Chromium, and what it refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.ics_marking import DECLINED
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.page import Planner, page_app, serve_page
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

from .events import Calendar, IcsFile, event

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

MARKUP = '<img src=x onerror="window.taken=1">'
JOE = ("ORGANIZER;CN=Joe:mailto:joe@acme.example", "ATTENDEE:mailto:ana@lab.example")
EVENTS = (
    event("dentist", "20991102T1000", "Dentist"),
    event("review", "20991102T1030", "Review with Acme, about a contract with a rather long name", *JOE),
    event("standup", "20991103T0900", "Standup", "RRULE:FREQ=WEEKLY;COUNT=3"),
    event("sync", "20991103T0930", f"Sync {MARKUP}", "RRULE:FREQ=WEEKLY;COUNT=3", *JOE),
    event("lunch", "20991105T1200", "Lunch"),
    "UID:leave\nDTSTART;VALUE=DATE:20991106\nSUMMARY:Annual leave",
)


@pytest.fixture
def events() -> tuple[str, ...]:
    """What is in the calendar; a test may name other events."""
    return EVENTS


@pytest.fixture
def planner(ics_file: IcsFile, tmp_path: Path, events: tuple[str, ...]) -> Planner:
    path, wishes = ics_file(*events), Wishes(since=date(2099, 11, 2))
    return Planner(
        lambda: Session.open([FileSource(path)], wishes),
        lambda: PersonFile(tmp_path / "hub.db", "ana@lab.example"),
        lambda: LinearPolicy(),
    )


@pytest.fixture
def address(planner: Planner) -> Iterator[str]:
    """The page, served as the command does."""
    told, loop = Queue[str](), asyncio.new_event_loop()
    serving = loop.create_task(serve_page(planner, 0, told.put))
    thread = threading.Thread(target=loop.run_until_complete, args=[asyncio.gather(serving, return_exceptions=True)])
    thread.start()
    yield told.get(timeout=300)
    loop.call_soon_threadsafe(serving.cancel)
    thread.join(30)
    loop.close()


def press(browser: Any, label: str) -> None:
    browser.evaluate(
        f"[...document.querySelectorAll('button')].find((one) => (one.getAttribute('aria-label') || one.textContent)"
        f".startsWith('{label}')).click()"
    )


def test_a_person_decides_writes_and_gets_a_draft_and_undoes_it(
    address: str, planner: Planner, tmp_path: Path, chromium: Callable[..., Any]
) -> None:
    browser = chromium()
    browser.size(1280, 900)
    browser.open(address)
    browser.wait("document.querySelectorAll('.conflict').length === 4")
    assert browser.evaluate("document.querySelectorAll('.event.clashes').length") == 4
    assert browser.evaluate("document.querySelectorAll('.choice button.main').length") == 4

    press(browser, "Keep Dentist")
    browser.wait("document.querySelectorAll('.conflict').length === 3")
    browser.evaluate("document.querySelector('.conflict select').value = 'series'")
    press(browser, "Keep Standup")
    browser.wait("document.querySelectorAll('.conflict').length === 0")
    press(browser, "Write 4 declines")
    browser.wait("document.querySelectorAll('.draft').length === 2")

    assert (tmp_path / "my.decided.ics").read_text().count(DECLINED) == 4
    assert "I can't come to \"Review with Acme" in browser.evaluate("document.querySelector('.draft pre').textContent")
    assert len(planner.known.decisions) == 2
    assert browser.evaluate("window.taken") is None
    browser.evaluate("[...document.querySelectorAll('#decided button')][0].click()")
    browser.wait("document.querySelectorAll('.conflict').length === 1")
    assert (tmp_path / "my.decided.ics").read_text().count(DECLINED) == 3
    assert [one for one in browser.problems if not one.startswith(f"{address}/")] == []


def asked(planner: Planner, method: str, path: str, **options: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=page_app(planner))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            return await client.request(method, path, **options)

    return asyncio.run(ask())


def test_an_answer_holds_as_far_as_was_said_and_each_date_is_undone_by_itself(planner: Planner) -> None:
    def sent(path: str, **given: Any) -> Any:
        return asked(planner, "POST", path, json=given).json()

    dentist, series = sorted(asked(planner, "GET", "/week").json()["open"], key=lambda one: one["series"])[:2]
    sent("/decide", keys=dentist["keys"], keep="dentist")
    decided = sent("/decide", keys=series["keys"], keep=series["keys"][0], scope="series")
    dates = [one["keys"] for one in decided["decided"] if one["scope"]]
    one_date, written = sent("/undo", keys=dates[1]), sent("/write")
    without = sent("/undo", keys=dentist["keys"])
    sent("/decide", keys=dentist["keys"], keep="review", why="they pay")

    assert (decided["open"], decided["unwritten"], written["unwritten"]) == ([], 4, 0)
    assert [one["written"] for one in written["decided"]] == [True] * 3
    assert [one["keys"] for one in one_date["open"]] == [dates[1]]
    assert [one["keys"] for one in without["open"]] == [dentist["keys"], dates[1]]
    assert [one["why"] for one in planner.known.choices] == ["", "they pay"]


CHILDREN = (
    event("lily", "20991103T1600", "Lily swimming", "RRULE:FREQ=WEEKLY;COUNT=3"),
    event("tom", "20991103T1630", "Tom football", "RRULE:FREQ=WEEKLY;COUNT=3"),
    event("lily2", "20991104T1600", "Lily piano"),
    event("tom2", "20991104T1630", "Tom chess"),
)


@pytest.mark.parametrize("events", [CHILDREN])
def test_who_goes_is_one_card_for_all_dates_of_a_title(planner: Planner) -> None:
    cards = [(one["kind"], one["events"][0]["title"]) for one in asked(planner, "GET", "/week").json()["open"]]

    assert cards == [("whose", "Lily swimming"), ("whose", "Lily piano")]


def test_what_is_decided_on_a_terminal_meanwhile_is_known_on_the_page(
    planner: Planner, calendar: Calendar, tmp_path: Path
) -> None:
    before = asked(planner, "GET", "/week").json()["open"]
    calendar("decide", tmp_path / "my.ics", since="2099-11-02", answers="a\n")

    (series, *_) = after = [one for one in asked(planner, "GET", "/week").json()["open"] if one["series"]]
    for path, given in (("/decide", {"keys": series["keys"], "keep": series["keys"][0]}), ("/write", {})):
        asked(planner, "POST", path, json=given)

    assert len(after) == len(before) - 1
    assert (tmp_path / "my.decided.ics").read_text().count(DECLINED) == 2
    assert not (tmp_path / "my.decided-2.ics").exists()
    assert len(calendar("undo")["restored"]) == 1, "all answers of the page are one session"


def test_another_site_can_neither_read_nor_change_anything(planner: Planner) -> None:
    rebound = asked(planner, "GET", "/week", headers={"host": "evil.example"})
    form = asked(planner, "POST", "/write", content=b"{}", headers={"content-type": "text/plain"})
    strange = asked(planner, "POST", "/decide", content=b"[", headers={"content-type": "application/json"})

    assert (rebound.status_code, form.status_code, strange.status_code) == (400, 403, 400)
    assert "connect-src 'self'" in asked(planner, "GET", "/").headers["content-security-policy"]


def test_what_changed_meanwhile_is_not_decided(planner: Planner, ics_file: IcsFile) -> None:
    first = asked(planner, "GET", "/week").json()["open"][0]
    ics_file(*(one.replace("Dentist", "Crisis").replace("2T1000", "3T1400") for one in EVENTS))

    refused = asked(planner, "POST", "/decide", json={"keys": first["keys"], "keep": first["keys"][0]})

    assert refused.status_code == 409
    assert "changed meanwhile" in refused.json()["error"]
    assert all(one.get("by_hand") for one in planner.known.decisions), "what was moved by hand is learned from"
