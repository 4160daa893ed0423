"""200 generated trips: is what belongs to a trip left alone, and what clashes at home found? And letters: is everybody
written to in their language?

    python plugins/calendar/benchmarks/calendar_trips.py
    python plugins/calendar/benchmarks/calendar_trips.py --trips 20 --forms seen
    python plugins/calendar/benchmarks/calendar_trips.py --letters 1200

A trip has flights or trains, a hotel, visits, dinners with those who are visited, and calls that are taken from there;
at home the week goes on with its series, private appointments and one-off meetings. Half of the forms in which people
write these down (`seen`) were looked at while the rules were written, the other half (`held out`) only here, after they
were. Whoever answers presses Enter. Counted are events of the trip that were declined, and of the events at home during
the trip the share that was asked about, and the share that was declined. What is asked about and stays is what the
calendar doesn't say clearly.

With `--letters`, people who call meetings in twelve languages are mixed in calendars of all twelve. Each has two to
four events, half of them one more whose title is the same in many languages, and one event has to be declined. Counted
are the drafts in the language of their events.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from agentfw_benchmarks import Options, mean_of, tell
from agentfw_calendar.deciding.answers import Answer, Question, TakesProposals
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.language.texts import LETTERS, Texts
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

FIRST = date(2098, 11, 3)
CITIES = {
    "seen": ["London", "Paris", "Wien", "Lisboa", "Milano", "Hamburg"],
    "held out": ["Zürich", "New York", "Oslo", "Kraków", "Ulm", "San Sebastián", "Rom"],
}
FORMS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "seen": {
        "trip": ["Trip to {city}", "Dienstreise {city}", "Business trip {city}", "Viaje a {city}", ""],
        "out": ["Flight to {city}", "LH 902 Berlin - {city}", "Flug nach {city}", "Train to {city}"],
        "back": ["Flight home", "LH 903 {city} - Berlin", "Rückflug", "Flight to Berlin"],
        "hotel": ["Hotel Ibis {city}", "Hotel", ""],
        "visit": ["Visit to {client}|{street}, {city}", "{client} in {city}|", "Workshop {client}|{city}"],
        "dinner": ["Dinner with Joe|", "Dinner|Restaurant Roma, {city}"],
        "call": ["Call with the team|", "Weekly sync|https://zoom.us/j/1"],
        "standup": ["Stand-up|", "Daily|Room 4"],
        "home": ["Design review|Room 2", "1:1 with Bob|", "Retro|Room 4", "Budget|Meeting room 1"],
        "private": ["Dentist|Hauptstr. 4, Berlin", "Parents evening|School, Berlin", "Yoga|"],
    },
    "held out": {
        "trip": ["{city} (travel)", "Messe {city}", "Déplacement à {city}", "In {city}", "Trasferta {city}", ""],
        "out": ["BER → {city} EW8464", "ICE 1005 {city}", "Vol AF1235 {city}", "Fly to {city}", "Volo per {city}"],
        "back": ["{city} → BER EW8465", "ICE 1006", "Vol retour", "Return flight", "Volo di ritorno"],
        "hotel": ["Check in: Motel One {city}", "Übernachtung {city}", "Stay at citizenM|{city}", ""],
        "visit": ["{client} kickoff|{client} HQ, {city}", "Kundentermin {client}|{street} {city}", "Site tour|{city}"],
        "dinner": ["Abendessen mit {client}|", "Dinner w/ client|", "Aperitivo|{city} centro"],
        "call": ["Jour fixe (remote)|Microsoft Teams", "Telefonat mit Mia|", "Sync|https://meet.google.com/x"],
        "standup": ["Morning huddle|", "Scrum|R 4.12", "Tagesrunde|Besprechungsraum 2"],
        "home": ["Interview candidate|Berlin office", "All hands|Auditorium", "Planungsrunde|Raum 3", "Kickoff Q1|"],
        "private": ["Zahnarzt|Praxis, Berlin", "Pick up kids|", "Choir|Gemeindehaus", "Elternabend|Grundschule"],
    },
}  # fmt: skip
CLIENTS = ["Acme", "Nordwind", "Globex", "Initech"]
STREETS = ["1 Baker St", "Rue 8", "Ring 12"]
OWNER = "ana@lab.example"


class Trip:
    """A calendar of four weeks with a trip in the second one."""

    def __init__(self, number: int, forms: str) -> None:
        self.chance = random.Random(f"{forms} {number}")
        self.forms, self.number = FORMS[forms], number
        self.fields = {
            "city": self.chance.choice(CITIES[forms]),
            "client": self.chance.choice(CLIENTS),
            "street": self.chance.choice(STREETS),
        }
        self.events: list[str] = []
        self.there: set[str] = set()
        self.here: set[str] = set()
        days = self.chance.choice((2, 3, 4))
        monday = datetime(2098, 11, 10)
        first = monday + timedelta(days=self.chance.randrange(3))
        last = first + timedelta(days=days - 1)
        joe = f"joe@{self.fields['client'].lower()}.example"
        leaves, comes = first + timedelta(hours=8), last + timedelta(hours=17)
        self._add("out", leaves, 120, self.there)
        self._add("back", comes, 120, self.there)
        trip = self._form("trip")
        hotel = self._form("hotel")
        if trip:
            self._all_day(trip, first, days)
        if hotel:
            title, _, place = hotel.partition("|")
            start, end = first + timedelta(hours=15), last + timedelta(hours=10)
            self._write(title, place, start, (end - start) // timedelta(minutes=1), self.there)
        for day in range(1, days):
            at = first + timedelta(days=day)
            if day < days - 1 or self.chance.random() < 0.5:
                self._add("visit", at + timedelta(hours=9), 150, self.there, joe)
            if day < days - 1:
                self._add("dinner", at + timedelta(hours=19), 120, self.there, joe)
        self._add("visit", first + timedelta(hours=13), 90, self.there, joe)
        self._add("call", last + timedelta(hours=15), 30, self.there, "bob@lab.example")
        for kind, hour, length in (("standup", 9, 15), ("home", 11, 60), ("private", 16, 45)):
            title, _, place = self._form(kind).partition("|")
            for week in range(4):
                for day in range(5) if kind == "standup" else [self.chance.randrange(5)]:
                    start = monday + timedelta(days=7 * (week - 1) + day, hours=hour, minutes=15)
                    away = leaves < start + timedelta(minutes=length) and start < comes + timedelta(hours=2)
                    named = title if kind == "standup" or not week else self._form(kind).partition("|")[0]
                    at = place if named == title else ""
                    people = [] if kind == "private" else ["bob@lab.example"]
                    uid = self._write(named, at, start, length, self.here if away else set(), *people)
                    if away and kind == "private" and not at:
                        self.here.discard(uid)  # yoga can be done anywhere: not counted
        self.text = "\r\n".join(
            [
                "BEGIN:VCALENDAR",
                f"X-WR-CALNAME:{OWNER}",
                "X-WR-TIMEZONE:Europe/Berlin",
                *self.events,
                "END:VCALENDAR",
                "",
            ]
        )

    def _form(self, kind: str) -> str:
        return self.chance.choice(self.forms[kind]).format(**self.fields)

    def _add(self, kind: str, start: datetime, minutes: int, side: set[str], *people: str) -> None:
        title, _, place = self._form(kind).partition("|")
        self._write(title, place, start, minutes, side, *people)

    def _write(self, title: str, place: str, start: datetime, minutes: int, side: set[str], *people: str) -> str:
        uid = f"e{len(self.events)}"
        side.add(uid)
        lines = [f"UID:{uid}", f"DTSTART;TZID=Europe/Berlin:{start:%Y%m%dT%H%M%S}", f"DURATION:PT{minutes}M"]
        lines += [f"SUMMARY:{title}"] + ([f"LOCATION:{place}".replace(",", "\\,")] if place else [])
        lines += [f"ATTENDEE:mailto:{one}" for one in (*people, OWNER)] if people else []
        lines += [f"ORGANIZER:mailto:{people[0]}"] if people else []
        self.events += ["BEGIN:VEVENT", *lines, "END:VEVENT"]
        return uid

    def _all_day(self, title: str, first: datetime, days: int) -> None:
        lines = ["UID:trip", f"DTSTART;VALUE=DATE:{first:%Y%m%d}", f"DTEND;VALUE=DATE:{first + timedelta(days):%Y%m%d}"]
        self.events += ["BEGIN:VEVENT", *lines, f"SUMMARY:{title}", "END:VEVENT"]


def played(trip: Trip, folder: Path) -> dict[str, Any]:
    path = folder / "my.ics"
    path.write_bytes(trip.text.encode())
    session = Session.open([FileSource(path)], Wishes(28, FIRST, OWNER, "Europe/Berlin"))
    with PersonFile(folder / f"{trip.number}.db", OWNER, read_only=True) as known:
        asyncio.run(session.play(LinearPolicy(), TakesProposals(), known))
    declined = {one.entry.uid for outcome in session.outcomes for one in outcome.declined}
    asked = {each.one.entry.uid for outcome in session.outcomes for each in outcome.question.candidates}
    return {
        "asked about": len(asked & trip.here),
        "declined": sorted(declined & trip.there),
        "found": len(declined & trip.here),
        "at home": len(trip.here),
        "missed": sorted(trip.here - declined),
        "titles": {one.entry.uid: one.entry.title for one in session.found},
    }


def measure(trips: int, forms: Sequence[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for some in forms:
            lived = [played(Trip(number, some), Path(name)) for number in range(trips // len(forms))]
            titles = [one["titles"][uid] for one in lived for uid in one["declined"]]
            missed = [one["titles"][uid] for one in lived for uid in one["missed"]]
            result[some] = {
                "trips": len(lived),
                "events of a trip declined": len(titles),
                **{
                    f"clashes at home {name}": mean_of([one[key] / one["at home"] for one in lived if one["at home"]])
                    for name, key in (("found", "asked about"), ("declined", "found"))
                },
                "declined": sorted(set(titles)),
                "missed": sorted(set(missed)),
            }
    return result


EVERYWHERE = ["Budget 2099", "Sync", "Review", "Jour fixe", "Update", "SAP", "Workshop", "Demo", "1:1", "Meeting"]
AT_ONCE = 12


class KeepsOwn:
    """Keeps what nobody else called, and declines the rest."""

    is_person = True

    def answer(self, question: Question) -> Answer:
        return Answer(next(each.letter for each in question.candidates if each.one.entry.organizer is None))

    def told(self, *given: object) -> None:
        pass


def letters(number: int, titles: Mapping[str, Sequence[str]], folder: Path) -> list[tuple[str, str]]:
    """The languages of twelve people, one each, with those of the drafts to them."""
    chance = random.Random(number)
    events, monday = list[str](), datetime(2098, 11, 3)
    for place, title in enumerate(chance.sample(titles[LETTERS[number % len(LETTERS)]], 8)):
        events.append(
            f"UID:own{place}\nDTSTART:{monday + timedelta(days=place, hours=7):%Y%m%dT%H%M%S}Z\nSUMMARY:{title}"
        )
    for place, language in enumerate(chance.sample(LETTERS, AT_ONCE)):
        said = chance.sample(titles[language], chance.choice((2, 3, 4)))
        said += chance.sample(EVERYWHERE, chance.choice((0, 1)))
        chance.shuffle(said)
        for count, title in enumerate(said):
            start = monday + timedelta(days=place, hours=9 + 2 * count)
            organizer = f"ORGANIZER;CN=P{place}:mailto:p{place}@{language}.example"
            events.append(f"UID:{place}-{count}\nDTSTART:{start:%Y%m%dT%H%M%S}Z\nSUMMARY:{title}\n{organizer}")
        events.append(f"UID:x{place}\nDTSTART:{start:%Y%m%dT%H%M%S}Z\nSUMMARY:X")
    blocks = "\n".join(f"BEGIN:VEVENT\n{one}\nDURATION:PT1H\nEND:VEVENT" for one in events)
    path = folder / "letters.ics"
    path.write_text(f"BEGIN:VCALENDAR\n{blocks}\nEND:VCALENDAR\n", "utf-8")
    session = Session.open([FileSource(path)], Wishes(28, FIRST, OWNER, "UTC"))
    with PersonFile(folder / f"letters{number}.db", OWNER) as known:
        asyncio.run(session.play(LinearPolicy(), KeepsOwn(), known))
    written = [one for one in session.other_times() if one["message"]]
    return [(one["organizer"].partition("@")[2].partition(".")[0], written_in(one["message"])) for one in written]


def written_in(message: str) -> str:
    """The language whose draft this is: all that it has between what is filled in is there."""
    parts = {name: re.split(r"{\w+}", str(Texts.of(name).said["draft_one"])) for name in LETTERS}
    return next((name for name in LETTERS if all(part in message for part in parts[name])), "")


def measure_letters(count: int, forms: Sequence[str]) -> dict[str, Any]:
    titles = yaml.safe_load((Path(__file__).parent / "titles.yaml").read_text("utf-8"))
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for some in forms:
            calendars = range(count // len(forms) // AT_ONCE)
            drafts = [one for number in calendars for one in letters(number, titles[some], Path(name))]
            wrong = sorted({f"{right} {written}" for right, written in drafts if right != written})
            right = mean_of([float(right == written) for right, written in drafts])
            result[some] = {"letters": len(drafts), "in the right language": right, "wrong": wrong}
    return result


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--trips", type=int, default=200)
    parser.add_argument("--forms", choices=tuple(FORMS), action="append")
    parser.add_argument("--letters", type=int, default=0, help="write this many letters instead")
    options = parser.parse_args(arguments)
    if options.letters:
        return tell(measure_letters(options.letters, options.forms or tuple(FORMS)), options.json)
    return tell(measure(options.trips, options.forms or tuple(FORMS)), options.json)


if __name__ == "__main__":
    main()
