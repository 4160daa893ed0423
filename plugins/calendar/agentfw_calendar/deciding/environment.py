"""A person's own calendar as an environment: conflicts from a file, and answers from the person.

What the policy decides is a proposal; what the person answers is the truth. So every policy of the benchmark works here
on the same lines, and the person's answer takes the place of the feedback.

    environment = RealConflicts(agenda, person, known, home)
    await Engagement(environment, agent).run(Task(0, 0, "ana@lab.example"))

Before the first conflict an agent is shown `past`: what the person decided in earlier sessions, the tags as data and
the last few as text. Nothing takes time here: the next conflict comes when the last is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from string import ascii_uppercase
from typing import Any

from agentfw import Environment, Intervention, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, Letter, with_letters
from agentfw_plugins.worlds.calendar.event_attributes import event_line

from ..ics.occurrences import Occurrence
from ..language.texts import Texts
from ..language.wording import AWAY, reasons
from .answers import Answer, Candidate, Kind, Person, Question
from .conflicts import Agenda
from .household import Household
from .person_file import PersonFile
from .precedents import Facts, Precedent, facts, precedent
from .preferences import Preferences
from .tagging import about, tags
from .trips import Absence

MOST_CONFLICTS = 200
"""Maximum number of questions per session; the next session continues."""
_TURNS = 4
_MOST_AT_ONCE = 25
"""Maximum number of events in one question."""
_SURE, _KNOWN = 0.65, 10
"""How sure a choice has to be to be asked about with others, and after how many decisions."""
_AT_FIRST = "past: nothing was decided yet; most people keep health, family and what can't be moved."
_TOLD = 5
"""Number of past decisions shown as text."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One conflict and what was decided."""

    question: Question
    kept: Occurrence | None
    """None if all were left as they are."""
    declined: tuple[Occurrence, ...]
    why: str
    known: bool
    """Whether it follows from an earlier decision and wasn't asked about."""
    both: bool = False
    """Whether all events are kept, and aren't asked about again."""
    scope: str = ""
    move: bool = False


class RealConflicts(Environment):
    """See `CalendarConflicts`: an agent is told the same."""

    headline = "changed"
    lower_is_better = True

    def __init__(
        self,
        agenda: Agenda,
        person: Person,
        known: PersonFile,
        home: tzinfo,
        *,
        anew: bool = False,
        settled: dict[frozenset[str], Outcome] | None = None,
        household: Household | None = None,
    ) -> None:
        self.household = household or Household()
        self.agenda, self.person, self.known, self.home, self.anew = agenda, person, known, home, anew
        self.settled: dict[frozenset[str], Outcome] = {} if settled is None else settled
        """What was decided in this session, by the keys of the events. It isn't asked again."""
        self.outcomes: list[Outcome] = []
        self.stopped = False
        """Whether conflicts remain that were not asked about."""
        self.undo = False
        """Whether the person takes back their last answer."""
        self._rest = False
        """Whether the person takes all proposals that follow, unseen."""

    def goal(self) -> str:
        return CalendarConflicts().goal()

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._number = self._turns = self._changed = 0
        self._decided = False
        self._question: Question | None = None
        self._leave_to_others()
        # What is assumed at first, and pinned, comes before the decisions.
        rounds, told = self.known.rounds, self.known.choices[-_TOLD:]
        lines = [f"pinned: {preference.said(Texts.of())}" for preference in self.known.pinned]
        lines += [_told(decision) for decision in told]
        world.observe("past", {"rounds": rounds}, text="\n".join(lines or [_AT_FIRST]))
        self._open()

    @action
    def decide(self, accept: Letter, ranking: list[Letter] = [], reason: str = "") -> None:  # noqa: B006
        """Keep one event and decline the others.

        accept: the letter of the event to keep
        ranking: the letters of all events, the one to keep first
        reason: why, in a few words
        """
        assert self._question is not None
        letters = [candidate.letter for candidate in self._question.candidates]
        if accept not in letters:
            raise InterventionRefused(f"there is no event {accept}; there is {', '.join(letters)}")
        self._decided = True
        self._ask(accept, reason)

    def intervene(self, intervention: Intervention) -> None:
        if intervention.name == "decide":
            if self._question is None:
                raise InterventionRefused("no conflict is open; the next one comes by itself")
            intervention = with_letters(intervention)
        super().intervene(intervention)

    def turned(self, turn: Turn) -> None:
        if self.stopped:
            return
        if self._decided:
            self._decided = False
            self._open()
            return
        self._turns += 1
        left = _TURNS - self._turns
        if left == 0:
            self._ask("", "")
            self._open()
        elif not turn.calls:
            words = f"undecided: {left} more turn{'s' if left > 1 else ''} for this conflict."
            self.world.observe("undecided", {"round": self._number, "turns_left": left}, text=words)

    def outcome(self) -> Mapping[str, float]:
        asked = [outcome for outcome in self.outcomes if not outcome.known]
        return {
            "changed": self._changed / max(1, len(asked)),
            "conflicts": float(len(self.outcomes)),
            "declined": float(sum(len(outcome.declined) for outcome in self.outcomes)),
        }

    def _open(self) -> None:
        """Show the next conflict that the person hasn't decided before."""
        if self.stopped:
            return
        for absence in self.agenda.absences:
            if not self._stays_away(absence):
                return
        if self._number == 0 and not self._as_usual():
            return
        while (group := self.agenda.next()) is not None:
            if unclear := self._unclear(group):
                if not self._ask_whose(unclear[0], group):
                    return
                continue
            settled = self.settled.get(frozenset(one.key for one in group))
            if settled is not None:
                self._settle(settled)
                continue
            before = precedent(self._precedents(), self._facts(group), self.home)
            if before is None or before.changed:
                break
            self._settle_as_before(group, before)
        if group is None or self._number == MOST_CONFLICTS:
            self.stopped = group is not None
            self._end()
            return
        self._number, self._turns = self._number + 1, 0
        self._question = self._lettered(group, before)
        self.world.round(self._number, of=self._number - 1 + self._question.of - len(self.settled))
        data, text = self._conflict(self._question)
        self.world.observe("conflict", data, text=text)

    def _precedents(self) -> Sequence[Mapping[str, Any]]:
        """The decisions that count: all of them, or those of this session if everything is asked anew."""
        if not self.anew:
            return self.known.decisions
        return [decision for decision in self.known.decisions if decision.get("session") == self.known.session]

    def _others(self, group: Sequence[Occurrence], kept: Occurrence | None) -> tuple[Occurrence, ...]:
        """What is declined if one event is kept."""
        return tuple(one for one in group if kept and one is not kept and not self.agenda.is_away(one))

    def _facts(self, group: Sequence[Occurrence]) -> dict[str, Facts]:
        return {one.key: facts(one, self.agenda.people, self.home) for one in group}

    def _lettered(self, group: Sequence[Occurrence], before: Precedent | None = None) -> Question:
        candidates = tuple(
            Candidate(letter, one, tags(one, self.agenda.people, self.home))
            for letter, one in zip(ascii_uppercase, group, strict=False)
        )
        to_come = self.agenda.remaining(MOST_CONFLICTS - self._number)
        also = tuple(self.agenda.that_day(group))
        # After an undo the episode begins again, but the person goes on where they were.
        number = len({outcome.question.number for outcome in self.settled.values()}) + 1
        return Question(number, max(number, number - 1 + to_come), candidates, also, "", "", before)

    def _conflict(self, question: Question) -> tuple[dict[str, Any], str]:
        """A conflict as values and as text, as the benchmark has it."""
        first = min(candidate.one.start for candidate in question.candidates).astimezone(self.home)
        when = f"{first:%a %H:%M}"
        lines = [f"conflict: {first:%d %B}, {when}, for the owner"]
        also = [
            {
                "start": "all day" if one.entry.all_day else f"{one.start.astimezone(self.home):%H:%M}",
                "title": "busy",  # a server gets no titles of events that it needn't decide about
            }
            for one in question.also
        ]
        if also:
            lines.append("also that day: " + ", ".join(f"{event['start']} {event['title']}" for event in also))
        lines += [event_line(each.letter, each.title, each.tags) for each in question.candidates]
        events = self._events(question)
        data = {
            "round": self._number,
            "week": first.isocalendar().week,
            "when": when,
            "user": "",
            "role": "",
            "organisation": "",
            "archetype": "",
            "events": events,
            "also": also,
        }
        return data, "\n".join(lines)

    def _ask(self, proposed: str, reason: str) -> None:
        """Ask the person, save the answer, and report it."""
        assert self._question is not None
        asked = self._question
        question = replace(asked, proposed=proposed, reason=" ".join(reason.split()))
        self._question = None
        is_seen = self.person.is_person and not self._rest
        answer = self._answer(question)
        if answer is None:
            return
        self._changed += answer.keep != proposed
        self.world.measure("changed", float(answer.keep != proposed))
        if answer.both:
            self.known.note_both(self._decision(question, answer))
        if not answer.keep:
            self._decide(Outcome(question, None, (), answer.why, False, answer.both, answer.scope))
            self.person.told(question, answer, (), ())
            self.world.observe("left", {"round": self._number}, text="left: all of them stay as they are.")
            return
        kept = question.candidate(answer.keep)
        others = self._others([each.one for each in question.candidates], kept.one)
        outcome = Outcome(question, kept.one, others, answer.why, False, scope=answer.scope, move=answer.move)
        if not is_seen:
            # Nothing is learned from a proposal that nobody looked at.
            self._decide(outcome)
            self.person.told(question, answer, others, ())
            self.world.observe("taken", {"round": self._number}, text="taken: nobody was asked about this one.")
            return
        decision = self._decision(question, answer)
        said = reasons(answer.why, decision["events"], answer.keep)
        learned = self.known.note({**decision, "kept": kept.one.key, "accepted": answer.keep, "reasons": said})
        self._decide(outcome)
        self.person.told(question, answer, others, learned)
        self._feedback(question, answer, said)

    def _answer(self, question: Question) -> Answer | None:
        """What the person says; None if they stop here or take something back."""
        answer = Answer(question.proposed) if self._rest else self.person.answer(question)
        self._rest = self._rest or answer.rest
        if answer.stop or answer.undo:
            self.stopped, self.undo = True, answer.undo
            self._end()
            return None
        return answer

    def _stays_away(self, absence: Absence) -> bool:
        """Ask once about all that somebody can't come to, as they are away. False if they stop here.

        No policy is asked: whoever is away doesn't come, but for what they went to in spite of it before.
        """
        away = absence.said_by
        for one in self.agenda.within(absence):
            pair = [away, one]
            settled = self.settled.get(frozenset(each.key for each in pair))
            before = precedent(self._precedents(), self._facts(pair), self.home)
            if settled is not None:
                self._settle(settled)
            elif before is not None and not before.changed:
                self._settle_as_before(pair, before)
        while there := self._missed(absence)[:_MOST_AT_ONCE]:
            goes = [one for one in there if self._goes(absence, one)]
            if not self._ask_at_once([(away, one) for one in there], goes, absence):
                return False
        return True

    def _missed(self, absence: Absence) -> list[Occurrence]:
        """What somebody can't come to. A child swims while a parent is on leave, and somebody else may go along."""
        goes, family = self.known.goes, self.household.of_somebody_else
        return [
            one
            for one in self.agenda.within(absence)
            if not family(one) or (absence.is_trip and goes.get(one.entry.title.casefold()))
        ]

    def _as_usual(self) -> bool:
        """Ask at once about all where it is likely what the person keeps. False if they stop here."""
        if len(self._precedents()) < _KNOWN:
            return True
        preferences = Preferences(self.known.rounds)
        ahead, usual = self.agenda.ahead(), list[tuple[Occurrence, Occurrence]]()
        while len(usual) < _MOST_AT_ONCE and (group := ahead.next()) is not None:
            is_open = frozenset(one.key for one in group) not in self.settled
            is_open = is_open and not self._unclear(group)
            is_open = is_open and precedent(self._precedents(), self._facts(group), self.home) is None
            choice = preferences.choice(self._events(self._lettered(group)))
            if is_open and len(group) == 2 and choice.sure >= _SURE:
                usual.append((group[choice.place], group[1 - choice.place]))
            ahead.keep(group, group[choice.place])
        return len(usual) < 2 or self._ask_at_once(usual, [], None)

    def _unclear(self, group: Sequence[Occurrence]) -> list[Occurrence]:
        """Those of which nobody has said yet whether the person goes there, or somebody else."""
        return [one for one in self.household.unclear(group) if one.entry.title.casefold() not in self.known.goes]

    def _ask_whose(self, one: Occurrence, group: Sequence[Occurrence]) -> bool:
        """Ask who goes to an event, and remember it for all of this title. False if the person stops here."""
        question = replace(
            self._lettered([one]), also=tuple(other for other in group if other is not one), kind="whose"
        )
        answer = self._answer(question) if self.person.is_person and not self._rest else Answer("")
        if answer is None:
            return False
        if not answer.keep and not answer.both:
            self.agenda.leave(group)
            return True
        self.known.note_both({**self._decision(question, answer), "goes": bool(answer.keep)})
        self.settled[frozenset((one.key,))] = Outcome(question, None, (), "", False, True)
        self._leave_to_others()
        self.person.told(question, answer, (), ())
        return True

    def _leave_to_others(self) -> None:
        """What somebody else goes to takes none of the person's time."""
        self.agenda.decline(
            [one for one in self.agenda.kept() if self.known.goes.get(one.entry.title.casefold()) is False]
        )

    def _ask_at_once(
        self,
        pairs: Sequence[tuple[Occurrence, Occurrence]],
        goes: Sequence[Occurrence],
        absence: Absence | None,
    ) -> bool:
        """Ask which of the second ones are kept; those in `goes` are proposed. False if the person stops here."""
        shown = [pairs[0][0], *(one for _, one in pairs)]
        question = self._lettered(shown)
        kept = "".join(each.letter for each in question.candidates[1:] if each.one in goes)
        instead = () if absence else self._lettered([one for one, _ in pairs]).candidates
        kind: Kind = "away" if absence else "usual"
        reason = AWAY if absence else ""
        question = replace(question, also=(), proposed=kept or "A", reason=reason, kind=kind, instead=instead)
        is_seen = self.person.is_person and not self._rest
        answer = self._answer(question)
        if answer is None:
            return False
        self._changed += answer.keep != question.proposed
        self.world.measure("changed", float(answer.keep != question.proposed))
        declined = list[Occurrence]()
        for (first, second), each in zip(pairs, question.candidates[1:], strict=True):
            chosen = replace(answer, keep=answer.keep and ("B" if each.letter in answer.keep else "A"))
            asked = replace(
                self._lettered([first, second]),
                number=question.number,
                proposed="B" if each.letter in question.proposed else "A",
                reason=question.reason,
            )
            keeping = {"": None, "A": first, "B": second}[chosen.keep]
            others = self._others([first, second], keeping)
            declined += others
            decision = {**self._decision(asked, chosen), "trip": absence is not None and absence.is_trip}
            if is_seen and keeping is not None:
                self.known.note({**decision, "kept": keeping.key, "accepted": chosen.keep, "reasons": []})
            elif is_seen and answer.both:
                self.known.note_both(decision)
            self._decide(Outcome(asked, keeping, others, answer.why, False, answer.both))
        self.person.told(question, answer, declined, ())
        return True

    def _goes(self, absence: Absence, one: Occurrence) -> bool:
        """Whether it is proposed to go there in spite of an absence: as in the last one of this kind, else where it is
        unclear that it clashes."""
        for decision in reversed(self.known.choices):
            if decision.get("away") and decision.get("trip") == absence.is_trip:
                for key, seen in decision["seen"].items():
                    if key != decision["away"] and one.entry.title == seen["title"]:
                        return bool(decision["kept"] == key)
        return absence.judged(one) == "unclear"

    def _decision(self, question: Question, answer: Answer) -> dict[str, Any]:
        """What is kept of an answer, besides what was chosen."""
        away = next((each.one.key for each in question.candidates if self.agenda.is_away(each.one)), None)
        return {
            "away": away,
            "keys": sorted(each.one.key for each in question.candidates),
            "seen": self._facts([each.one for each in question.candidates]),
            "events": self._events(question),
            "proposed": question.proposed,
            "why": answer.why,
            "scope": answer.scope,
            "move": answer.move,
        }

    def _events(self, question: Question) -> list[dict[str, str]]:
        return [
            {"letter": each.letter, "title": each.title, **each.tags, "about": about(each.one, self.agenda.people)}
            for each in question.candidates
        ]

    def left(self, outcome: Outcome) -> dict[str, Any]:
        """What is kept of a conflict that was left undecided; nothing of others."""
        if outcome.kept is not None or outcome.both:
            return {"seen": {}}
        candidates = outcome.question.candidates
        return {
            "seen": self._facts([each.one for each in candidates]),
            "events": self._events(outcome.question),
            "letters": {each.one.key: each.letter for each in candidates},
        }

    def _decide(self, outcome: Outcome) -> None:
        """Settle a conflict that was asked about."""
        self.settled[frozenset(each.one.key for each in outcome.question.candidates)] = outcome
        self._settle(outcome)

    def _settle_as_before(self, group: Sequence[Occurrence], before: Precedent) -> None:
        keeping = next((one for one in group if one.key == before.kept), None)
        others, is_both = self._others(group, keeping), before.kept is None
        self._settle(Outcome(self._lettered(group), keeping, others, "", True, is_both, before.scope, before.move))

    def _settle(self, outcome: Outcome) -> None:
        group = [candidate.one for candidate in outcome.question.candidates]
        if outcome.kept is None:
            self.agenda.leave(group)
        else:
            self.agenda.keep(group, outcome.kept)
        self.outcomes.append(outcome)

    def _feedback(self, question: Question, answer: Answer, said: list[str]) -> None:
        right = answer.keep == question.proposed
        self.world.utility(float(right), "proposed what the person keeps")
        if not question.proposed:
            verdict = f"none, nothing was taken and {answer.keep} is kept."
        else:
            kept = f"{answer.keep} is kept."
            verdict = f"right, {kept}" if right else f"wrong, {question.proposed} was taken and {kept}"
        data = {
            "round": self._number,
            "accepted": answer.keep,
            "chosen": question.proposed,
            "right": right,
            "because": {"principle": "", "valued": True},
            "said": answer.why,
            "reasons": said,
        }
        self.world.observe(
            "feedback", data, text=f'feedback: {verdict} "{answer.why}"' if answer.why else f"feedback: {verdict}"
        )

    def _end(self) -> None:
        self.world.finish(**self.outcome())


def _told(decision: Mapping[str, Any]) -> str:
    """A past decision in a line."""
    events, accepted = decision["events"], decision["accepted"]
    (kept,) = [event["title"] for event in events if event["letter"] == accepted]
    others = "; ".join(event["title"] for event in events if event["letter"] != accepted)
    why = f' "{decision["why"]}"' if decision.get("why") else ""
    return f"past: {kept} was kept, and not {others}.{why}"
