"""Other times for what is declined: free, within working hours, and the nearest such."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agentfw.errors import UsageError
from agentfw_plugins.worlds.calendar.real.environment import Outcome
from agentfw_plugins.worlds.calendar.real.free_times import Hours, nearest_free
from agentfw_plugins.worlds.calendar.real.session import Session, Wishes
from agentfw_plugins.worlds.calendar.real.sources import FileSource

BERLIN = ZoneInfo("Europe/Berlin")
STEP = timedelta(minutes=5)
"""Everything here begins and ends at a multiple of it."""


def is_right(start: datetime, length: timedelta, busy: list[tuple[datetime, datetime]], until: datetime) -> bool:
    """Whether the person is free and at work, looked at step by step."""
    steps = [start + STEP * number for number in range(int(length / STEP))]
    local = [step.astimezone(BERLIN) for step in steps]
    at_work = all(each.weekday() < 5 and 9 <= each.hour < 17 and each.date() == local[0].date() for each in local)
    return at_work and steps[-1] < until and not any(begin <= each < end for begin, end in busy for each in steps)


@pytest.mark.slow
def test_in_generated_weeks_it_is_free_within_hours_and_the_nearest() -> None:
    some = random.Random(7)
    none = 0
    for week in range(500):
        # Some of the weeks have a change of the clock.
        since = datetime(2026, 3, 2, tzinfo=BERLIN) + timedelta(weeks=week % 40)
        until = (since + timedelta(days=5)).astimezone(UTC)
        since = since.astimezone(UTC)
        slots = [since + timedelta(minutes=5 * some.randrange(12 * 24 * 5)) for _ in range(some.randrange(60))]
        busy = [(begin, begin + timedelta(minutes=5 * some.randrange(1, 60))) for begin in slots]
        near, length = some.choice([since, *slots]), timedelta(minutes=some.choice((15, 25, 60, 90)))

        found = nearest_free(near, length, busy, Hours.parse("09:00-17:00"), BERLIN, (since, until))

        quarters = [since + timedelta(minutes=15) * number for number in range(4 * 24 * 5)]
        if found is None:
            none += 1
            assert not any(is_right(start, length, busy, until) for start in quarters)
        else:
            assert is_right(found, length, busy, until)
            nearer = [start for start in quarters if abs(start - near) < abs(found - near)]
            assert not any(is_right(start, length, busy, until) for start in nearer)
    assert none < 250, "most weeks have room"


def test_the_way_to_an_event_is_not_free_and_no_time_is_given_twice(tmp_path: Path) -> None:
    def event(uid: str, begin: str, end: str, *more: str) -> str:
        times = f"DTSTART:20991123T{begin}00Z\nDTEND:20991123T{end}00Z\nSUMMARY:{uid}"
        return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", times, *more, "END:VEVENT"])

    by = "ORGANIZER;CN=Joe:mailto:joe@acme.example"
    path = tmp_path / "my.ics"
    path.write_text(
        "\n".join(
            [
                "BEGIN:VCALENDAR",
                event("kept", "0900", "1000"),
                event("call", "0900", "1000", by),
                event("own", "0900", "1000"),
                event("visit", "1100", "1200", "X-APPLE-TRAVEL-DURATION;VALUE=DURATION:PT45M"),
                "END:VCALENDAR",
            ]
        )
    )
    first = datetime(2099, 11, 23).date()
    session = Session.open([FileSource(path)], Wishes(1, first, zone="UTC", hours=Hours.parse("09:00-15:00")))
    group = {one.entry.uid: one for one in session.agenda.next() or []}
    session.agenda.keep(list(group.values()), group["kept"])
    session.outcomes = [Outcome(None, group["kept"], (group["call"], group["own"]), "", False)]  # type: ignore[arg-type]

    call, own = session.other_times()

    assert [each["to"][11:16] for each in (call, own)] == ["12:00", "13:00"]
    assert call["organizer"] == "joe@acme.example"
    assert call["message"].startswith('Hello Joe,\nI can\'t come to "call" on Monday, 23 November, 09:00.')
    assert "Monday, 23 November, 12:00 instead?" in call["message"]
    assert own["message"] == "", "nobody has to be asked"


@pytest.mark.parametrize("hours", ["9-17", "17:00-09:00", "09:00-24:00"])
def test_hours_that_are_none_are_refused(hours: str) -> None:
    with pytest.raises(UsageError, match="no working hours"):
        Hours.parse(hours)
