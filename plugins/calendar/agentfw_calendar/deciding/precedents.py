"""Whether an earlier decision still holds: for these events, at this time, with this content.

What has changed since (time, title, place, people) is asked about again, with what changed. A decision "for the series"
holds on every date on which the same series clash in the same way; one for "always" also for new events of the same
title and organiser. Whatever is unlike what was decided about is asked.

    precedent(decisions, {one.key: facts(one, people, home) for one in group}, home)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from ..ics.occurrences import Occurrence
from ..language.texts import Said
from .people import People
from .tagging import party_addresses

Facts = Mapping[str, Any]
"""What a decision about an event depends on, as plain values."""

SERIES, ALWAYS = "series", "always"
"""How far a decision goes beyond its own date."""


@dataclass(frozen=True, slots=True)
class Precedent:
    """An earlier decision about the same events."""

    kept: str | None
    """Key of the event that was kept; None if all stay."""
    title: str
    """Title of the kept event as it was then."""
    scope: str
    move: bool
    """Whether the series of what is declined was to be moved."""
    changed: tuple[Said, ...]
    """What has changed since. If there is anything, the decision doesn't hold."""


def facts(one: Occurrence, people: People, home: tzinfo) -> Facts:
    """What a decision about this date depends on."""
    entry, local = one.entry, one.start.astimezone(home)
    moved = entry.instead_of is not None and _moved(entry.instead_of, one.start, home)
    return {
        "title": entry.title,
        "start": one.start.isoformat(),
        "end": one.end.isoformat(),
        "place": " ".join(entry.texts.get("LOCATION", "").split()),
        "people": sorted(party_addresses(entry) - {people.owner}),
        "uid": entry.uid,
        "organizer": "" if entry.organizer is None else entry.organizer.address,
        "clock": f"{local:%H:%M}",
        "weekday": _first_day(one, home).weekday(),
        "repeats": one.of_series is not None and not moved,
    }


def precedent(decisions: Sequence[Mapping[str, Any]], now: Mapping[str, Facts], home: tzinfo) -> Precedent | None:
    """The latest decision about these events; None if there is none.

    A later decision about a date that was unlike the others doesn't replace an earlier one for the series.
    """
    latest: Precedent | None = None
    for decision in reversed(decisions):
        paired = _paired(decision, now)
        if paired is None:
            continue
        if decision.get("again"):
            break
        found = _compared(decision, paired, now, home)
        if not found.changed and (latest is None or found.scope):
            return found
        latest = latest or found
        if decision["keys"] == sorted(now):
            break  # these very dates have changed since
    return latest


def changes(then: Facts, now: Facts, home: tzinfo) -> list[Said]:
    """What has changed of an event."""
    return [*_moves(then, now, home), *_content(then, now)]


def _compared(
    decision: Mapping[str, Any], paired: Mapping[str, str], now: Mapping[str, Facts], home: tzinfo
) -> Precedent:
    kept, seen = decision["kept"], decision.get("seen")
    if seen is None:
        titles = {event["letter"]: event["title"] for event in decision["events"]}
        return Precedent(kept, titles.get(decision["accepted"], ""), "", False, (Said("changed_unknown", {}),))
    is_same_date = set(seen) == set(now)
    changed = [
        change
        for then, key in paired.items()
        for change in (changes if is_same_date else _changes_of_a_series)(seen[then], now[key], home)
    ]
    title = seen[kept]["title"] if kept else ""
    scope, move = decision.get("scope", ""), decision.get("move", False)
    return Precedent(paired[kept] if kept else None, title, scope, move, tuple(changed))


def _paired(decision: Mapping[str, Any], now: Mapping[str, Facts]) -> Mapping[str, str] | None:
    """The keys of then with those of now, if the decision is about these events."""
    if decision["keys"] == sorted(now):
        return {key: key for key in now}
    seen, scope = decision.get("seen", {}), decision.get("scope", "")
    found = _matched(seen, now, ("uid",)) if scope else None
    if found is None and scope == ALWAYS:
        found = _matched(seen, now, ("title", "organizer"))
    return found


def _matched(seen: Mapping[str, Facts], now: Mapping[str, Facts], names: Sequence[str]) -> Mapping[str, str] | None:
    then, current = ({tuple(one[name] for name in names): key for key, one in some.items()} for some in (seen, now))
    # Two that can't be told apart are no match.
    if then.keys() != current.keys() or len(then) != len(seen) or len(current) != len(now):
        return None
    return {key: current[identity] for identity, key in then.items()}


def _changes_of_a_series(then: Facts, now: Facts, home: tzinfo) -> list[Said]:
    """What is unlike the date that was decided about, other than the date."""
    found = []
    if (then["clock"], then["weekday"], then["repeats"]) != (now["clock"], now["weekday"], now["repeats"]):
        found.append(Said("changed_series", {"title": now["title"], "now": _local(now["start"], home)}))
    elif _length(then) != _length(now):
        found.append(_lasts(then, now))
    return [*found, *_content(then, now)]


def _moves(then: Facts, now: Facts, home: tzinfo) -> list[Said]:
    if then["start"] != now["start"]:
        moved = {"then": _local(then["start"], home), "now": _local(now["start"], home)}
        return [Said("changed_moved", {"title": then["title"], **moved})]
    return [_lasts(then, now)] if then["end"] != now["end"] else []


def _content(then: Facts, now: Facts) -> list[Said]:
    title, found = now["title"], list[Said]()
    if then["title"] != title:
        found.append(Said("changed_title", {"then": then["title"], "now": title}))
    if then["place"] != now["place"]:
        name = "changed_place" if now["place"] else "changed_no_place"
        found.append(Said(name, {"title": title, "place": now["place"]}))
    if come := sorted(set(now["people"]) - set(then["people"])):
        found.append(Said("changed_come", {"title": title, "names": ", ".join(come)}))
    if gone := sorted(set(then["people"]) - set(now["people"])):
        found.append(Said("changed_gone", {"title": title, "names": ", ".join(gone)}))
    return found


def _lasts(then: Facts, now: Facts) -> Said:
    return Said("changed_length", {"title": now["title"], "minutes": _length(now), "before": _length(then)})


def _local(moment: str, home: tzinfo) -> datetime:
    return datetime.fromisoformat(moment).astimezone(home)


def _length(one: Facts) -> int:
    return round((datetime.fromisoformat(one["end"]) - datetime.fromisoformat(one["start"])) / timedelta(minutes=1))


def _first_day(one: Occurrence, home: tzinfo) -> datetime:
    """The first date of a series: its weekday changes if the whole series is moved, but not from date to date."""
    return _moment(one.start if one.of_series is None else one.of_series.start, home).astimezone(home)


def _moved(planned: date, start: datetime, home: tzinfo) -> bool:
    return _moment(planned, home).astimezone(UTC) != start


def _moment(day: date, home: tzinfo) -> datetime:
    found = day if isinstance(day, datetime) else datetime.combine(day, time())
    return found if found.tzinfo else found.replace(tzinfo=home)
