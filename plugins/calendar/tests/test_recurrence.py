"""The dates of a series are those that calendar programs show: rules as dateutil has them, exceptions and changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw_calendar.ics.occurrences import Budget, RuleRefused, rule_times
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes

IcsFile = Callable[..., Path]

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def dates(path: Path, since: date = date(2026, 11, 23), days: int = 28) -> list[str]:
    found = Session.open([FileSource(path)], Wishes(days, since))
    assert found.problems == []
    return [f"{one.start.astimezone(found.home):%d.%m. %H:%M}" for one in found.found]


@st.composite
def rules(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Rules that meet some day; which they meet is what is compared."""
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    rule: dict[str, list[Any]] = {"FREQ": [frequency], "INTERVAL": [draw(st.integers(1, 4))]}
    some = st.booleans()
    if draw(some):
        rule["BYMONTH"] = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True))
    if frequency != "WEEKLY" and draw(some):
        rule["BYMONTHDAY"] = draw(st.lists(st.sampled_from([1, 13, 28, 31, -1, -10]), min_size=1, unique=True))
    elif draw(some):
        # A numbered and a plain weekday in one rule mean different things to different programs.
        numbers = ["1", "3", "-1"] if frequency in ("MONTHLY", "YEARLY") and draw(some) else [""]
        weekdays = [number + day for number in numbers for day in DAYS]
        rule["BYDAY"] = draw(st.lists(st.sampled_from(weekdays), min_size=1, max_size=4, unique=True))
    if draw(some):
        rule["BYHOUR"] = draw(st.lists(st.integers(0, 23), min_size=1, max_size=2, unique=True))
    if draw(some):
        rule["BYSETPOS"] = draw(st.lists(st.sampled_from([1, 2, -1]), min_size=1, unique=True))
    if draw(some):
        rule["COUNT"] = [draw(st.integers(1, 30))]
    rule["WKST"] = [draw(st.sampled_from(DAYS))]
    return rule


@pytest.mark.slow
@given(rules(), st.datetimes(datetime(2018, 1, 1), datetime(2026, 12, 31)), st.integers(-50, 900), st.integers(1, 500))
@settings(max_examples=60, deadline=None)
def test_rules_mean_what_they_mean_to_dateutil(
    rule: dict[str, list[Any]], start: datetime, ahead: int, span: int
) -> None:
    start = start.replace(microsecond=0)
    first = start + timedelta(days=ahead)
    last = first + timedelta(days=span)
    text = ";".join(f"{name}={','.join(map(str, values))}" for name, values in rule.items())

    found = list(rule_times(rule, start, first, last, Budget()))

    # A rule may meet no day for a long time: dateutil is asked up to the last only. It ends a rule with a COUNT itself.
    theirs = rrulestr(text, dtstart=start)
    assert found == (theirs if "COUNT" in rule else theirs.replace(until=last)).between(first, last, inc=True)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"FREQ": ["MINUTELY"]}, "no appointment"),
        ({"FREQ": ["YEARLY"], "RSCALE": ["HEBREW"]}, "RSCALE"),
        ({"FREQ": ["YEARLY"], "BYWEEKNO": [20]}, "BYWEEKNO"),
        ({"FREQ": ["DAILY"], "INTERVAL": [0]}, "interval of 0"),
        ({"FREQ": ["MONTHLY"], "BYMONTHDAY": [32]}, "BYMONTHDAY=32"),
        ({"FREQ": ["DAILY"], "BYHOUR": list(range(24)), "BYMINUTE": [0, 30]}, "24 times a day"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_reason(rule: dict[str, list[Any]], reason: str) -> None:
    with pytest.raises(RuleRefused, match=reason):
        list(rule_times(rule, datetime(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 2, 1), Budget()))


def test_a_meeting_at_nine_stays_at_nine_when_the_clocks_change(ics_file: IcsFile) -> None:
    path = ics_file("UID:1\nDTSTART;TZID=Europe/Berlin:20260316T090000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY\nSUMMARY:x")

    assert dates(path, date(2026, 3, 16)) == ["16.03. 09:00", "23.03. 09:00", "30.03. 09:00", "06.04. 09:00"]


@pytest.mark.parametrize(
    "exception",
    [
        "EXDATE;TZID=Europe/Berlin:20261130T090000",
        "EXDATE:20261130T080000Z",
        "EXDATE;VALUE=DATE:20261130",
        "EXDATE:20261130T090000",
        "EXDATE;TZID=America/New_York:20261130T030000",
    ],
)
def test_an_exception_takes_its_date_out_however_it_is_written(ics_file: IcsFile, exception: str) -> None:
    path = ics_file(
        f"UID:1\nDTSTART;TZID=Europe/Berlin:20261123T090000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY\n{exception}\nSUMMARY:x"
    )

    assert dates(path) == ["23.11. 09:00", "07.12. 09:00", "14.12. 09:00"]


def test_a_date_that_was_moved_is_where_it_was_moved_to(ics_file: IcsFile) -> None:
    path = ics_file(
        "UID:1\nDTSTART;TZID=Europe/Berlin:20261123T090000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=3\nSUMMARY:x",
        "UID:1\nRECURRENCE-ID:20261130T080000Z\nDTSTART;TZID=Europe/Berlin:20261201T140000\nDURATION:PT1H\nSUMMARY:y",
    )

    assert dates(path) == ["23.11. 09:00", "01.12. 14:00", "07.12. 09:00"]


@pytest.mark.parametrize("until", ["20261207", "20261207T080000Z", "20261207T090000"])
def test_a_series_ends_with_its_last_date(ics_file: IcsFile, until: str) -> None:
    path = ics_file(
        f"UID:1\nDTSTART;TZID=Europe/Berlin:20261123T090000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;UNTIL={until}\nSUMMARY:x"
    )

    assert dates(path) == ["23.11. 09:00", "30.11. 09:00", "07.12. 09:00"]
