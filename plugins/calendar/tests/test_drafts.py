"""Drafts are in the language of the event or the calendar, and about what is there when they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agentfw_calendar.deciding.answers import AnswersGiven
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

IcsFile = Callable[..., Path]


def event(uid: str, clock: str, title: str, *lines: str) -> str:
    start = f"UID:{uid}\nDTSTART;TZID=Europe/Berlin:20991102T{clock}00\nDURATION:PT1H"
    return "\n".join([start, title if ":" in title else f"SUMMARY:{title}", *lines])


JOE = "ORGANIZER;CN=Joe:mailto:joe@acme.example"


def decided(path: Path, tmp_path: Path, meanwhile: Callable[[], object] = lambda: None) -> list[dict[str, Any]]:
    session = Session.open([FileSource(path)], Wishes(since=date(2099, 11, 2)))
    with PersonFile(tmp_path / "hub.db", session.person) as known:
        asyncio.run(session.play(LinearPolicy(), AnswersGiven("a\n", "test"), known))
        meanwhile()
        session.write(known)
    return session.other_times()


@pytest.mark.parametrize(
    ("title", "others", "said"),
    [
        (
            "Abstimmung mit dem Vertrieb",
            "Budget",
            "Hallo Joe,\nleider kann ich am Montag, 2. November, 10:30 Uhr nicht",
        ),
        ("SAP", "Vorbereitung der Sitzung", "Hallo Joe,\nleider kann ich am Montag"),
        (
            "Réunion avec le client",
            "Budget",
            "Bonjour Joe,\nJe ne peux pas venir à « Réunion avec le client » le lundi 2",
        ),
        (
            "Reunión con el cliente",
            "Budget",
            "Hola Joe:\nNo puedo ir a «Reunión con el cliente» el lunes, 2 de noviembre",
        ),
        ("Reunión diaria", "Budget", "Hola Joe:\nNo puedo ir a «Reunión diaria»"),
        (
            "Riunione con il cliente",
            "Budget",
            "Buongiorno Joe,\npurtroppo lunedì 2 novembre alle 10:30 non posso partecipare a «Riunione con il cliente»",
        ),
        (
            "Reunião com o cliente",
            "Budget",
            "Olá Joe,\ninfelizmente não posso ir a «Reunião com o cliente» (segunda-feira, 2 de novembro, às 10:30)",
        ),
        (
            "Overleg met de klant",
            "Budget",
            "Hallo Joe,\nHelaas kan ik op maandag 2 november om 10:30 uur niet bij",
        ),
        ("Spotkanie z klientem", "Budget", "Dzień dobry,\nniestety nie mogę uczestniczyć w „Spotkanie z klientem”"),
        ("اجتماع مع العميل", "Budget", "مرحبًا Joe،\nللأسف لا أستطيع حضور «اجتماع مع العميل» يوم الاثنين 2 نوفمبر"),
        ("お客様との打ち合わせ", "Budget", "Joe様\nお世話になっております。\n申し訳ありませんが、11月2日（月）10:30の"),
        ("契約確認会議", "Budget", "申し訳ありませんが"),
        ("고객 회의", "Budget", "Joe 님, 안녕하세요.\n죄송하지만 11월 2일 월요일 10:30에"),
        ("与客户讨论合同", "Budget", "Joe，您好：\n很抱歉，11月2日（星期一）10:30的“与客户讨论合同”我无法参加"),
        ("Review", "Spotkanie zespołu", "Dzień dobry"),
        ("SUMMARY;LANGUAGE=de-DE:Review", "Budget", "Hallo Joe"),
        (
            "Review with the client",
            "Sitzung mit dem Vorstand",
            'Hello Joe,\nI can\'t come to "Review with the client" on',
        ),
        ("SAP", "SAP 2", "Hello Joe"),
    ],
)
def test_a_draft_is_in_the_language_of_the_event_or_else_of_the_calendar(
    ics_file: IcsFile, tmp_path: Path, title: str, others: str, said: str
) -> None:
    path = ics_file(event("a", "1000", others), event("b", "1030", title, JOE))

    (draft,) = decided(path, tmp_path)

    assert said in draft["message"]


def test_each_person_is_written_to_in_one_language_also_where_a_title_is_in_another(
    ics_file: IcsFile, tmp_path: Path
) -> None:
    mia = "ORGANIZER;CN=Mia:mailto:mia@else.example"
    path = ics_file(
        event("a", "1000", "Team meeting about the office"),
        event("b", "1030", "Weekly meeting", JOE),
        event("c", "1300", "Wochenbesprechung mit dem Vertrieb", JOE),
        event("d", "1500", "Angebot für den Kunden", JOE),
        event("e", "1700", "Discuss the offer with the customer"),
        event("f", "1730", "Point sur le projet avec l'équipe", mia),
    )

    session = Session.open([FileSource(path)], Wishes(since=date(2099, 11, 2)))
    with PersonFile(tmp_path / "hub.db", session.person) as known:
        asyncio.run(session.play(LinearPolicy(), AnswersGiven("a\na\n", "test"), known))

    assert [one["message"].partition("\n")[0] for one in session.other_times()] == ["Hallo Joe,", "Bonjour Mia,"]


def test_no_draft_about_what_was_moved_or_deleted_meanwhile(ics_file: IcsFile, tmp_path: Path) -> None:
    a, b = event("a", "1000", "Review"), event("b", "1030", "Call", JOE)
    path = ics_file(a, b)

    assert decided(path, tmp_path, lambda: ics_file(a, b.replace("T1030", "T1130"))) == []
    assert decided(ics_file(a, b), tmp_path, lambda: ics_file(a)) == []


def test_a_time_that_was_taken_meanwhile_is_not_proposed(ics_file: IcsFile, tmp_path: Path) -> None:
    a, b = event("a", "1000", "Review"), event("b", "1030", "Call", JOE)
    path = ics_file(a, b)

    (draft,) = decided(path, tmp_path, lambda: ics_file(a, b, event("c", "1100", "New")))

    assert draft["to"][11:16] in ("09:00", "12:00")
