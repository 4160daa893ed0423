"""Words of titles, places and reasons in six languages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw_calendar.language.texts import LANGUAGES
from agentfw_calendar.language.wording import reasons
from agentfw_calendar.language.words import Kind, named

NEUTRAL = {"min": "60", "due": "none", "place": "room", "series": "none", "notice": "planned", "hold": "none"}
EVENTS = [
    {**NEUTRAL, "letter": "A", "who": "peer", "by": "peer", "size": "4", "topic": "delivery", "urgency": "normal"},
    {**NEUTRAL, "letter": "B", "who": "client,peer", "by": "client", "size": "2", "topic": "people", "urgency": "high"},
]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("Zahnärztin", "titles", "topic=personal"),
        ("ZAHNAERZTIN", "titles", "topic=personal"),
        ("Zahnarzttermin", "titles", "hold=fixed"),
        ("Weihnachtsfeier", "titles", "topic=social"),
        ("Medico", "titles", "topic=personal"),
        ("Reunión con clientes", "titles", "topic=outreach"),
        ("Déjeuners d'équipe", "titles", "topic=social"),
        ("Echeance du dossier", "titles", "due=today"),
        ("1:1 mit Jonas", "titles", "topic=people"),
        ("Besprechungsraum Ulm", "locations", "place=room"),
        ("Salle Pasteur", "locations", "place=room"),
        ("Videollamada", "locations", "place=video"),
        ("Visita dal dentista", "titles", "who=doctor"),
        ("Recita della figlia", "titles", "who=family"),
        ("Ferie in Sardegna", "titles", "away"),
        ("Trasferta a Milano", "titles", "away"),
        ("Sala riunioni", "locations", "place=room"),
        ("Consulta com a médica", "titles", "who=doctor"),
        ("Reunião de pais", "titles", "who=family"),
        ("Férias no Algarve", "titles", "away"),
        ("Viagem a Lisboa", "titles", "away"),
        ("Videochamada", "locations", "place=video"),
        ("non può aspettare", "reasons", "urgency=high"),
        ("no puede esperar", "reasons", "urgency=high"),
        ("não pode esperar", "reasons", "urgency=high"),
        ("può aspettare", "reasons", "urgency=low"),
        ("das ist wirklich dringend", "reasons", "urgency=high"),
        ("das ist nicht so dringend", "reasons", "urgency=low"),
        ("ça peut attendre", "reasons", "urgency=low"),
        ("ça ne peut pas attendre", "reasons", "urgency=high"),
        ("no se puede mover", "reasons", "hold=fixed"),
        ("meine Gesundheit geht vor", "reasons", "who=doctor"),
        ("my friends matter", "reasons", "who=friend"),
        ("les amis d'abord", "reasons", "who=friend"),
        ("I don't have to be there", "reasons", "hold=optional"),
    ],
)
def test_words_are_read_in_six_languages(text: str, kind: Kind, expected: str) -> None:
    assert expected in named(text, kind)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Training", "hold=fixed"),
        ("Requirements review", "hold=must"),
        ("Dinner for three persons", "topic=personal"),
        ("Call for papers", "place=phone"),
        ("Appel à projets", "place=phone"),
        ("Maschine messen", "topic=outreach"),
        ("Prüfungsamt", "hold=fixed"),
        ("Como siempre", "topic=social"),
        ("Mon dîner", "week"),
        ("Reunión diaria", "who=friend"),
        ("Progetto in corso", "topic=learning"),
        ("De qualquer forma", "topic=learning"),
        ("Encontrar-nos pessoalmente", "topic=personal"),
    ],
)
def test_similar_words_of_another_meaning_or_language_are_not_taken_for_them(text: str, wrong: str) -> None:
    assert wrong not in named(text, "titles")


@pytest.mark.parametrize(
    ("why", "accepted", "expected"),
    [
        ("der Kunde geht vor", "B", ["+who=client"]),
        ("no client comes to that one", "A", ["-who=client"]),
        ("urgent, et le client vient", "B", ["+who=client", "+urgency=high"]),
        ("los compañeros vienen", "B", []),
        ("gut feeling", "B", []),
    ],
)
def test_which_events_have_it_decides_what_a_reason_says(why: str, accepted: str, expected: list[str]) -> None:
    assert reasons(why, EVENTS, accepted) == expected


FAMILY_FIRST = {
    "en": "family first",
    "de": "Familie geht vor",
    "fr": "la famille d'abord",
    "es": "la familia es lo primero",
    "it": "prima la famiglia",
    "pt": "a família em primeiro lugar",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_family_first_is_understood_in_each_language(language: str) -> None:
    dinner, meeting = {**EVENTS[0], "who": "family", "topic": "personal"}, EVENTS[1]

    assert "+who=family" in reasons(FAMILY_FIRST[language], [dinner, meeting], "A")


@pytest.mark.slow
def test_a_reason_is_learned_from(calendar: Callable[..., Any], ics_file: Callable[..., Path], tmp_path: Path) -> None:
    times = "DTSTART:20261123T090000Z\nDURATION:PT1H"
    path = ics_file(
        f"UID:a\n{times}\nSUMMARY:Kundenbesuch\nLOCATION:Ulm\nATTENDEE:mailto:joe@acme.example",
        f"UID:b\n{times}\nSUMMARY:Besprechung\nATTENDEE:mailto:bob@lab.example\nATTENDEE:mailto:eve@lab.example",
    )
    (tmp_path / "people.toml").write_text('"acme.example" = "client"\n')

    def learned(answer: str) -> list[str]:
        hub = f"{len(answer)}.db"
        given = ("--people", "people.toml", "--hub", hub)
        found: list[str] = calendar("decide", path, *given, answers=answer)["strategies"]
        return found

    silent, said = learned("a\n"), learned("a: der Kunde geht vor\n")

    assert silent == [], "one choice among events that differ in so much says little"
    assert said[0].startswith("a client comes +")
