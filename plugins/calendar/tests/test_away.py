"""Leave, travel and illness clash with meetings, a birthday doesn't; and drafts are in the language of the event."""

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

from .events import IcsFile, event

BOTH = ("ATTENDEE:mailto:bob@lab.example", "ATTENDEE:mailto:ana@lab.example")
BOARD = event("board", "20261125T1000", "Board meeting", "LOCATION:Vienna office", *BOTH)


def all_day(title: str, *lines: str) -> str:
    dates = ("DTSTART;VALUE=DATE:20261123", "DTEND;VALUE=DATE:20261128")
    return "\n".join(["UID:away", *dates, f"SUMMARY:{title}", *lines])


def played(
    path: Path, answers: str, since: date = date(2026, 11, 23), meanwhile: Callable[[], object] = lambda: None
) -> Session:
    """A session that is over and written; `meanwhile` is what happens before it is written."""
    session = Session.open([FileSource(path)], Wishes(since=since))
    with PersonFile(path.with_name("hub.db"), session.person) as known:
        asyncio.run(session.play(LinearPolicy(), AnswersGiven(answers, "test"), known))
        meanwhile()
        session.write(known)
    return session


def declined(session: Session) -> list[str]:
    return [one.entry.title for outcome in session.outcomes for one in outcome.declined]


@pytest.mark.parametrize(
    "absence",
    [
        all_day("Vacation in Spain", "TRANSP:TRANSPARENT"),
        all_day("Urlaub"),
        all_day("Elternzeit").replace("20261123", "20260601").replace("20261128", "20270601"),
        "UID:away\nDTSTART;VALUE=DATE:20260601\nDURATION:P52W\nSUMMARY:Annual leave",
        all_day("Congés"),
        all_day("Lake house", "X-MICROSOFT-CDO-BUSYSTATUS:OOF"),
        all_day("Lake house", "X-GOOGLE-EVENT-TYPE:outOfOffice"),
        all_day("Lake house", "CATEGORIES:Out of office"),
        all_day("Fair", "X-MICROSOFT-CDO-BUSYSTATUS:BUSY"),
    ],
)
def test_who_is_away_is_asked_about_meetings_and_the_leave_is_never_declined(ics_file: IcsFile, absence: str) -> None:
    path = ics_file(BOARD, absence)

    attended = played(path, "Board meeting\n")
    again = played(path, "")

    assert [outcome.declined for outcome in attended.outcomes] == [()]
    assert len(attended.agenda.kept()) == 2, "the leave holds beside the meeting"
    assert [outcome.known for outcome in again.outcomes] == [True]
    assert not path.with_name("my.decided.ics").exists()


def test_a_meeting_is_declined_for_the_sake_of_leave(ics_file: IcsFile) -> None:
    # Nothing is proposed for what is past, so this week lies far ahead; its weekdays are those of 2026.
    events = [one.replace("202611", "209311") for one in (BOARD, all_day("Leave", "TRANSP:TRANSPARENT"))]

    session = played(ics_file(*events), "a\n", since=date(2093, 11, 23))

    (outcome,) = session.outcomes
    assert declined(session) == ["Board meeting"]
    assert outcome.question.proposed == "A", "leave can't be moved"
    (moved,) = session.other_times()
    assert moved["to"][:10] > "2093-11-27"


def test_what_somebody_went_to_in_spite_of_leave_is_proposed_next_time_and_a_doctor_at_once(ics_file: IcsFile) -> None:
    weekly = f"{BOARD}\nRRULE:FREQ=WEEKLY;COUNT=4"
    titles = {1125: "Annual leave", 1202: "Trip to Oslo", 1209: "Annual leave", 1216: "Annual leave"}
    days = [f"UID:{day}\nDTSTART;VALUE=DATE:2026{day}\nSUMMARY:{title}" for day, title in titles.items()]

    session = played(ics_file(weekly, *days), "b\n\na\n\n")
    doctor = played(ics_file(BOARD.replace("Board meeting", "Dentist"), all_day("Annual leave")), "\n")

    assert [outcome.question.proposed for outcome in session.outcomes] == ["A", "A", "B", "A"]
    assert [outcome.question.proposed for outcome in doctor.outcomes] == ["B"]
    assert declined(session) == ["Board meeting"] * 3


@pytest.mark.parametrize(
    "absence",
    [
        all_day("Grandma's birthday"),
        all_day("Geburtstag Oma", "X-MICROSOFT-CDO-BUSYSTATUS:BUSY"),
        all_day("Bank holiday", "CATEGORIES:Holiday"),
        all_day("Bob: vacation"),
        all_day("Leave", "STATUS:CANCELLED"),
        all_day("Trip to Vienna"),
    ],
)
def test_what_is_no_absence_or_is_what_the_trip_is_for_clashes_with_nothing(ics_file: IcsFile, absence: str) -> None:
    assert played(ics_file(BOARD, absence), "").agenda.next() is None


def timed(uid: str, day: int, clock: str, title: str, *lines: str, length: str = "PT1H") -> str:
    return event(uid, f"202611{day}T{clock}", title, *lines, length=length)


JOE = ("ORGANIZER:mailto:joe@acme.example", "ATTENDEE:mailto:ana@lab.example")
TRIP = (
    timed("out", 23, "0700", "BA 991 Berlin - London", length="PT2H"),
    timed("visit", 24, "0900", "Visit to Acme", "LOCATION:1 Baker St\\, London", *JOE, length="PT3H"),
    timed("dinner", 24, "1900", "Dinner", *JOE),
    timed("standup", 24, "0930", "Stand-up", "LOCATION:Room 4", length="PT15M"),
    timed("video", 25, "1000", "Weekly sync", "LOCATION:https://zoom.us/j/1"),
    timed("review", 25, "1000", "Design review", "LOCATION:Room 2"),
    timed("back", 26, "1800", "BA 992", length="PT2H"),
    timed("after", 27, "0900", "Stand-up on Friday", "LOCATION:Room 4", length="PT15M"),
)
SAID = "UID:trip\nDTSTART;VALUE=DATE:20261123\nDTEND;VALUE=DATE:20261127\nSUMMARY:Trip to London"


@pytest.mark.parametrize("said", [(SAID,), (), (SAID.replace("Trip to London", "Hotel Ibis"),)])
def test_a_trip_is_one_question_and_what_belongs_to_it_is_kept(ics_file: IcsFile, said: tuple[str, ...]) -> None:
    session = played(ics_file(*TRIP, *said), "\n")

    assert declined(session) == ["Stand-up", "Design review"]
    assert not session.stopped, "one question, and nothing else was to be asked"


@pytest.mark.parametrize(("answers", "left_out"), [("b d\n", ["Meeting 24"]), ("a\nu\nboth\nq\n", [])])
def test_letters_choose_what_is_kept_and_undo_is_of_all(ics_file: IcsFile, answers: str, left_out: list[str]) -> None:
    some = [timed(f"m{day}", day, "0900", f"Meeting {day}") for day in (23, 24, 25)]
    pair = [timed(uid, 30, "0900", uid) for uid in ("one", "other")]

    session = played(ics_file(*some, *pair, all_day("Annual leave")), answers)

    assert declined(session) == left_out
    assert len({outcome.question.number for outcome in session.outcomes}) == 1
    assert len(session.outcomes) == 3


def test_the_rest_is_accepted_at_once_and_teaches_nothing(ics_file: IcsFile, tmp_path: Path) -> None:
    pairs = [timed(f"{side}{day}", day, "0900", f"{side} {day}") for day in (23, 24, 25) for side in "xy"]

    session = played(ics_file(*pairs), "a\nrest\n")

    assert [len(outcome.declined) for outcome in session.outcomes] == [1, 1, 1]
    with PersonFile(tmp_path / "hub.db", session.person, read_only=True) as known:
        assert len(known.decisions) == 2, "the third was not looked at"


def test_two_sessions_at_once_write_into_one_file(ics_file: IcsFile) -> None:
    path = ics_file(*(timed(f"{side}{day}", day, "0900", f"{side} {day}") for day in (23, 24) for side in "xy"))

    played(path, "a\na\n", meanwhile=lambda: played(path, "a\n"))

    assert [file.name for file in path.parent.glob("*.decided*.ics")] == ["my.decided.ics"]
    assert path.with_name("my.decided.ics").read_text().count("X-AGENTFW-DECLINED") == 2


# -- drafts ------------------------------------------------------------------------------------------------------------

JOE_ASKS = "ORGANIZER;CN=Joe:mailto:joe@acme.example"


def far(uid: str, clock: str, title: str, *lines: str) -> str:
    """An event on a day for which other times are proposed."""
    return event(uid, f"20991102T{clock}", title, *lines).replace("SUMMARY:SUMMARY", "SUMMARY")


def drafts(path: Path, answers: str = "a\n") -> list[dict[str, Any]]:
    return played(path, answers, date(2099, 11, 2)).other_times()


@pytest.mark.parametrize(
    ("title", "others", "said"),
    [
        ("Abstimmung mit dem Vertrieb", "Budget", "Hallo Joe,\nleider kann ich am Montag, 2. November, 10:30 Uhr"),
        ("Réunion avec le client", "Budget", "Je ne peux pas venir à « Réunion avec le client » le lundi 2"),
        ("Reunión con el cliente", "Budget", "No puedo ir a «Reunión con el cliente» el lunes, 2 de noviembre"),
        ("Riunione con il cliente", "Budget", "Buongiorno Joe,\npurtroppo lunedì 2 novembre alle 10:30"),
        ("Reunião com o cliente", "Budget", "«Reunião com o cliente» (segunda-feira, 2 de novembro, às 10:30)"),
        ("Overleg met de klant", "Budget", "Hallo Joe,\nHelaas kan ik op maandag 2 november om 10:30 uur niet bij"),
        ("اجتماع مع العميل", "Budget", "مرحبًا Joe،\nللأسف لا أستطيع حضور «اجتماع مع العميل» يوم الاثنين 2 نوفمبر"),
        ("お客様との打ち合わせ", "Budget", "Joe様\nお世話になっております。\n申し訳ありませんが、11月2日（月）10:30の"),
        ("고객 회의", "Budget", "Joe 님, 안녕하세요.\n죄송하지만 11월 2일 월요일 10:30에"),
        ("与客户讨论合同", "Budget", "Joe，您好：\n很抱歉，11月2日（星期一）10:30的“与客户讨论合同”我无法参加"),
        ("Review", "Spotkanie zespołu", "Dzień dobry"),
        ("SUMMARY;LANGUAGE=de-DE:Review", "Budget", "Hallo Joe"),
        ("Review with the client", "Sitzung mit dem Vorstand", 'I can\'t come to "Review with the client" on'),
    ],
)
def test_a_draft_is_in_the_language_of_event_or_calendar(ics_file: IcsFile, title: str, others: str, said: str) -> None:
    (draft,) = drafts(ics_file(far("a", "1000", others), far("b", "1030", title, JOE_ASKS)))

    assert said in draft["message"]


def test_each_person_is_written_to_in_one_language_also_where_a_title_is_in_another(ics_file: IcsFile) -> None:
    path = ics_file(
        far("a", "1000", "Team meeting about the office"),
        far("b", "1030", "Weekly meeting", JOE_ASKS),
        far("c", "1300", "Wochenbesprechung mit dem Vertrieb", JOE_ASKS),
        far("d", "1500", "Angebot für den Kunden", JOE_ASKS),
        far("e", "1700", "Discuss the offer with the customer"),
        far("f", "1730", "Point sur le projet avec l'équipe", "ORGANIZER;CN=Mia:mailto:mia@else.example"),
    )

    greetings = [one["message"].partition("\n")[0] for one in drafts(path, "a\na\n")]
    assert greetings == ["Hallo Joe,", "Bonjour Mia,"]


def test_drafts_are_about_what_is_there_when_they_are_written(ics_file: IcsFile, tmp_path: Path) -> None:
    a, b, new = far("a", "1000", "Review"), far("b", "1030", "Call", JOE_ASKS), far("c", "1100", "New")

    def written(*changed: str) -> Session:
        (tmp_path / "hub.db").unlink(missing_ok=True)
        (tmp_path / "hub.db.decisions.jsonl").unlink(missing_ok=True)
        return played(ics_file(a, b), "a\n", date(2099, 11, 2), meanwhile=lambda: ics_file(*changed))

    (draft,) = written(a, b, new).other_times()
    gone = written(a, b.replace("T1030", "T1130")), written(a), written(a, b.replace("Call", "Crisis"))

    assert draft["to"][11:16] in ("09:00", "12:00"), "a time that was taken meanwhile is not proposed"
    assert [(one.other_times(), one.changed_meanwhile) for one in gone] == [([], ["Call"])] * 3
