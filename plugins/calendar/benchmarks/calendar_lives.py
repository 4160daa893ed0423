"""Forty generated people of eight kinds, 26 weeks each: how often the proposal is right, and how much they are asked.

    python plugins/calendar/benchmarks/calendar_lives.py
    python plugins/calendar/benchmarks/calendar_lives.py --people 8 --weeks 4 --half seen
    python plugins/calendar/benchmarks/calendar_lives.py --blocks 1000

Each person decides by rules that nothing in the calendar names: what each thing in their life is worth to them (drawn
around what people of their kind find important), and two habits of their own, such as leaving early on a certain
weekday or a week of the month in which the accounts come first. Habits decide one clash in fifteen, so nobody is
predictable altogether. They have weekly series, single appointments, a leave and a trip. Four kinds were looked at
while the proposals were built; the other four (`held out`) were not.

A question is whatever interrupts the person once, also if it is about several clashes. A proposal is right if it is
what the person keeps. What is decided without asking is wrong if the person would have kept something else.

With `--blocks`, the weeks of people with 5 to 59 appointments, who want time to focus twice a week, sport three times
and two hours for a task until Thursday or Friday. It is planned on Monday, and on each day again after up to four
appointments have come up, been moved or been cancelled. Checked against the calendar by a search of its own are blocks
that clash, tasks that are late without that being said, and what is said to have no room though it has.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from datetime import UTC, date, datetime, time, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

from agentfw.printing.out import Out
from agentfw_benchmarks import Options, mean_of, tell
from agentfw_calendar.blocks.blocks_command import Asking, plan
from agentfw_calendar.deciding.answers import Answer, Question
from agentfw_calendar.deciding.people import About
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.deciding.preferences import PersonPolicy
from agentfw_calendar.ics.occurrences import Occurrence
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_calendar.session_command import Asked

FIRST = date(2027, 1, 4)
OWNER = "ana@lab.example"
BOSS, TEAM, CLIENT, OTHER = "maria@lab.example", "bob@lab.example", "joe@acme.example", "eve@else.example"
RELATIONS = {BOSS: "superior", "acme.example": "client"}
SPREAD = 0.7
Matter = tuple[float, str, str, Sequence[str]]
"""What it is worth, who calls it, where it is, and what it is called."""

KINDS: Mapping[str, Mapping[str, Matter]] = {
    "team lead": {
        "standup": (0.6, "self", "Room 4", ["Stand-up"]),
        "one to one": (1.2, "self", "", ["1:1 with Bob", "1:1 with Mia"]),
        "boss": (2.6, BOSS, "Room 1", ["Status with Maria", "Budget round"]),
        "focus": (-1.2, "", "", ["Focus time", "HOLD"]),
        "client": (2.2, CLIENT, "", ["Acme review", "Acme contract"]), "lunch": (-1.0, TEAM, "", ["Team lunch"]),
        "doctor": (3.6, "", "", ["Dentist", "Physio"]), "kids": (3.0, "", "", ["Parents evening", "School play"]),
    },
    "parent": {
        "kids": (3.2, "", "School", ["School play", "Parents evening", "Nativity play"]),
        "club": (1.8, "", "", ["Choir"]),
        "doctor": (3.4, "", "", ["Paediatrician", "Dentist"]),
        "boiler": (0.2, "", "", ["Boiler service", "Meter reading"]),
        "work": (1.0, TEAM, "Room 2", ["Shift planning", "Team meeting"]), "gym": (-0.4, "", "", ["Yoga", "Gym"]),
        "friends": (0.4, "", "", ["Coffee with friends"]), "boss": (2.2, BOSS, "", ["Review with Maria"]),
    },
    "freelancer": {
        "client": (2.6, CLIENT, "", ["Acme workshop", "Acme call"]), "pitch": (2.0, OTHER, "", ["Pitch", "First talk"]),
        "admin": (-0.8, "", "", ["Invoices", "Tax"]), "focus": (0.2, "", "", ["Writing", "Deep work"]),
        "sport": (0.0, "", "", ["Climbing", "Run"]), "family": (2.6, "", "", ["Lunch with mum", "Dad's birthday"]),
        "meetup": (-0.6, OTHER, "Hub", ["Meetup", "Webinar"]), "doctor": (3.4, "", "", ["Doctor"]),
    },
    "nurse": {
        "shift": (3.8, BOSS, "Ward 3", ["Early shift", "Late shift", "Night shift"]),
        "handover": (1.6, TEAM, "", ["Handover"]),
        "training": (0.4, BOSS, "Room 9", ["CPR training", "Hygiene course"]), "sleep": (0.8, "", "", ["Sleep"]),
        "family": (2.4, "", "", ["Pick up kids", "Dinner with mum"]), "friends": (0.2, "", "", ["Drinks with friends"]),
        "doctor": (2.8, "", "", ["Check-up"]), "union": (-0.4, OTHER, "", ["Works council"]),
    },
    "student": {
        "exam": (4.0, OTHER, "Hall A", ["Exam statistics", "Oral exam"]),
        "lecture": (1.0, OTHER, "Hall B", ["Lecture algebra"]),
        "seminar": (1.4, OTHER, "R 12", ["Seminar"]), "group": (0.6, TEAM, "", ["Study group", "Project group"]),
        "job": (2.2, BOSS, "", ["Café shift"]), "sport": (0.0, "", "", ["Football training", "Bouldering"]),
        "party": (-0.6, "", "", ["Party at Tim's", "Movie night"]), "family": (2.0, "", "", ["Call with grandma"]),
    },
    "retired": {
        "doctor": (3.6, "", "", ["Cardiologist", "Eye doctor"]),
        "grandchildren": (3.0, "", "", ["Grandchildren", "Leo's match"]),
        "choir": (1.8, OTHER, "Parish hall", ["Choir"]), "club": (0.6, OTHER, "", ["Chess club", "Book club"]),
        "errand": (-0.4, "", "", ["Car service", "Gardener"]), "friends": (1.0, "", "", ["Coffee with Rosa", "Cards"]),
        "course": (0.4, OTHER, "", ["Italian course"]), "walk": (-0.8, "", "", ["Walk", "Swim"]),
    },
    "consultant": {
        "client": (2.8, CLIENT, "Acme HQ", ["Acme steering", "Acme workshop"]),
        "internal": (0.0, TEAM, "", ["Practice call"]),
        "partner": (2.0, BOSS, "", ["Partner review"]), "sales": (1.4, OTHER, "", ["Proposal", "Prospect intro"]),
        "admin": (-1.2, "", "", ["Expenses", "Timesheet"]), "gym": (-0.6, "", "", ["Gym"]),
        "family": (2.4, "", "", ["Dinner with Paul", "Anniversary"]), "doctor": (3.2, "", "", ["Dentist"]),
    },
    "assistant for two": {
        "board": (3.2, BOSS, "Board room", ["Board meeting", "Supervisory board"]),
        "first": (2.2, BOSS, "", ["Dr Lang: investor"]),
        "second": (1.4, TEAM, "", ["Ms Weber: interview", "Ms Weber: jour fixe"]),
        "press": (1.0, OTHER, "", ["Press talk"]),
        "internal": (-0.2, TEAM, "", ["Team round"]), "catering": (-0.8, OTHER, "", ["Catering", "Room check"]),
        "private": (2.4, "", "", ["Kindergarten", "Vet"]), "training": (0.0, OTHER, "", ["Excel training"]),
    },
}  # fmt: skip
SEEN = ("team lead", "parent", "freelancer", "nurse")


class Person:
    """Somebody with hidden values and habits, who answers what is asked."""

    is_person = True

    def __init__(self, number: int) -> None:
        self.kind = list(KINDS)[number % len(KINDS)]
        self.chance = random.Random(f"life {number}")
        self.worth = {name: matter[0] + self.chance.gauss(0, SPREAD) for name, matter in KINDS[self.kind].items()}
        names = sorted(self.worth)
        self.early = (self.chance.randrange(5), self.chance.choice(names))
        """On this weekday, late, this comes first."""
        self.monthly = (self.chance.randrange(4), self.chance.choice(names))
        """In this week of each month, this comes first on Mondays."""
        self.what: dict[str, str] = {}
        self.agreed: dict[frozenset[str], int] = {}
        self.questions = self.absences = 0
        self.right: list[bool] = []
        self.away_right: list[bool] = []

    def value(self, one: Occurrence) -> float:
        what, start = self.what[one.entry.title], one.start
        found = self.worth[what]
        if start.weekday() == self.early[0] and start.hour >= 15 and what == self.early[1]:
            found += 6
        if (start.date() - FIRST).days // 7 % 4 == self.monthly[0] and start.weekday() == 0 and what == self.monthly[1]:
            found += 6
        return found

    def best(self, ones: Sequence[Occurrence]) -> Occurrence:
        return max(ones, key=self.value)

    def goes(self, one: Occurrence, away: Occurrence) -> bool:
        """Whether they go there in spite of it: to nothing from a trip, and from leave to what is private."""
        return "Trip" not in away.entry.title and not KINDS[self.kind][self.what[one.entry.title]][1]

    def answer(self, question: Question) -> Answer:
        self.questions += 1
        each = question.candidates
        if question.kind == "away":
            self.absences += 1
            kept = "".join(one.letter for one in each[1:] if self.goes(one.one, each[0].one)) or "A"
            self.away_right += [(one.letter in kept) == (one.letter in question.proposed) for one in each[1:]]
            return Answer(kept)
        if question.kind == "usual":
            pairs = list(zip(question.instead, each[1:], strict=True))
            right = [self.best([first.one, other.one]) is first.one for first, other in pairs]
            self.right += right
            return Answer(
                "".join(each[place + 1].letter for place, is_right in enumerate(right) if not is_right) or "A"
            )
        best = self.best([one.one for one in each])
        letter = next(one.letter for one in each if one.one is best)
        self.right.append(letter == question.proposed)
        titles = frozenset(one.title for one in each)
        self.agreed[titles] = self.agreed.get(titles, 0) + 1
        habits = {self.early[1], self.monthly[1]}
        is_series = all(one.one.of_series is not None for one in each)
        if is_series and self.agreed[titles] > 1 and habits.isdisjoint(self.what[title] for title in titles):
            return Answer(letter, scope="series")
        return Answer(letter)

    def told(self, *given: object) -> None:
        pass


def weeks_of(person: Person, weeks: int) -> list[str]:
    """The calendar in each week: the series, and that week's single events."""
    matters, chance = KINDS[person.kind], person.chance
    for name, (_, _, _, titles) in matters.items():
        person.what |= dict.fromkeys(titles, name)
    names = sorted(matters)
    series = []
    for number in range(3):
        start = datetime(2027, 1, 4 + chance.randrange(5), chance.choice((8, 10, 13, 15)))
        for side, name in enumerate(chance.sample(names, 2)):
            title = matters[name][3][0]
            series.append(
                event(f"s{number}{side}", start + timedelta(minutes=30 * side), title, matters[name], "WEEKLY")
            )
    found = []
    leave, trip = chance.sample(range(3, weeks), 2) if weeks > 5 else (-1, -1)
    for week in range(weeks):
        text, monday = list(series), datetime(2027, 1, 4) + timedelta(weeks=week)
        for number in range(chance.choice((1, 2, 2, 3))):
            start = monday + timedelta(days=chance.randrange(5), hours=chance.choice((9, 11, 14, 16)))
            for side, name in enumerate(chance.sample(names, 2)):
                title = chance.choice(matters[name][3])
                uid = f"w{week}-{number}{side}"
                text.append(event(uid, start + timedelta(minutes=30 * side), title, matters[name], ""))
        if week in (leave, trip):
            said = "Annual leave" if week == leave else "Trip to London"
            days = f"DTSTART;VALUE=DATE:{monday:%Y%m%d}\r\nDTEND;VALUE=DATE:{monday + timedelta(5):%Y%m%d}"
            text.append(f"BEGIN:VEVENT\r\nUID:away{week}\r\n{days}\r\nSUMMARY:{said}\r\nEND:VEVENT\r\n")
        found.append(f"BEGIN:VCALENDAR\r\nX-WR-TIMEZONE:UTC\r\n{''.join(text)}END:VCALENDAR\r\n")
    return found


def event(uid: str, start: datetime, title: str, matter: Matter, rule: str) -> str:
    _, by, place, _ = matter
    lines = [f"UID:{uid}", f"DTSTART:{start:%Y%m%dT%H%M%S}Z", "DURATION:PT1H", f"SUMMARY:{title}"]
    lines += [f"RRULE:FREQ={rule}"] if rule else []
    lines += [f"LOCATION:{place}"] if place else []
    organizer = OWNER if by == "self" else by
    lines += [f"ORGANIZER:mailto:{organizer}", f"ATTENDEE:mailto:{OWNER}"] if by else []
    lines += [f"ATTENDEE:mailto:{TEAM}"] if by in ("self", BOSS) else []
    return "".join(f"{line}\r\n" for line in ("BEGIN:VEVENT", *lines, "END:VEVENT"))


def lived(number: int, weeks: int, folder: Path) -> list[dict[str, float]]:
    person, found = Person(number), list[dict[str, float]]()
    for week, text in enumerate(weeks_of(person, weeks)):
        path = folder / f"{number}.ics"
        path.write_bytes(text.encode())
        session = Session.open(
            [FileSource(path)],
            Wishes(7, FIRST + timedelta(weeks=week), OWNER, "UTC", About(RELATIONS)),
        )
        before = (len(person.right), len(person.away_right), person.questions)
        with PersonFile(folder / f"{number}.db", OWNER) as known:
            asyncio.run(session.play(PersonPolicy(), person, known))
        wrong = by_itself = 0
        for outcome in session.outcomes:
            ones = [each.one for each in outcome.question.candidates]
            if outcome.known and outcome.kept is not None and not any(one.entry.all_day for one in ones):
                by_itself += 1
                wrong += outcome.kept is not person.best(ones)
        right, away = person.right[before[0] :], person.away_right[before[1] :]
        found.append({"proposals": len(right), "right": sum(right), "away": len(away), "away right": sum(away)})
        found[-1] |= {"questions": person.questions - before[2], "by itself": by_itself, "wrong": wrong}
    return found


SPANS = {"week 1": (0, 1), "weeks 2 to 10": (1, 10), "weeks 11 to 26": (10, 26)}


def measure(people: int, weeks: int, halves: Sequence[str], jobs: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    kinds = list(KINDS)
    for half in halves:
        numbers = [n for n in range(people) if (kinds[n % len(kinds)] in SEEN) == (half == "seen")]
        with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(jobs) as pool:
            lives = list(pool.map(lived, numbers, repeat(weeks), repeat(Path(name))))
        for span, (first, after) in SPANS.items():
            if first < weeks:
                result[f"{half}, {span}"] = figures([life[first:after] for life in lives])
    return result


def figures(lives: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Means over people, each by their own weeks."""

    def share(life: Sequence[Mapping[str, float]], part: str, whole: str) -> list[float]:
        count = sum(week[whole] for week in life)
        return [sum(week[part] for week in life) / count] if count else []

    away = [one for life in lives for one in share(life, "away right", "away")]
    return {
        "people": len(lives),
        "right": mean_of([one for life in lives for one in share(life, "right", "proposals")]),
        "absences right": mean_of(away) if away else None,
        "questions a week": mean_of([sum(week["questions"] for week in life) / len(life) for life in lives]),
        "wrong unasked": sum(week["wrong"] for life in lives for week in life),
        "decided without asking": sum(week["by itself"] for life in lives for week in life),
    }


WANTED = """
[[block]]
title = "Focus"
minutes = 90
times = 2
hours = "09:00-13:00"
[[block]]
title = "Sport"
minutes = 45
times = 3
hours = "{sport}"
[[block]]
title = "Report"
minutes = 120
until = {until}
"""
QUARTER = timedelta(minutes=15)
Span = tuple[datetime, datetime]


def week_of_blocks(number: int, folder: Path) -> dict[str, int]:
    """A week with its changes, through the command."""
    chance = random.Random(f"blocks {number}")
    monday, counts = datetime.combine(FIRST, time(), UTC), Counter[str]()
    taken = {str(place): _appointment(chance, monday, 0) for place in range(chance.randrange(5, 60))}
    until = FIRST + timedelta(days=chance.choice((3, 4)))
    sport = chance.choice(("07:00-09:00", "12:00-14:00", "17:00-20:00"))
    path = folder / f"week{number}.ics"
    people = folder / f"week{number}.toml"
    people.write_text(WANTED.format(sport=sport, until=until))
    hub = folder / f"week{number}.db"
    placed: dict[str, Span] = {}
    for day in range(5):
        for _ in range(chance.choice((0, 1, 2, 3, 4)) if day else 0):
            _comes_up(chance, taken, monday, day)
        blocks = "".join(
            f"BEGIN:VEVENT\nUID:{uid}\nDTSTART:{begin:%Y%m%dT%H%M%S}Z\nDTEND:{end:%Y%m%dT%H%M%S}Z\nSUMMARY:A\nEND:VEVENT\n"
            for uid, (begin, end) in taken.items()
        )
        path.write_text(f"BEGIN:VCALENDAR\nX-WR-TIMEZONE:UTC\n{blocks}END:VCALENDAR\n")
        now = monday + timedelta(days=day)
        asked = Asked(
            (str(path),), now.replace(tzinfo=None), OWNER, "UTC", people, hub, "09:00-17:00", "", Out(json=True)
        )
        with redirect_stdout(io.StringIO()) as said:
            plan(asked, 1, Asking(None, yes=True), history=False, back=0)
        found = json.loads(said.getvalue())
        for change in found["changes"]:
            placed.pop(change["id"], None)
            if change["now"]:
                begin, end = (datetime.fromisoformat(moment) for moment in change["now"])
                placed[change["id"]] = begin, end
            counts["placed"] += change["was"] is None
            counts["moved"] += change["was"] is not None and change["now"] is not None
        ahead = [span for span in placed.values() if span[0] > now]
        others = [*taken.values(), *placed.values()]
        counts["clashes"] += sum(_overlap(one, other) for one in ahead for other in others if one is not other)
        task = [span for span in placed.values() if span[1] - span[0] == 8 * QUARTER]
        missing = any(text.startswith("Report") for text in found["missing"])
        due = datetime.combine(until + timedelta(days=1), time(), UTC)
        counts["late, unsaid"] += due > now and not missing and not any(end <= due for _, end in task)
        counts["said to have no room"] += missing
        room = [now + QUARTER * step for step in range(1, 96 * 5)]
        room = [one for one in room if one.hour >= 9 and one + 8 * QUARTER <= min(due, one.replace(hour=17, minute=0))]
        is_free = any(not any(_overlap((one, one + 8 * QUARTER), other) for other in taken.values()) for one in room)
        counts["said though there is room"] += missing and is_free
    return dict(counts)


def _appointment(chance: random.Random, monday: datetime, first: int) -> Span:
    hours = chance.choice((7, 8, 9, 9, 10, 10, 11, 12, 13, 14, 14, 15, 16, 17, 18))
    begin = monday + timedelta(days=chance.randrange(first, 5), hours=hours) + QUARTER * chance.choice((0, 0, 2, 2, 1))
    return begin, begin + QUARTER * chance.choice((1, 2, 2, 4, 4, 4, 6, 8))


def _comes_up(chance: random.Random, taken: dict[str, Span], monday: datetime, day: int) -> None:
    """Something new, moved or cancelled from this day on."""
    ahead = sorted(uid for uid, span in taken.items() if span[0] >= monday + timedelta(days=day))
    kind = chance.choice(("new", "new", "moved", "cancelled")) if ahead else "new"
    if kind == "cancelled":
        del taken[chance.choice(ahead)]
    else:
        uid = f"n{len(taken)}-{day}" if kind == "new" else chance.choice(ahead)
        taken[uid] = _appointment(chance, monday, day)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def measure_blocks(weeks: int, jobs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(jobs) as pool:
        lives = list(pool.map(week_of_blocks, range(weeks), repeat(Path(name)), chunksize=10))
    names = ("placed", "moved", "clashes", "late, unsaid", "said to have no room", "said though there is room")
    total = {name: sum(life.get(name, 0) for life in lives) for name in names}
    moves = [life.get("moved", 0) / life["placed"] for life in lives if life.get("placed")]
    return {"weeks": weeks, **total, "moves a block": mean_of(moves)}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--weeks", type=int, default=26)
    parser.add_argument("--half", choices=("seen", "held out"), action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--blocks", type=int, default=0, help="plan this many weeks of flexible blocks instead")
    options = parser.parse_args(arguments)
    if options.blocks:
        return tell(measure_blocks(options.blocks, options.jobs), options.json)
    halves = options.half or ("seen", "held out")
    return tell(measure(options.people, options.weeks, halves, options.jobs), options.json)


if __name__ == "__main__":
    main()
