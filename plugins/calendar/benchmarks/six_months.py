"""Six months of `--yes` before a person answers: how often they then take what is proposed.

    python plugins/calendar/benchmarks/six_months.py
    python plugins/calendar/benchmarks/six_months.py --persons 4 --months 2 --json

Twenty persons with hidden principles, the users of the calendar benchmark, have a generated year as an .ics file. A
session looks at four weeks at a time, as by default. For the first six months nobody looks at the proposals; then each
person answers for three months by what they value. Acceptance is the share of these answers that take the proposal.

The first six months are lived in four ways, and all else is the same:

- nothing: the program isn't used;
- yes: `--yes`, from which nothing may be learned;
- unread: Enter at every proposal without reading it, which counts as the person's own answers;
- answers: the person really answers.

In a fifth row, "reasons", the first six months are as in "nothing", and each answer says why, in the words of the
benchmark's users.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from generated_ics import ics_of

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_calendar.deciding.answers import Answer, Candidate, Person, Question, TakesProposals
from agentfw_calendar.deciding.people import About
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset
from agentfw_plugins.worlds.calendar.organisation import User
from agentfw_plugins.worlds.calendar.policies import LinearPolicy
from agentfw_plugins.worlds.calendar.regular_year import FIRST_DAY

WAYS = ("nothing", "yes", "unread", "answers", "reasons")
DAYS = 28


class Answering:
    """Answers by what a user of the benchmark values."""

    is_person = True

    def __init__(self, user: User, *, talks: bool = False) -> None:
        self._user, self._talks = user, talks
        self._random = Random(user.id)

    def answer(self, question: Question) -> Answer:
        if question.kind == "usual":
            pairs = zip(question.instead, question.candidates[1:], strict=True)
            value = self._user.value
            return Answer("".join(b.letter for a, b in pairs if value(b.tags) > value(a.tags)) or "A")
        ranked = sorted(question.candidates, key=lambda each: self._user.value(each.tags), reverse=True)
        return Answer(ranked[0].letter, self._reason(ranked[0], ranked[1]) if self._talks else "")

    def _reason(self, kept: Candidate, other: Candidate) -> str:
        """Words about one thing that spoke for the kept event, or against the other."""
        differences = {}
        for name, weight in self._user.weights.items():
            principle = self._user.principles[name]
            if weight * (principle.triggers(kept.tags) - principle.triggers(other.tags)) > 0:
                differences[name] = weight
        if not differences:
            return ""
        (name,) = self._random.choices(list(differences), [abs(weight) for weight in differences.values()])
        principle = self._user.principles[name]
        return self._random.choice(principle.praise if differences[name] > 0 else principle.complaint)

    def told(self, *given: object) -> None:
        pass


class Unread(TakesProposals):
    """Presses Enter."""

    is_person = True


@dataclass(frozen=True)
class Life:
    """One person's calendar."""

    calendar: Calendar
    file: Path

    def session(self, month: int, person: Person, hub: Path) -> list[bool]:
        """Play four weeks. Returns for each question whether the proposal was taken."""
        user = self.calendar.user
        host = f"{user.id}.example"
        relations = {f"{other}@{host}": relation for other, relation in user.relations.items()}
        first = FIRST_DAY + timedelta(days=month * DAYS)
        wishes = Wishes(DAYS, first, f"{user.person}@{host}", "UTC", About(relations))
        session = Session.open([FileSource(self.file)], wishes)
        with PersonFile(hub, session.person) as known:
            asyncio.run(session.play(LinearPolicy(), person, known))
        return [
            outcome.kept is outcome.question.candidate(outcome.question.proposed).one
            for outcome in session.outcomes
            if not outcome.known and outcome.question.proposed
        ]

    def acceptance(self, way: str, before: int, after: int, folder: Path) -> float:
        """Acceptance after the first months were lived in this way."""
        hub = folder / f"{self.calendar.user.id}-{way}.db"
        answering = Answering(self.calendar.user, talks=way == "reasons")
        first: dict[str, Person] = {"yes": TakesProposals(), "unread": Unread(), "answers": answering}
        if way in first:
            for month in range(before):
                self.session(month, first[way], hub)
        taken = [one for month in range(before, before + after) for one in self.session(month, answering, hub)]
        return sum(taken) / len(taken)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        persons=(20, "number of persons"),
        months=(6, "sessions of four weeks before the answers"),
        answered=(3, "sessions with answers"),
        seed=(7, "seed of the persons"),
    ).parse_args(arguments)
    dataset = Dataset(options.seed, organisations={"train": 40, "validation": 4, "test": 4})
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for identity in dataset.users("test")[: options.persons]:
            calendar = dataset.calendar(dataset.user(identity))
            file = folder / f"{identity}.ics"
            file.write_bytes(ics_of(calendar))
            for way in WAYS:
                found[way].append(Life(calendar, file).acceptance(way, options.months, options.answered, folder))
    result = {name: getattr(options, name) for name in ("persons", "months", "answered")}
    ways = {
        way: {"acceptance": mean_of(one), "difference": difference_of(one, found["nothing"])}
        for way, one in found.items()
    }
    return tell({**result, "ways": ways}, options.json, show)


def show(result: dict[str, Any]) -> None:
    print("{persons} persons, {months} sessions before {answered} with answers, 95% intervals".format_map(result))
    rows = [[way, shown(row["acceptance"]), shown(row["difference"])] for way, row in result["ways"].items()]
    print_aligned(["", "acceptance", "difference to nothing"], rows)


if __name__ == "__main__":
    main()
