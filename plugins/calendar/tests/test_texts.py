"""What a person reads is in the language of their calendar, or in the one they choose."""

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

from agentfw_calendar.deciding.answers import Answer, Question, understood
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.language.texts import LANGUAGES, LETTERS, Texts
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

OTHERS = [language for language in LANGUAGES if language != "en"]
PACKAGE = Path(str(files("agentfw_calendar.language")))
DATES = ("day", "day_and_year", "date", "moment", "draft_date")


IcsFile = Callable[..., Path]


def given(language: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.load(
        PACKAGE.joinpath("texts", f"{language}.yaml").read_text("utf-8"), Loader=yaml.BaseLoader
    )
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
            assert {form: fields(one) for form, one in forms(own["said"][name]).items()} == {
                form: fields(one) for form, one in forms(text).items()
            }, name
    assert {name: len(texts) for name, texts in own["dates"].items() if isinstance(texts, list)} == {
        "weekdays": 7,
        "short": 7,
        "months": 12,
    }


@pytest.mark.parametrize("language", LETTERS)
def test_each_language_of_letters_has_all_of_a_draft(language: str) -> None:
    own, english = given(language), given("en")
    names = [name for name in english["said"] if name.startswith("draft_")]

    assert (len(own["dates"]["weekdays"]), len(own["dates"]["months"])) == (7, 12)
    for name in set(names) - {"draft_date", "draft_hello"}:  # in some languages a name isn't written as it is
        assert fields(own["said"][name]) == fields(english["said"][name]), name
    assert {"day", "month", "time"} <= fields(own["said"]["draft_date"])


# Titles that belong to no language, so that only the program's own words differ.
LEAVE = "UID:leave\nDTSTART;VALUE=DATE:20991106\nSUMMARY:OOO\nX-MICROSOFT-CDO-BUSYSTATUS:OOF"
IN_IT = "UID:in\nDTSTART;TZID=Europe/Berlin:20991106T100000\nDURATION:PT1H\nSUMMARY:XY 1"
PEOPLE = "ORGANIZER;CN=Joe:mailto:joe@acme.example\nATTENDEE:mailto:ana@lab.example"
TWICE = "DURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=2"
SERIES = f"UID:s\nDTSTART;TZID=Europe/Berlin:20991102T090000\n{TWICE}\nSUMMARY:XY 2"
CLASH = f"UID:c\nDTSTART;TZID=Europe/Berlin:20991102T093000\n{TWICE}\nSUMMARY:XY 3\n{PEOPLE}"
BROKEN = "UID:b\nSUMMARY:XY 4"


@pytest.fixture
def agentfw(calendar_session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
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


class Asked:
    """Keeps the question that it is asked, and stops."""

    is_person = True

    def answer(self, question: Question) -> Answer:
        self.question = question
        return Answer("", stop=True)

    def told(self, *given: object) -> None:
        pass


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_help_and_the_prompt_offer_is_understood(ics_file: IcsFile, tmp_path: Path, language: str) -> None:
    person, texts = Asked(), Texts.of(language)
    found = Session.open([FileSource(ics_file(SERIES, CLASH))], Wishes(since=date(2099, 11, 2)))
    with PersonFile(tmp_path / "hub.db", "ana@lab.example") as known:
        asyncio.run(found.play(LinearPolicy(), person, known))
    rows = [re.split(r"  +", line)[0] for line in texts("help").splitlines()]
    both, later, series, always, move, undo, stop, rest = rows[2:]
    named = [words.split(" ", 1)[1] for words in texts("prompt_answers", default="", letters="").split(", ")[2:5]]
    again = re.findall('["„«] ?(.+?) ?["“»]', texts("clash_again"))

    def read(*words: str) -> list[Answer]:
        return [understood(one, person.question) for one in words]

    assert read(both, rest) == [Answer("", both=True), Answer(person.question.proposed, rest=True)]
    assert read(f"b {series}", f"b {always}", f"{both} {series}") == [
        Answer("B", scope="series"),
        Answer("B", scope="always"),
        Answer("", both=True, scope="series"),
    ]
    assert read(f"b {move}", f"B {always} : Acme") == [
        Answer("B", scope="series", move=True),
        Answer("B", "Acme", scope="always"),
    ]
    assert read(*again) == [Answer("B", scope="series"), Answer("", both=True, scope="series")]
    assert read(later, undo, stop) == read(*named) == [Answer(""), Answer("", undo=True), Answer("", stop=True)]


def test_the_language_is_that_of_the_calendar_unless_it_is_chosen(
    agentfw: Callable[..., str], ics_file: IcsFile, tmp_path: Path
) -> None:
    german = ics_file(IN_IT.replace("XY 1", "Sitzung mit dem Vorstand"), IN_IT.replace("UID:in", "UID:z"))
    words = ("list", german)
    (tmp_path / "people.toml").write_text('[me]\nlanguage = "es"\n')

    assert "Vorschlag: A behalten" in agentfw(*words)
    assert "propuesta: mantener A" in agentfw(*words, "--people", "people.toml")
    assert "proposed: keep A" in agentfw(*words, "--people", "people.toml", "--language", "en")


def test_what_is_known_is_said_in_the_language_of_what_was_decided(
    agentfw: Callable[..., str], ics_file: IcsFile
) -> None:
    path = ics_file(IN_IT.replace("XY 1", "Sitzung mit dem Vorstand"), IN_IT.replace("UID:in", "UID:z"))
    agentfw("decide", path, answers="a\n")

    assert "1 Entscheidung" in agentfw("me")
    assert "1 Entscheidung zurückgenommen" in agentfw("undo")
    assert "0 Entscheidungen" in agentfw("me"), "also when nothing is left"
