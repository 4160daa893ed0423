"""What a person reads is in the language of their calendar or the one they choose; what they write is understood."""

from __future__ import annotations

import asyncio
import re
import string
from collections.abc import Callable, Mapping
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentfw_calendar.deciding.answers import Answer, AnswersGiven, understood
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.language.texts import LANGUAGES, LETTERS, Texts
from agentfw_calendar.language.wording import reason_in_words
from agentfw_calendar.language.words import Kind, named
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.event_attributes import RULES
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

from .events import Calendar, IcsFile, event

OTHERS = [language for language in LANGUAGES if language != "en"]
PACKAGE = Path(str(files("agentfw_calendar.language")))
DATES = ("day", "day_and_year", "date", "moment", "draft_date")


def given(language: str) -> dict[str, dict[str, Any]]:
    text = PACKAGE.joinpath("texts", f"{language}.yaml").read_text("utf-8")
    found: dict[str, dict[str, Any]] = yaml.load(text, Loader=yaml.BaseLoader)
    return found


def forms(text: str | Mapping[str, str]) -> Mapping[str, str]:
    return {"": text} if isinstance(text, str) else text


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", OTHERS)
def test_each_language_has_every_text_with_the_same_fields(language: str) -> None:
    own, english = given(language), given("en")

    assert {part: set(texts) for part, texts in own.items()} == {part: set(texts) for part, texts in english.items()}
    for name, text in english["said"].items():
        if name not in DATES:  # a language may leave out the weekday
            theirs, ours = forms(own["said"][name]), forms(text)
            assert {form: fields(theirs[form]) for form in theirs} == {form: fields(ours[form]) for form in ours}, name
    counts = {name: len(texts) for name, texts in own["dates"].items() if isinstance(texts, list)}
    assert counts == {"weekdays": 7, "short": 7, "months": 12}


@pytest.mark.parametrize("language", LETTERS)
def test_each_language_of_letters_has_all_of_a_draft(language: str) -> None:
    own, english = given(language), given("en")

    assert (len(own["dates"]["weekdays"]), len(own["dates"]["months"])) == (7, 12)
    for name, text in english["said"].items():
        # A name isn't always written as it is.
        if name.startswith("draft_") and name not in ("draft_date", "draft_hello"):
            assert fields(own["said"][name]) == fields(text), name
    assert {"day", "month", "time"} <= fields(own["said"]["draft_date"])


# Titles that belong to no language, so that only the program's own words differ.
LEAVE = "UID:leave\nDTSTART;VALUE=DATE:20991106\nSUMMARY:OOO\nX-MICROSOFT-CDO-BUSYSTATUS:OOF"
IN_IT = event("in", "20991106T1000", "XY 1")
PEOPLE = "ORGANIZER;CN=Joe:mailto:joe@acme.example\nATTENDEE:mailto:ana@lab.example"
SERIES = event("s", "20991102T0900", "XY 2", "RRULE:FREQ=WEEKLY;COUNT=2")
CLASH = event("c", "20991102T0930", "XY 3", "RRULE:FREQ=WEEKLY;COUNT=2", PEOPLE)
BROKEN = "UID:b\nSUMMARY:XY 4"


@pytest.fixture
def agentfw(calendar_session: Calendar, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Call `agentfw calendar`, and return everything that it prints."""
    monkeypatch.setenv("COLUMNS", "300")  # no line is broken

    def call(command: str, *words: object, answers: str | None = None) -> str:
        said = calendar_session(command, *words, answers=answers, since="2099-11-02")
        assert said.code == 0
        return f"{said.out}{said.err}"

    return call


def everything(agentfw: Callable[..., str], path: Path, language: str) -> list[str]:
    """What a person reads who decides, looks at what is known, and takes everything back."""
    hub = ("--hub", f"{language}.db", "--language", language)
    said = agentfw("list", path, *hub)
    said += agentfw("decide", path, *hub, "--output", f"{language}.ics", answers="a\nb series\n")
    changed = path.read_text().replace("XY 1", "XY 5").encode()
    path.with_name("changed.ics").write_bytes(changed)
    said += agentfw("list", path.with_name("changed.ics"), *hub)
    said += agentfw("me", *hub) + agentfw("undo", "--list", *hub) + agentfw("undo", *hub) + agentfw("undo", *hub)
    return said.splitlines()


def test_no_line_of_a_session_is_english_in_another_language(agentfw: Callable[..., str], ics_file: IcsFile) -> None:
    path = ics_file(LEAVE, IN_IT, SERIES, CLASH, BROKEN)
    english = everything(agentfw, path, "en")

    for language in OTHERS:
        other = everything(agentfw, path, language)

        words = re.compile(r"[a-z]{2,} [a-z]{2,}")
        same = [line for line in other if line in english and words.search(line.replace("agentfw calendar", ""))]
        assert len(other) == len(english), language
        assert [line for line in same if "has no DTSTART" not in line] == [], language


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_help_and_the_prompt_offer_is_understood(ics_file: IcsFile, tmp_path: Path, language: str) -> None:
    texts = Texts.of(language)
    found = Session.open([FileSource(ics_file(SERIES, CLASH))], Wishes(since=date(2099, 11, 2)))
    with PersonFile(tmp_path / "hub.db", "ana@lab.example") as known:
        asyncio.run(found.play(LinearPolicy(), AnswersGiven("a\n", "test"), known))
    question = found.outcomes[0].question
    rows = [re.split(r"  +", line)[0] for line in texts("help").splitlines()]
    both, later, series, always, move, undo, stop, rest = rows[2:]
    named = [words.split(" ", 1)[1] for words in texts("prompt_answers", default="", letters="").split(", ")[2:5]]
    again = re.findall('["„«] ?(.+?) ?["“»]', texts("clash_again"))

    def read(*words: str) -> list[Answer]:
        return [understood(one, question) for one in words]

    assert read(both, rest) == [Answer("", both=True), Answer(question.proposed, rest=True)]
    of_series = [Answer("B", scope="series"), Answer("", both=True, scope="series")]
    assert read(f"b {series}", f"{both} {series}") == read(*again) == of_series
    assert read(f"b {always}", f"B {always} : Acme") == [Answer("B", why, scope="always") for why in ("", "Acme")]
    assert read(f"b {move}") == [Answer("B", scope="series", move=True)]
    assert read(later, undo, stop) == read(*named) == [Answer(""), Answer("", undo=True), Answer("", stop=True)]


def test_a_language_is_found_or_chosen(agentfw: Callable[..., str], ics_file: IcsFile, tmp_path: Path) -> None:
    german = ics_file(IN_IT.replace("XY 1", "Sitzung mit dem Vorstand"), IN_IT.replace("UID:in", "UID:z"))
    words = ("list", german)
    (tmp_path / "people.toml").write_text('[me]\nlanguage = "es"\n')

    assert "Vorschlag: A behalten" in agentfw(*words)
    assert "propuesta: mantener A" in agentfw(*words, "--people", "people.toml")
    assert "proposed: keep A" in agentfw(*words, "--people", "people.toml", "--language", "en")

    agentfw("decide", german, answers="a\n")
    assert "1 Entscheidung" in agentfw("me")
    assert "1 Entscheidung zurückgenommen" in agentfw("undo")
    assert "0 Entscheidungen" in agentfw("me"), "also when nothing is left"


# -- words of titles, places and reasons in six languages -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("ZAHNAERZTIN", "titles", "topic=personal"),
        ("Reunión con clientes", "titles", "topic=outreach"),
        ("Echeance du dossier", "titles", "due=today"),
        ("1:1 mit Jonas", "titles", "topic=people"),
        ("Visita dal dentista", "titles", "who=doctor"),
        ("Consulta com a médica", "titles", "who=doctor"),
        ("Videochamada", "locations", "place=video"),
        ("non può aspettare", "reasons", "urgency=high"),
        ("das ist nicht so dringend", "reasons", "urgency=low"),
        ("no se puede mover", "reasons", "hold=fixed"),
        ("meine Gesundheit geht vor", "reasons", "who=doctor"),
        ("la famille d'abord", "reasons", "who=family"),
        ("a família em primeiro lugar", "reasons", "who=family"),
        ("I don't have to be there", "reasons", "hold=optional"),
    ],
)
def test_words_are_read_in_six_languages(text: str, kind: Kind, expected: str) -> None:
    assert expected in named(text, kind)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Training", "hold=fixed"),
        ("Call for papers", "place=phone"),
        ("Maschine messen", "topic=outreach"),
        ("Mon dîner", "week"),
        ("Reunión diaria", "who=friend"),
    ],
)
def test_similar_words_of_another_meaning_or_language_are_not_taken_for_them(text: str, wrong: str) -> None:
    assert wrong not in named(text, "titles")


def test_a_reason_is_learned_from(calendar: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    visit = event("a", "20261123T0900Z", "Kundenbesuch", "LOCATION:Ulm", "ATTENDEE:mailto:joe@acme.example")
    peers = ("ATTENDEE:mailto:bob@lab.example", "ATTENDEE:mailto:eve@lab.example")
    path = ics_file(visit, event("b", "20261123T0900Z", "Besprechung", *peers))
    (tmp_path / "people.toml").write_text('"acme.example" = "client"\n')

    silent, said = (
        calendar("decide", path, "--people", "people.toml", "--hub", f"{len(answer)}.db", answers=answer)["strategies"]
        for answer in ("a\n", "a: der Kunde geht vor\n")
    )

    assert silent == [], "one choice among events that differ in so much says little"
    assert said[0].startswith("a client comes +")


# -- what attributes mean, and no names of the benchmark --------------------------------------------------------------

TITLES = {"A": "Lunch", "B": "Demo"}


@pytest.mark.parametrize(
    ("given", "language", "shown"),
    [
        ("due today, B: outreach", "en", 'due today; against "Demo": for customers or partners'),
        ("B: outreach", "de", "gegen „Demo“: für Kunden oder Partner"),
        ("a client comes, due today", "fr", "avec un client, à rendre aujourd'hui"),
        ("you are away then", "it", "quel giorno non ci sei"),
        ("they pay us, and it is admin work", "de", "they pay us, and it is admin work"),
        ("", "pt", ""),
    ],
)
def test_the_reason_of_a_rule_is_reworded_and_that_of_a_model_is_not(given: str, language: str, shown: str) -> None:
    assert reason_in_words(given, TITLES, Texts.of(language)) == shown


@pytest.mark.parametrize("rule", RULES)
def test_each_simple_rule_is_said_in_the_language(rule: str) -> None:
    reason = rule.replace("_", " ")

    assert reason_in_words(reason, TITLES, Texts.of()) == reason
    assert reason_in_words(reason, TITLES, Texts.of("de")) != reason
