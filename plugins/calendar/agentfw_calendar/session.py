"""One session: reads calendars, proposes and asks about their conflicts, and writes what was decided.

All errors in what was given are reported before the first question. Several calendars are one agenda: an event in one
can conflict with an event in another.

    session = Session.open([FileSource(path)], Wishes())
    asyncio.run(session.play(policy, person, known))
    session.write()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cached_property
from typing import Any

from agentfw import Engagement, Episode, Policy, PolicyAgent, Task
from agentfw.errors import UsageError
from agentfw.printing.out import Out
from agentfw.request import Sampling

from .deciding.answers import Person
from .deciding.calendar_reading import Dates, busy_times
from .deciding.conflicts import Agenda
from .deciding.environment import Outcome, RealConflicts
from .deciding.free_times import Hours, days_off
from .deciding.household import Household
from .deciding.people import About, People, owner_of, surname_of
from .deciding.person_file import PersonFile
from .deciding.precedents import facts
from .deciding.proposals import Declined, Limits, other_times
from .ics.ics_events import home_of
from .ics.ics_lines import FileLines
from .ics.occurrences import BLOCK
from .ics.sources import Part, Source
from .language.texts import Said, Texts
from .language.words import most_spoken
from .marking import Marking


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person wants to look at."""

    days: int = 28
    since: date | None = None
    """First day. Default: today."""
    owner: str = ""
    zone: str = ""
    about: About = field(default_factory=About)
    """What the person's file says."""
    hours: Hours = field(default_factory=lambda: Hours.parse("09:00-17:00"))
    """Working hours, in which other times are proposed."""
    busy: Mapping[str, Source] = field(default_factory=dict)
    """Where it is said when other people are busy, by address."""
    language: str = ""
    """What is said to the person is in this language. Default: what their file says, or that of the calendar."""


class Session:
    """Calendars and the decisions about them."""

    def __init__(
        self,
        sources: Sequence[Source],
        people: People,
        home: tuple[tzinfo, str],
        span: tuple[datetime, datetime],
        dates: Dates,
        limits: Limits,
        wishes: Wishes,
    ) -> None:
        self.sources, self.people, self.limits, self.wishes = sources, people, limits, wishes
        self.home, self.zone = home
        self.since, self.until = span
        self.parts, self.events, self.problems = dates.dated, dates.events, dates.problems
        dated = (one for _, found in self.parts for one in found)
        self.found = sorted(dated, key=lambda one: (one.start, one.end, one.key))
        self.agenda = self._agenda()
        self.household = Household.of(dates.dated, people, wishes.about.family)
        self.outcomes: list[Outcome] = []
        self.stopped = False
        self.undone: list[str] = []
        """Titles that were kept until their answers were taken back."""
        self._drafted: list[dict[str, Any]] | None = None
        self.changed_meanwhile: list[str] = []
        """Titles of conflicts that aren't written, because somebody changed their events during the session."""

    @classmethod
    def open(cls, sources: Sequence[Source], wishes: Wishes) -> Session:
        """Read the calendars. One that can't be read is an error; an event that can't be read is a problem."""
        with Out().progress("reading the calendars"):
            parts = _read(sources, wishes)
        return cls._of(parts, sources, wishes)

    @classmethod
    def _of(cls, parts: Sequence[Part], sources: Sequence[Source], wishes: Wishes) -> Session:
        lines = (line for part in parts for line in part.lines.physical)
        whole = parts[0].lines if len(parts) == 1 else FileLines(b"\n".join(lines))
        home, zone = home_of(whole, wishes.zone)
        first = wishes.since or datetime.now(home).date()
        try:
            since = datetime.combine(first, time(), home).astimezone(UTC)
            until = datetime.combine(first + timedelta(days=wishes.days), time(), home).astimezone(UTC)
        except OverflowError:
            raise UsageError(
                f"{wishes.days} days from {first} go beyond the year 9999", fix="choose another --from"
            ) from None
        span = (since, until)
        dates = Dates.read(parts, span, home)
        owner = owner_of(whole, wishes.owner)
        people = People(owner, wishes.about.relations, surname_of(whole, owner))
        off = days_off(dates.dated, wishes.about.country, span, home)
        others = busy_times(wishes.busy, first, wishes.days, span, home, dates.problems)
        limits = Limits(wishes.hours, wishes.about.travel, off, others)
        return cls(sources, people, (home, zone), span, dates, limits, wishes)

    def _agenda(self) -> Agenda:
        """Flexible blocks are in no conflict: they move by themselves."""
        return Agenda([one for one in self.found if not one.entry.uid.startswith(BLOCK)], self.people, self.home)

    @property
    def person(self) -> str:
        """Name of the person's hub."""
        return self.people.owner or "me"

    @cached_property
    def texts(self) -> Texts:
        """What is said to the person, in their language."""
        chosen = self.wishes.language or self.wishes.about.language
        # Of the whole calendar: the next four weeks may happen to be in another language.
        blocks = (block for part, _ in self.parts for block in part.lines.blocks("VEVENT"))
        return Texts.of(chosen or most_spoken(block.first_text("SUMMARY") for block in blocks))

    async def play(
        self,
        policy: Policy,
        person: Person,
        known: PersonFile,
        *,
        sampling: Sampling | None = None,
        window: int | None = None,
        anew: bool = False,
    ) -> Episode:
        """Play all conflicts. Each answer is on disk before the next question.

        After an undo the episode begins again with all answers but that one, so nothing learned from it remains.
        """
        known.memory.editable = known.memory.editable and person.is_person
        settled: dict[frozenset[str], Outcome] = {}
        if person.is_person:
            self._learn_by_hand(known)
        try:
            while True:
                environment = RealConflicts(
                    self.agenda, person, known, self.home, anew=anew, settled=settled, household=self.household
                )
                self.outcomes = environment.outcomes
                agent = PolicyAgent(policy, memories=[known.memory], sampling=sampling, window=window)
                episode = await Engagement(environment, agent).run(Task(0, 0, self.person))
                self.stopped = environment.stopped
                if not environment.undo:
                    if person.is_person:
                        left = [one for one in map(environment.left, self.outcomes) if one["seen"]]
                        known.note_open(left, self._identities)
                    return episode
                last = settled.popitem()[1] if settled else None
                same = [last]  # an absence is one answer about several
                while last and settled and settled[next(reversed(settled))].question.number == last.question.number:
                    same.append(settled.popitem()[1])
                for outcome in same:
                    if outcome is None or outcome.kept is not None or outcome.both:
                        decision = known.undo()
                        self.undone += [] if decision is None else [_title_kept(decision)]
                self.agenda = self._agenda()
        finally:
            await policy.close()

    @property
    def _identities(self) -> list[str]:
        return [source.identity for source in self.sources]

    def _learn_by_hand(self, known: PersonFile) -> None:
        """Of two events that were left, one was moved, declined or deleted since: the other was kept."""
        if known.left_open["sources"] != self._identities:
            return
        there = {one.key: one.start.isoformat() for one in self.agenda.kept()}
        for conflict in known.left_open["conflicts"]:
            seen = conflict["seen"]
            is_ahead = all(self.since <= datetime.fromisoformat(one["start"]) < self.until for one in seen.values())
            stays = [key for key, one in seen.items() if there.get(key) == one["start"]]
            if is_ahead and len(seen) == 2 and len(stays) == 1:
                known.note_by_hand(conflict, conflict["letters"][stays[0]])

    def other_times(self) -> list[dict[str, Any]]:
        """Another time for what was declined, and a draft for each series. After writing: for what was written."""
        return self._drafted if self._drafted is not None else self._other_times(self.outcomes)

    def _other_times(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
        within = (max(self.since, datetime.now(UTC)), self.until)
        away = self.agenda.is_away
        declined = [
            Declined(one, outcome.move, outcome.kept is not None and away(outcome.kept))
            for outcome in outcomes
            for one in outcome.declined
        ]
        return other_times(declined, self.agenda.kept(), self.people, self.home, within, self.limits)

    def write(self, known: PersonFile) -> list[Said | str]:
        """Write what was decided to what is there now. Returns where it is, and what couldn't be written."""
        now = self._read_again()
        known.written.read_again()
        marking = Marking(now.parts, self.sources, known, now.people, now.home, datetime.now(UTC))
        for outcome in now.outcomes:
            marking.decline(outcome)
        new = [outcome for outcome in now.outcomes if not self._is_drafted(outcome, known)]
        asked = {each.one.key for outcome in self.outcomes for each in outcome.question.candidates}
        written = marking.write(asked)
        self._drafted = now._other_times([outcome for outcome in new if not marking.refused(outcome)])
        if self.changed_meanwhile:
            written.append(Said("not_written", {"count": len(self.changed_meanwhile)}))
        return written

    @staticmethod
    def _is_drafted(outcome: Outcome, known: PersonFile) -> bool:
        """Whether an earlier session drafted a message about this: for these dates, or once for the series."""
        earlier = known.written.marks
        uids = {one.entry.uid for one in outcome.declined} if outcome.known and outcome.scope else set()
        keys = {one.key for one in outcome.declined}
        return outcome.known and any(noted.mark.key in keys or noted.uid in uids for noted in earlier)

    def _read_again(self) -> Session:
        """The session with the calendars as they are now, and the decisions about what is still the same."""
        wishes = replace(self.wishes, since=self.since.astimezone(self.home).date())
        parts = _read(self.sources, wishes)
        if [part.lines.physical for part in parts] == [part.lines.physical for part, _ in self.parts]:
            # A large calendar takes a while to read, and the events of the same text are the same.
            dated = [(part, found) for part, (_, found) in zip(parts, self.parts, strict=True)]
            dates, home, span = Dates(dated, self.events, []), (self.home, self.zone), (self.since, self.until)
            now = Session(self.sources, self.people, home, span, dates, self.limits, wishes)
        else:
            now = Session._of(parts, self.sources, wishes)
        there = {(one.key, one.start): one for one in now.agenda.kept()}
        for outcome in self.outcomes:
            group = [each.one for each in outcome.question.candidates]
            found = [there.get((one.key, one.start)) for one in group]
            is_same = all(
                new is not None and facts(new, now.people, now.home) == facts(old, self.people, self.home)
                for old, new in zip(group, found, strict=True)
            )
            if is_same:
                current = dict(zip(map(id, group), found, strict=True))
                kept = None if outcome.kept is None else current[id(outcome.kept)]
                declined = tuple(one for old in outcome.declined if (one := current[id(old)]) is not None)
                now.outcomes.append(replace(outcome, kept=kept, declined=declined))
                now.agenda.decline(declined)
            elif outcome.declined:
                self.changed_meanwhile.append(", ".join(one.entry.title for one in outcome.declined))
        return now

    def record(self) -> dict[str, Any]:
        """Everything found and decided, as plain values."""
        return {
            "calendars": [source.name for source in self.sources],
            "person": self.person,
            "zone": self.zone,
            "from": self.since.astimezone(self.home).date().isoformat(),
            "until": self.until.astimezone(self.home).date().isoformat(),
            "events": self.events,
            "conflicts": [_recorded(outcome, self.home) for outcome in self.outcomes],
            "declined": sum(len(outcome.declined) for outcome in self.outcomes),
            "other_times": self.other_times(),
            "undone": self.undone,
            "stopped": self.stopped,
            "problems": [
                {"file": one.file, "line": one.line, "event": one.what, "why": one.why} for one in self.problems
            ],
        }


def _read(sources: Sequence[Source], wishes: Wishes) -> list[Part]:
    return [part for source in sources for part in source.read(wishes.since or date.today(), wishes.days)]


def _title_kept(decision: Mapping[str, Any]) -> str:
    titles = [str(event["title"]) for event in decision["events"] if decision["accepted"] in ("", event["letter"])]
    return ", ".join(titles)


def _recorded(outcome: Outcome, home: tzinfo) -> dict[str, Any]:
    question, english = outcome.question, Texts.of()
    return {
        "events": [
            {
                "letter": each.letter,
                "title": each.title,
                "start": each.one.start.astimezone(home).isoformat(),
                "end": each.one.end.astimezone(home).isoformat(),
                "key": each.one.key,
                "tags": each.tags,
            }
            for each in question.candidates
        ],
        "proposed": question.proposed,
        "reason": question.because(english),
        "kept": next((each.letter for each in question.candidates if each.one is outcome.kept), ""),
        "why": outcome.why,
        "both": outcome.both,
        "scope": outcome.scope,
        "decided_before": outcome.known,
        "changed": [english.say(change) for change in question.before.changed] if question.before is not None else [],
    }
