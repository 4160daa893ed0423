"""Takes back what was decided: the marks in calendars, the decisions, and what was learned from them.

An event that nobody changed since it was marked is what it was before, byte for byte. Of one that somebody changed,
that edit stays and the mark goes. What is undone is asked about again.

    undone = undo(known, last_session(known))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from agentfw.errors import UsageError
from agentfw.runs import write_whole

from .caldav_source import CalDavSource
from .ics_lines import FileLines
from .ics_marking import unmarked
from .person_file import Noted, PersonFile, Writing
from .sources import digest

__all__ = ["Choice", "Undone", "everything", "last_session", "named_event", "undo"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What to take back."""

    marks: Sequence[Noted]
    decisions: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Undone:
    """What was taken back."""

    restored: list[Noted] = field(default_factory=list)
    gone: list[Noted] = field(default_factory=list)
    """Marks that aren't there any more, because somebody removed them, the event or the file."""
    failed: list[Noted] = field(default_factory=list)
    """Marks in events that were changed at the same moment. They can be undone again."""
    decisions: list[Mapping[str, Any]] = field(default_factory=list)


def everything(known: PersonFile) -> Choice:
    return Choice(known.written.marks, known.decisions)


def last_session(known: PersonFile) -> Choice:
    """What the last session decided or wrote."""
    dated = [(noted.at, noted.session) for noted in known.written.marks]
    dated += [(decision["at"], decision["session"]) for decision in known.decisions if "session" in decision]
    last = max(dated, default=("", ""))[1]
    return Choice(
        [noted for noted in known.written.marks if noted.session == last],
        [decision for decision in known.decisions if last and decision.get("session") == last],
    )


def named_event(known: PersonFile, title: str, day: date | None = None) -> Choice:
    """The declined event of this title, or with these words in it."""
    wanted = title.casefold().strip()
    marks = [noted for noted in known.written.marks if noted.title.casefold() == wanted]
    marks = marks or [noted for noted in known.written.marks if wanted in noted.title.casefold()]
    if day is not None:
        marks = [noted for noted in marks if noted.start.startswith(day.isoformat())]
    found = sorted({(noted.start, noted.title) for noted in marks})
    if not found:
        raise UsageError(f'no declined event is called "{title}"', fix="agentfw calendar undo --list shows them")
    if len(found) > 1:
        shown = "; ".join(f"{start[:10]} {name}" for start, name in found[:5])
        raise UsageError(
            f'{len(found)} declined events are called "{title}": {shown}', fix="add the day, with --on YYYY-MM-DD"
        )
    return Choice(marks, [])  # it may be in two calendars


def undo(known: PersonFile, choice: Choice) -> Undone:
    """Take back. The calendars are restored first, so that an interruption loses nothing: run it again."""
    undone = Undone()
    by_file: dict[tuple[str, str], list[Noted]] = {}
    for noted in choice.marks:
        output = known.written.output(noted.source)
        by_file.setdefault((noted.source, str(output[0]) if output else ""), []).append(noted)
    for (source, output_file), marks in by_file.items():
        if output_file:
            _in_file(known, source, Path(output_file), marks, undone)
        else:
            _on_server(known, source, marks, undone)
    done = [*undone.restored, *undone.gone]
    known.written.take_back([noted.place for noted in done])
    _decisions(known, choice.decisions, done, undone)
    return undone


def _in_file(known: PersonFile, source: str, path: Path, marks: Sequence[Noted], undone: Undone) -> None:
    if not path.exists():
        undone.gone += marks
        return
    before = path.read_bytes()
    data, removed = unmarked(FileLines(before), [noted.mark for noted in marks], known.person)
    if data != before:
        # If nobody else changed the file, later sessions go on with it.
        last = known.written.output(source)
        if last is not None and last[1] == digest(before):
            known.written.note(Writing(source, str(path), digest(data), ()))
        write_whole(path, data)
    undone.restored += [noted for noted in marks if noted.mark in removed]
    undone.gone += [noted for noted in marks if noted.mark not in removed]


def _on_server(known: PersonFile, address: str, marks: Sequence[Noted], undone: Undone) -> None:
    source = CalDavSource(address)
    by_part: dict[str, list[Noted]] = {}
    for noted in marks:
        by_part.setdefault(noted.part, []).append(noted)
    for place, some in by_part.items():
        part = source.part(place)
        if part is None:
            undone.gone += some
            continue
        data, removed = unmarked(part.lines, [noted.mark for noted in some], known.person)
        there = [noted for noted in some if noted.mark in removed]
        undone.gone += [noted for noted in some if noted.mark not in removed]
        (undone.restored if not there or source.put(part, data) else undone.failed).extend(there)


def _decisions(
    known: PersonFile, decisions: Sequence[Mapping[str, Any]], done: Sequence[Noted], undone: Undone
) -> None:
    """Take back decisions. One for a series stays, but this date is asked about again."""
    kept = {frozenset(noted.seen) for noted in undone.failed}
    found = {one["id"]: one for one in decisions if frozenset(one["keys"]) not in kept}
    again = []
    for noted in done:
        keys = sorted(noted.seen)
        own = next((one for one in reversed(known.decisions) if one["keys"] == keys and not one.get("again")), None)
        if own is not None and not own.get("scope"):
            found[own["id"]] = own
        elif not any(frozenset(one["keys"]) == frozenset(keys) for one in found.values()):
            again.append(noted)
    if found:
        known.take_back(sorted(found))
    for noted in again:
        known.ask_again(noted.seen, noted.seen)
    undone.decisions += [one for one in found.values() if not one.get("again")]
