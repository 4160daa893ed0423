"""Thirty simulated people with work and family, over 26 weeks: what they accept, and how much they are asked.

    python plugins/calendar/benchmarks/calendar_people.py
    python plugins/calendar/benchmarks/calendar_people.py --people 3 --weeks 4

Each person speaks one of six languages and has values of their own for what an event
is about and who comes. They are drawn around a mean that puts health and family before work, so the first week measures
how well the proposals begin for people like that. Two pairs of weekly series clash every week. In one week of seven a
date of them is unlike the others: it is urgent, or about something else. One half of the figures is of people who
answer each question; the other is of the same people, who answer "always" where a series clashes with a series.
A decline that wasn't asked about is wrong if the person would have kept that event.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, mean_of, print_aligned, shown, tell
from agentfw_calendar.deciding.answers import Answer, Question
from agentfw_calendar.deciding.people import About
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

FIRST = date(2027, 1, 4)
MEANS = {
    "health": 3.0, "family": 2.4, "friends": 0.6, "boss": 1.6, "client": 1.5, "team": 0.4, "training": 0.1,
    "admin": -0.8, "social": -0.4, "urgent": 1.2,
}  # fmt: skip
SPREAD = 1.0
TITLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "en": {
        "health": ["Dentist", "Physio", "Doctor's appointment", "Vaccination"],
        "family": ["Parents evening", "Pick up the kids", "Dinner with mum", "School play"],
        "friends": ["Drinks with friends", "Reunion"], "boss": ["Status with Maria", "Planning with Maria"],
        "client": ["Review with Acme", "Acme contract"], "team": ["Standup", "Retro", "Design discussion"],
        "training": ["Workshop", "Training"], "admin": ["Expenses", "Timesheets"], "social": ["Team lunch", "Farewell"],
        "urgent": ["Urgent: outage"],
    },
    "de": {
        "health": ["Zahnarzt", "Physiotherapie", "Arzttermin", "Impfung"],
        "family": ["Elternabend", "Kinder abholen", "Essen mit Mama", "Schulaufführung"],
        "friends": ["Treffen mit Freunden", "Klassentreffen"], "boss": ["Status mit Maria", "Planung mit Maria"],
        "client": ["Abstimmung mit Acme", "Vertrag Acme"], "team": ["Standup", "Rückblick", "Entwurf besprechen"],
        "training": ["Schulung", "Seminar"], "admin": ["Reisekostenabrechnung", "Zeiterfassung"],
        "social": ["Mittagessen im Team", "Abschiedsfeier"], "urgent": ["Dringend: Ausfall"],
    },
    "fr": {
        "health": ["Dentiste", "Kiné", "Médecin", "Vaccin"],
        "family": ["Réunion parents professeurs", "Chercher les enfants", "Dîner avec maman", "Fête de l'école"],
        "friends": ["Verre avec des amis", "Soirée entre copains"], "boss": ["Point avec Maria", "Planning avec Maria"],
        "client": ["Revue avec Acme", "Contrat Acme"], "team": ["Mêlée", "Rétrospective", "Discussion technique"],
        "training": ["Formation", "Atelier"], "admin": ["Notes de frais", "Paperasse"],
        "social": ["Déjeuner d'équipe", "Pot de départ"], "urgent": ["Urgent : panne"],
    },
    "es": {
        "health": ["Dentista", "Fisioterapia", "Médico", "Vacuna"],
        "family": ["Reunión del colegio", "Recoger a los niños", "Cena con mamá", "Función de mi hija"],
        "friends": ["Copas con amigos", "Cena con amigas"], "boss": ["Seguimiento con Maria", "Plan con Maria"],
        "client": ["Revisión con Acme", "Contrato Acme"], "team": ["Reunión diaria", "Retrospectiva", "Diseño"],
        "training": ["Curso", "Taller"], "admin": ["Gastos", "Papeleo"], "social": ["Comida de equipo", "Despedida"],
        "urgent": ["Urgente: caída"],
    },
    "it": {
        "health": ["Dentista", "Fisioterapia", "Visita medica", "Vaccino"],
        "family": ["Riunione dei genitori", "Prendere i bambini", "Cena con mamma", "Recita di mia figlia"],
        "friends": ["Aperitivo con amici", "Cena di classe"], "boss": ["Punto con Maria", "Piano con Maria"],
        "client": ["Revisione con Acme", "Contratto Acme"], "team": ["Allineamento", "Retrospettiva", "Progetto"],
        "training": ["Corso", "Seminario"], "admin": ["Note spese", "Moduli"], "social": ["Pranzo", "Saluto a Luca"],
        "urgent": ["Urgente: guasto"],
    },
    "pt": {
        "health": ["Dentista", "Fisioterapia", "Consulta médica", "Vacina"],
        "family": ["Reunião de pais", "Buscar as crianças", "Jantar com a mãe", "Festa da escola"],
        "friends": ["Copos com amigos", "Jantar de turma"], "boss": ["Ponto com Maria", "Plano com Maria"],
        "client": ["Revisão com Acme", "Contrato Acme"], "team": ["Reunião diária", "Retrospetiva", "Desenho"],
        "training": ["Curso", "Seminário"], "admin": ["Despesas", "Papelada"], "social": ["Almoço", "Despedida"],
        "urgent": ["Urgente: avaria"],
    },
}  # fmt: skip
FROM = {"boss": "maria@lab.example", "client": "joe@acme.example", "team": "bob@lab.example"}
RELATIONS = {"maria@lab.example": "superior", "acme.example": "client"}
MORNINGS = (8, 10, 13, 15)


class Simulated:
    """A person with hidden values, who answers what is asked."""

    is_person = True

    def __init__(self, number: int, always: bool) -> None:
        self.chance = random.Random(number)
        self.language = list(TITLES)[number % len(TITLES)]
        self.values = {kind: mean + SPREAD * self.chance.gauss(0, 1) for kind, mean in MEANS.items()}
        self.always = always
        self.kinds: dict[str, str] = {}
        """What the events are about, by title."""
        self.asked: list[bool] = []

    def best(self, titles: Sequence[str]) -> str:
        return max(titles, key=lambda title: self.values[self.kinds[title]])

    def answer(self, question: Question) -> Answer:
        if question.kind == "usual":
            pairs = list(zip(question.instead, question.candidates[1:], strict=True))
            right = [self.best([first.title, other.title]) != other.title for first, other in pairs]
            self.asked += right
            letters = [other.letter for (_, other), is_right in zip(pairs, right, strict=True) if not is_right]
            return Answer("".join(letters) or "A")
        kept = self.best([each.title for each in question.candidates])
        letter = next(each.letter for each in question.candidates if each.title == kept)
        self.asked.append(letter == question.proposed)
        if self.always and all(each.one.of_series is not None for each in question.candidates):
            return Answer(letter, scope="always")
        return Answer(letter)

    def told(self, *given: object) -> None:
        pass

    def title(self, kind: str) -> str:
        chosen = self.chance.choice(TITLES[self.language][kind])
        self.kinds[chosen] = kind
        return chosen


def event(uid: str, start: datetime, title: str, kind: str, *lines: str) -> str:
    own = [f"UID:{uid}", f"DTSTART:{start:%Y%m%dT%H%M%S}Z", "DURATION:PT1H", f"SUMMARY:{title}"]
    if kind in FROM:
        own += [f"ORGANIZER:mailto:{FROM[kind]}", "ATTENDEE:mailto:ana@lab.example"]
    return "\r\n".join(["BEGIN:VEVENT", *own, *lines, "END:VEVENT", ""])


def year(person: Simulated, weeks: int) -> list[str]:
    """The calendar of each week: the series, that week's changed date, and its single events."""
    series, rule = [], "RRULE:FREQ=WEEKLY"
    for pair, (first, second) in enumerate((("boss", "team"), ("family", "client"))):
        start = datetime(2027, 1, 5 + pair, 9)
        for side, kind in enumerate((first, second)):
            series.append((f"s{pair}{side}", start + timedelta(minutes=30 * side), person.title(kind), kind))
    found = []
    for week in range(weeks):
        text = [event(uid, start, title, kind, rule) for uid, start, title, kind in series]
        if week % 7 == 6:
            uid, start, _, kind = person.chance.choice(series)
            other = person.title(person.chance.choice([one for one in ("urgent", "admin", "health") if one != kind]))
            day = start + timedelta(weeks=week)
            text.append(event(uid, day, other, "", f"RECURRENCE-ID:{day:%Y%m%dT%H%M%S}Z"))
        for number in range(2):
            kinds = person.chance.sample([kind for kind in MEANS if kind != "urgent"], 2)
            start = datetime(2027, 1, 7 + number, person.chance.choice(MORNINGS)) + timedelta(weeks=week)
            for side, kind in enumerate(kinds):
                uid = f"w{week}{number}{side}"
                text.append(event(uid, start + timedelta(minutes=30 * side), person.title(kind), kind))
        found.append(f"BEGIN:VCALENDAR\r\nX-WR-TIMEZONE:UTC\r\n{''.join(text)}END:VCALENDAR\r\n")
    return found


def lived(number: int, weeks: int, always: bool, folder: Path) -> list[dict[str, float]]:
    """One person's weeks: questions, accepted proposals, and declines that weren't asked about and are wrong."""
    person = Simulated(number, always)
    found = []
    for week, text in enumerate(year(person, weeks)):
        path = folder / "my.ics"
        path.write_bytes(text.encode())
        wishes = Wishes(7, FIRST + timedelta(weeks=week), "ana@lab.example", "UTC", About(RELATIONS))
        session = Session.open([FileSource(path)], wishes)
        person.asked = []
        with PersonFile(folder / f"{number}{always}.db", "ana@lab.example") as known:
            asyncio.run(session.play(LinearPolicy(), person, known))
        wrong = by_itself = 0
        for outcome in session.outcomes:
            titles = [each.title for each in outcome.question.candidates]
            if outcome.known and outcome.kept is not None:
                by_itself += 1
                wrong += outcome.kept.entry.title != person.best(titles)
        found.append({"questions": len(person.asked), "accepted": sum(person.asked), "wrong declines": wrong})
        found[-1]["decided without asking"] = by_itself
    return found


SPANS = {
    "week 1": (0, 1),
    "week 2": (1, 2),
    "weeks 3 and 4": (2, 4),
    "weeks 5 to 13": (4, 13),
    "weeks 14 to 26": (13, 26),
}


def measure(people: int, weeks: int, ways: Sequence[bool], jobs: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for always in ways:
        with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(jobs) as pool:
            folders = [Path(name) / str(number) for number in range(people)]
            for folder in folders:
                folder.mkdir()
            lives = list(pool.map(lived, range(people), repeat(weeks), repeat(always), folders))
        spans = {name: [life[first:after] for life in lives] for name, (first, after) in SPANS.items() if first < weeks}
        result["always" if always else "each answered"] = {name: figures(some) for name, some in spans.items()}
    return result


def figures(lives: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Means over people, each by their own weeks."""

    def total(life: Sequence[Mapping[str, float]], name: str) -> float:
        return sum(week[name] for week in life)

    asked = [life for life in lives if total(life, "questions")]
    return {
        "questions a week": mean_of([total(life, "questions") / len(life) for life in lives]),
        "accepted": mean_of([total(life, "accepted") / total(life, "questions") for life in asked]),
        "wrong declines": sum(total(life, "wrong declines") for life in lives),
        "decided without asking": sum(total(life, "decided without asking") for life in lives),
    }


def show(result: dict[str, Any]) -> None:
    columns = ("questions a week", "accepted", "wrong declines", "decided without asking")
    rows = [
        [way, name, *(shown(row[column]) for column in columns[:2]), *(f"{row[column]:.0f}" for column in columns[2:])]
        for way, spans in result.items()
        for name, row in spans.items()
    ]
    print_aligned(["", "", *columns], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--people", type=int, default=30)
    parser.add_argument("--weeks", type=int, default=26)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--each", action="store_true", help="only people who answer each question")
    options = parser.parse_args(arguments)
    ways = (False,) if options.each else (False, True)
    return tell(measure(options.people, options.weeks, ways, options.jobs), options.json, show)


if __name__ == "__main__":
    main()
