"""Another time for each event that was declined, and what to write to whoever called it.

    other_times(declined, kept, people, home, (since, until), Limits())

The first of the declined events is placed first, and takes its time from the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Any

from .free_times import Hours, Span, Stay, closed, nearest_free
from .occurrences import Occurrence
from .people import TRAVEL, People
from .tagging import party_addresses, whereabouts

__all__ = ["Limits", "other_times"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Where other times can't be."""

    hours: Hours = field(default_factory=lambda: Hours.parse("09:00-17:00"))
    travel: timedelta = TRAVEL
    """Time between events at different places."""
    days_off: Sequence[Span] = ()
    others: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """When other people are busy, by address."""


def other_times(
    declined: Sequence[Occurrence],
    kept: Sequence[Occurrence],
    people: People,
    home: tzinfo,
    within: Span,
    limits: Limits,
) -> list[dict[str, Any]]:
    """The proposals as plain values."""
    stays = [_stay(one) for one in kept]
    found = []
    for one in sorted(declined, key=lambda one: one.start):
        stay, organizer = _stay(one), one.entry.organizer
        asked = sorted(limits.others.keys() & party_addresses(one.entry))
        busy = [*closed(stay, stays, limits.travel), *limits.days_off]
        busy += [span for address in asked for span in limits.others[address]]
        to = nearest_free(one.start, one.end - one.start, busy, limits.hours, home, within)
        own = organizer is None or people.is_owner(organizer)
        if to is not None:
            stays.append(stay.at(to))
        found.append(
            {
                "title": one.entry.title,
                "start": one.start.astimezone(home).isoformat(),
                "to": None if to is None else to.astimezone(home).isoformat(),
                "organizer": "" if own or organizer is None else organizer.address,
                "also_free": asked,
                "message": "" if own or to is None else _draft(one, to, home),
            }
        )
    return found


def _stay(one: Occurrence) -> Stay:
    return Stay.read(one, whereabouts(one.entry))


def _draft(one: Occurrence, to: datetime, home: tzinfo) -> str:
    """A message to whoever called the meeting."""
    organizer = one.entry.organizer
    name = organizer.name if organizer is not None and organizer.name else ""
    return (
        f"Hello{f' {name}' if name else ''},\n"
        f'I can\'t come to "{one.entry.title}" on {_said(one.start, home)}. '
        f"Could we meet on {_said(to, home)} instead?"
    )


def _said(moment: datetime, home: tzinfo) -> str:
    local = moment.astimezone(home)
    return f"{local:%A}, {local.day} {local:%B}, {local:%H:%M}"
