"""A session about flexible blocks: shows what is to be placed and moved, asks once, writes, and takes it back.

    agentfw calendar blocks my.ics --people me.toml
    agentfw calendar blocks my.ics --people me.toml --history
    agentfw calendar blocks my.ics --people me.toml --undo 1

Nothing is written that wasn't shown before, and nothing but blocks is ever written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out

from ..deciding.free_times import Hours
from ..deciding.people import read_people
from ..deciding.person_file import PersonFile, data_file
from ..ics.occurrences import Occurrence
from ..language.texts import Said, Texts
from ..language.words import said
from ..session import Session, Wishes
from ..session_command import Asked, source_of
from .arranging import Arrangement, Change, Placed, Rules
from .block_calendar import BlockCalendar, BlockFile, Run
from .wanted import read_wanted

_SHOWN = timedelta(days=31)
"""How far back changes are shown and can be taken back."""


class Asking:
    """Asks short questions: at a terminal, from a file of answers, or taking the first answer everywhere."""

    def __init__(self, answers: Sequence[str] | None, *, yes: bool) -> None:
        self._answers, self.yes = None if answers is None else list(answers), yes

    @property
    def can_ask(self) -> bool:
        return self.yes or self._answers is not None or (sys.stdin.isatty() and sys.stderr.isatty())

    def ask(self, words: str, known: Sequence[str]) -> str:
        """One of these answers, by the name of its words in `words/*.yaml`; empty for Enter."""
        while True:
            if self.yes:
                return ""
            if self._answers is not None:
                text = self._answers.pop(0) if self._answers else ""
            else:
                text = click.prompt(f"  {words}", default="", show_default=False, prompt_suffix=" ", err=True)
            found = next((name for name in known if text.strip().lower() in said(name)), None)
            if found is not None or not text.strip():
                return found or ""
            if self._answers is not None:
                raise UsageError(f'"{text}" is no answer to: {words}', fix="correct it and run the same command again")


def opened(asked: Asked, weeks: int) -> tuple[Session, datetime, datetime]:
    """The calendars from this Monday on, with the moment from which on is planned, and the end of the last week."""
    about = read_people(asked.people)
    sources = [source_of(given, None) for given in asked.calendars]
    first = (asked.since or datetime.now()).date()
    monday = first - timedelta(days=first.weekday())
    wishes = Wishes(7 * weeks, monday, asked.me, asked.zone, about, Hours.parse(asked.hours), language=asked.language)
    session = Session.open(sources, wishes)
    begins = datetime.combine(first, time(), session.home).astimezone(UTC)
    return session, begins if asked.since else datetime.now(UTC), session.until


def appointments(session: Session, known: PersonFile) -> list[Occurrence]:
    """What takes the person's time: without what they declined, and what somebody else goes to."""
    declined = {noted.mark.key for noted in known.written.marks}
    kept = session.agenda.kept()
    return [one for one in kept if one.key not in declined and known.goes.get(one.entry.title.casefold()) is not False]


def plan(asked: Asked, weeks: int, asking: Asking, *, history: bool, back: int) -> None:
    """Hold a session."""
    out, hub = asked.out, asked.hub or data_file()
    wanted = read_wanted(asked.people)
    session, now, until = opened(asked, weeks)
    texts = session.texts
    is_read_only = history or not asking.can_ask
    with BlockFile(hub, session.person, read_only=is_read_only) as known:
        if history:
            _show_history(known, session, out)
            return
        if not wanted and not known.runs:
            raise UsageError(
                f"there are no blocks in {asked.people or 'the file for --people'}",
                fix="write [[block]] with a title and minutes, and pass --people FILE",
            )
        calendar = BlockCalendar(session.sources[0])
        found = calendar.read(session)
        there, deleted = known.compared(found, now, until)
        with PersonFile(hub, session.person, read_only=True) as person:
            kept = appointments(session, person)
        if not is_read_only:
            known.note_found(there, found)
            _deleted(known, deleted, asking, session.texts, session)
        if back:
            changes, missing = _taken_back(known, back, now), list[Said]()
        else:
            left = [one for one in wanted if one.title.casefold() not in known.never]
            rules = Rules(session.limits, session.home, now, until, session.person, known.skipped)
            arrangement = Arrangement.of(left, there, kept, rules)
            changes, missing = arrangement.changes, [_at_home(one, session) for one in arrangement.missing]
        if not out.json:
            _show(changes, missing, session, out)
        agreed = not is_read_only and (
            not changes or not asking.ask(texts("prompt_write"), ("somebody", "stop", "leave"))
        )
        written = list[Change]()
        place: Said | str = ""
        if agreed:
            known.note(changes)
            if known.unwritten:
                places = {one.title: one.place for one in wanted}
                written, place = calendar.write(known.unwritten, places)
                known.note_written(written, found)
        if out.json:
            record = {"changes": [_plain(one, session) for one in changes], "written": len(written)}
            out.data({**record, "missing": [Texts.of().say(one) for one in missing], "output": Texts.of().say(place)})
        elif written:
            out.line(f"{texts('label_written')}   {texts.say(place)}")
            if calendar.file is not None:
                out.note(texts("blocks_import"))
        elif changes:
            out.note(texts("blocks_not_written"))


def _deleted(known: BlockFile, deleted: Sequence[Placed], asking: Asking, texts: Texts, session: Session) -> None:
    """Ask once about what the person deleted, and remember it."""
    for one in deleted:
        words = texts("block_deleted", title=one.title, when=one.start.astimezone(session.home))
        answer = asking.ask(f"{words}  {texts('prompt_deleted')}", ("always", "undo"))
        if answer == "undo":
            known.want([one.uid])
            continue
        known.note([Change(one.uid, one.title, one.span, None, Said("block_by_you", {"by": ""}))])
        known.skip([one.uid], [one.title.casefold()] if answer == "always" else [])


def _last_month(known: BlockFile) -> list[Run]:
    return [run for run in reversed(known.runs) if run.at >= datetime.now(UTC) - _SHOWN]


def _taken_back(known: BlockFile, back: int, now: datetime) -> list[Change]:
    """The changes that undo a run: the latest is 1."""
    runs = _last_month(known)
    if back > len(runs):
        raise UsageError(f"there is no change {back} in the last month", fix="pass a number that --history shows")
    found = []
    for change in runs[back - 1].changes:
        placed = known.placed.get(change.uid)
        is_there = (None if placed is None else placed.span) == change.now
        past = [span for span in (change.was, change.now) if span is not None and span[0] <= now]
        if is_there and not past:
            found.append(Change(change.uid, change.title, change.now, change.was, Said("block_taken_back", {"by": ""})))
    return found


def _show(changes: Sequence[Change], missing: Sequence[Said], session: Session, out: Out) -> None:
    texts = session.texts
    for change in changes:
        out.line(_line(change, session))
    for one in missing:
        label = texts("label_clash" if one.name == "block_clash" else "label_no_room")
        out.line(f"{label:{_width(texts)}}  {texts.say(one)}")
    if not changes and not missing:
        out.line(texts("blocks_unchanged"))


def _line(change: Change, session: Session) -> str:
    """What becomes of a block, in a line."""
    texts, now, was = session.texts, change.now, change.was
    label = "label_new" if was is None else "label_removed" if now is None else "label_moved"
    span = now or was
    assert span is not None
    start, end = (moment.astimezone(session.home) for moment in span)
    words = f"{texts.date('moment', start)} - {end:%H:%M}   {change.title}"
    if was is not None and now is not None:
        words += f"   {texts('block_was', when=was[0].astimezone(session.home))}"
    why = texts.say(change.why) if change.why is not None else ""
    words += f"{texts('colon')}{why}" if why else ""
    return f"{texts(label):{_width(texts)}}  {words}"


def _width(texts: Texts) -> int:
    labels = ("label_new", "label_moved", "label_removed", "label_no_room", "label_clash")
    return max(len(texts(label)) for label in labels)


def _at_home(one: Said, session: Session) -> Said:
    """A text with its moments in the person's zone."""
    values = one.fields.items()
    return Said(one.name, {name: v.astimezone(session.home) if isinstance(v, datetime) else v for name, v in values})


def _show_history(known: BlockFile, session: Session, out: Out) -> None:
    runs = _last_month(known)
    if out.json:
        out.data([{"at": run.at.isoformat(), "changes": [_plain(one, session) for one in run.changes]} for run in runs])
        return
    for number, run in enumerate(runs, start=1):
        out.line(f"{number:3}  {session.texts.date('moment', run.at.astimezone(session.home))}")
        for change in run.changes:
            out.line(f"     {_line(change, session)}")
    if runs:
        out.note(session.texts("blocks_undo_hint"))
    else:
        out.line(session.texts("blocks_unchanged"))


def _plain(change: Change, session: Session) -> dict[str, Any]:
    was, now = (
        None if span is None else [moment.astimezone(session.home).isoformat() for moment in span]
        for span in (change.was, change.now)
    )
    why = "" if change.why is None else Texts.of().say(change.why)
    return {"id": change.uid, "title": change.title, "was": was, "now": now, "why": why}
