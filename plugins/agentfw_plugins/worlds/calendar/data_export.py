"""Writes the data set: users, regular events and conflict rounds of each split, as JSONL and Parquet.

The same seed gives the same bytes. Each file is written under a temporary name and renamed. MANIFEST.json is written
last; it lists the rows and the sha256 of each file, and the rejected rounds by reason.

    make_data(Path("data"), users=40, seed=7)

    DIR/MANIFEST.json
    DIR/train/users.jsonl  events.jsonl  rounds.jsonl     (and .parquet beside each)
    DIR/validation/...  DIR/test/...
    DIR/ics/7-test-0-3.ics

`users.jsonl` holds the hidden weights and `rounds.jsonl` the true answers: it is data to train and to judge with, not
to be shown to an agent.

A user's year is also an iCalendar file (RFC 5545), for calendar programs and for trying `agentfw calendar`. It contains
what an invitation contains: no answers, no weights. Regular meetings are confirmed and have a recurrence rule;
competing events are tentative. Times are floating local times, as a generated organisation has no time zone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, time
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentfw.errors import MissingExtraError, UsageError
from agentfw.runs import write_whole

from .dataset import SPLITS, Calendar, Dataset, schemas_of
from .event_attributes import Event, event_line
from .organisation import User
from .regular_year import Series, date_of
from .round_maker import POINTS
from .schema import CADENCES

_USERS_EACH = 5

Rows = list[dict[str, Any]]


def organisations_for(users: int) -> tuple[int, dict[str, int]]:
    """The number of users per organisation and of organisations per split.

    From 20 users on: five users each, two organisations for test and a fifth of the others for validation. With fewer
    users the organisations are smaller, so that every split still has one.

    >>> organisations_for(40)
    (5, {'train': 5, 'validation': 1, 'test': 2})
    """
    if users < 3:
        raise UsageError(f"{users} users can't be split by organisation", fix="pass --users 3 or more")
    each = _USERS_EACH if users >= 4 * _USERS_EACH else max(1, users // 4)
    organisations = -(-users // each)
    test = 2 if organisations >= 4 else 1
    validation = max(1, (organisations - test) // 5)
    return each, {"train": organisations - test - validation, "validation": validation, "test": test}


def make_data(
    folder: Path,
    *,
    users: int = 40,
    seed: int = 7,
    organisations: str = "",
    ics: Sequence[str] = (),
    parquet: bool = True,
    jobs: int = 1,
    progress: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Write the data set and return the manifest. `ics` names users or is "all"; `jobs` is the number of processes."""
    table = _parquet() if parquet else None
    each, counts = organisations_for(users)
    dataset = Dataset(seed, schemas_of(organisations), each, counts)
    wanted = {split: dataset.users(split) for split in SPLITS}
    # Organisations are complete, so users in excess are left out of training.
    wanted["train"] = wanted["train"][: users - len(wanted["validation"]) - len(wanted["test"])]
    known = [name for names in wanted.values() for name in names]
    chosen = set(known if "all" in ics else ics)
    unknown = sorted(chosen - set(known))
    if unknown:
        raise UsageError(f'there is no user "{unknown[0]}" in this data set', fix=f"the first is {known[0]}")
    rejected: Counter[str] = Counter()
    files: dict[str, dict[str, Any]] = {}
    made = _made(dataset, [(name, name in chosen) for name in known], jobs)
    for split in SPLITS:
        rows: dict[str, Rows] = {"users": [], "events": [], "rounds": []}
        for name in wanted[split]:
            year = next(made)
            rejected += year.rejected
            rows["users"].append({"user": name, "split": split, **year.user})
            rows["events"] += year.events
            rows["rounds"] += year.rounds
            if year.ics is not None:
                _write(folder, f"ics/{name}.ics", year.ics, 1, files)
            progress(name)
        for kind, some in rows.items():
            _write(
                folder, f"{split}/{kind}.jsonl", "".join(_json(row) + "\n" for row in some).encode(), len(some), files
            )
            if table is not None and some:
                _write(folder, f"{split}/{kind}.parquet", table(some), len(some), files)
    manifest = {
        "data": "calendar",
        "seed": seed,
        "users": {split: len(names) for split, names in wanted.items()},
        "organisations": counts,
        "archetypes": [schema.archetype for schema in dataset.schemas],
        "rounds": sum(entry["rows"] for name, entry in files.items() if name.endswith("rounds.jsonl")),
        "rejected": {point: rejected[point] for point in POINTS},
        "files": files,
    }
    write_whole(folder / "MANIFEST.json", json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


@dataclass(frozen=True, slots=True)
class _Year:
    """One user's rows as plain values, so that another process can make them."""

    user: dict[str, Any]
    events: Rows
    rounds: Rows
    rejected: Counter[str]
    ics: bytes | None


def _made(dataset: Dataset, wanted: Sequence[tuple[str, bool]], jobs: int) -> Iterator[_Year]:
    """The years of these users, in this order, independent of the number of processes."""
    if jobs == 1:
        yield from (_year(dataset, one) for one in wanted)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(_year, dataset), wanted, chunksize=max(1, min(8, len(wanted) // jobs)))


def _year(dataset: Dataset, wanted: tuple[str, bool]) -> _Year:
    name, with_ics = wanted
    calendar = dataset.calendar(dataset.user(name))
    return _Year(
        _user_row(calendar),
        [_event_row(name, event) for event in calendar.events],
        _round_rows(calendar),
        calendar.rejected,
        ics_of(calendar) if with_ics else None,
    )


def _user_row(calendar: Calendar) -> dict[str, Any]:
    user = calendar.user
    company = user.organisation
    return {
        "name": user.name,
        "role": user.role.name,
        "title": user.role.title,
        "organisation": company.name,
        "archetype": company.schema.archetype,
        # As text, because users have different principles and a table has fixed columns.
        "weights": _json(dict(user.weights)),
        "chart": _json({person.id: [person.name, person.role, person.boss] for person in company.people.values()}),
        "contacts": _json({person.id: [person.name, person.role, person.firm] for person in company.contacts.values()}),
        "rejected": sum(calendar.rejected.values()),
    }


def _event_row(user: str, event: Event) -> dict[str, Any]:
    row = {"user": user, "date": date_of(event.day).isoformat(), **asdict(event)}
    row["attendees"], row["reasons"] = list(event.attendees), list(event.reasons)
    return row


def _round_rows(calendar: Calendar) -> Rows:
    rows: Rows = []
    for shown in calendar.rounds:
        rows.append(
            {
                "user": calendar.user.id,
                "round": shown.number,
                "week": shown.week + 1,
                "date": date_of(shown.day).isoformat(),
                "case": shown.case,
                "answer": shown.answer,
                "anchor": shown.letters[shown.anchor],
                "margin": shown.margin,
                "lines": [
                    event_line(letter, event.shown, tags)
                    for letter, event, tags in zip(shown.letters, shown.events, shown.tags, strict=True)
                ],
                "events": [_event_row(calendar.user.id, event) for event in shown.events],
            }
        )
    return rows


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write(folder: Path, name: str, data: bytes, rows: int, files: dict[str, dict[str, Any]]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
    files[name] = {"rows": rows, "sha256": sha256(data).hexdigest()}


def _parquet() -> Callable[[Rows], bytes]:
    """A function that writes rows as Parquet. It is made before any work, so that a missing extra is found first."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("writing Parquet", "parquet", module=error.name or "pyarrow") from None

    def write(rows: Rows) -> bytes:
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
        return bytes(sink.getvalue())

    return write


_STAMP = "20260101T000000Z"
"""Time stamp of the file; fixed, so that one seed gives the same bytes."""


def ics_of(calendar: Calendar) -> bytes:
    """The whole file."""
    user = calendar.user
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//agentfw//calendar//EN",
        "CALSCALE:GREGORIAN",
        f"X-WR-CALNAME:{escaped(f'{user.name}, {user.organisation.name}')}",
    ]
    by_id = {event.id: event for event in calendar.events}
    for series in calendar.series:
        lines += _series(series, by_id, user)
    for shown in calendar.rounds:
        for event in shown.events:
            if event is not shown.events[shown.anchor]:
                lines += _event(event, user, f"{event.id}@{_host(user)}", status="TENTATIVE")
    lines.append("END:VCALENDAR")
    return b"".join(part + b"\r\n" for line in lines for part in folded(line.encode()))


def _series(series: Series, by_id: dict[str, Event], user: User) -> Iterable[str]:
    """The meeting with its recurrence rule, and each date that differs."""
    first = by_id[f"{series.event.id}w{series.weeks[0]}"]
    uid = f"{series.event.id}@{_host(user)}"
    rule = f"RRULE:FREQ=WEEKLY;INTERVAL={CADENCES[series.meeting.cadence]};COUNT={len(series.weeks)}"
    yield from _event(first, user, uid, extra=(rule,))
    for week in series.weeks[1:]:
        event = by_id[f"{series.event.id}w{week}"]
        if event.minutes != first.minutes:
            yield from _event(event, user, uid, extra=(f"RECURRENCE-ID:{_when(event.day, event.start)}",))


def _event(
    event: Event, user: User, uid: str, *, status: str = "CONFIRMED", extra: tuple[str, ...] = ()
) -> Iterable[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{uid}"
    yield f"DTSTAMP:{_STAMP}"
    yield f"DTSTART:{_when(event.day, event.start)}"
    yield f"DTEND:{_when(event.day, event.end)}"
    yield from extra
    yield f"SUMMARY:{escaped(event.shown)}"
    yield f"LOCATION:{escaped(event.location)}"
    yield f"STATUS:{status}"
    yield f"CATEGORIES:{event.topic.upper()}"
    if event.urgency == "high":
        yield "PRIORITY:1"
    if event.attendees:
        yield f"ORGANIZER{_party(event.by, user)}"
        for person in (user.person, *event.attendees):
            if person != event.by:
                yield f"ATTENDEE;ROLE={'OPT' if event.hold == 'optional' else 'REQ'}-PARTICIPANT{_party(person, user)}"
    yield "END:VEVENT"


def _party(person: str, user: User) -> str:
    # Parameter values have no escapes, and people's names contain neither quotes nor line breaks.
    return f';CN="{user.organisation.person(person).name}":mailto:{person}@{_host(user)}'


def _host(user: User) -> str:
    return f"{user.id}.example"


def _when(day: int, minute: int) -> str:
    moment = datetime.combine(date_of(day), time(minute // 60, minute % 60))
    return moment.strftime("%Y%m%dT%H%M%S")


def escaped(value: str) -> str:
    """A text as the value of a property."""
    return value.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\n", "\\n")


def folded(content: bytes) -> list[bytes]:
    """Fold a content line into physical lines of at most 75 octets, without splitting a character."""
    parts: list[bytes] = []
    limit, lead = 75, b""
    while len(content) > limit:
        cut = limit
        while cut > limit - 4 and content[cut] & 0xC0 == 0x80:
            cut -= 1
        parts.append(lead + content[:cut])
        content, limit, lead = content[cut:], 74, b" "
    return [*parts, lead + content]
