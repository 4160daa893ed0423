"""Whose an event is in a shared calendar, what people keep in general, when they are, and what is known of a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .events import Calendar, IcsFile
from .events import event as at


def event(uid: str, day: int, clock: str, title: str, *lines: str, length: str = "PT1H") -> str:
    return at(uid, f"209911{day:02}T{clock}", title, *lines, length=length)


WEEKLY = "RRULE:FREQ=WEEKLY;COUNT=3"
FAMILY = (
    event("lily", 2, "1600", "Lily swimming", WEEKLY),
    event("tom", 2, "1630", "Tom football", WEEKLY),
    event("yoga", 3, "1600", "Yoga"),
    event("piano", 3, "1630", "Lily piano"),
)


@pytest.fixture
def decide(calendar: Calendar) -> Calendar:
    return lambda *words, **more: calendar("decide", *words, "--me", "ana@lab.example", since="2099-11-02", **more)


def proposed(conflict: Any) -> str:
    """The title that is proposed."""
    return next(str(one["title"]) for one in conflict["events"] if one["letter"] == conflict["proposed"])


def titles(answer: Any) -> list[list[str]]:
    return [[event["title"] for event in one["events"]] for one in answer["conflicts"]]


def test_who_goes_is_asked_once_and_can_be_taken_back(calendar: Calendar, decide: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(*FAMILY[:3])

    first = decide(path, answers="n\nme\n")
    again = decide(path)
    calendar("undo", "--all")

    assert titles(first) == titles(again) == [], "two children at two places are no choice"
    assert (first["stopped"], again["stopped"]) == (False, False)
    assert decide(path, answers="q\n")["stopped"]


def test_who_has_to_be_at_both_is_asked_which_and_what_is_unclear_is_left(decide: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(*FAMILY[:2])

    assert decide(path, answers="s\ns\ns\n")["declined"] == 0
    assert titles(decide(path, answers="me\nme\na series\n")) == [["Lily swimming", "Tom football"]] * 3


def test_a_named_child_is_asked_about_and_has_its_calendar(decide: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    (tmp_path / "people.toml").write_text('[me]\nfamily = ["Lily"]\n')
    lily = ics_file(event("a", 2, "1600", "Swimming"), head="X-WR-CALNAME:Lily", name="lily.ics")
    tom = ics_file(event("b", 2, "1630", "Football"), head="X-WR-CALNAME:Tom", name="tom.ics")

    named = decide(ics_file(*FAMILY[2:]), "--people", "people.toml", answers="n\n")
    owned = decide(lily, tom, answers="n\nn\n")

    assert titles(named) == titles(owned) == []
    assert (named["stopped"], owned["stopped"]) == (False, False)


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        (event("a", 2, "1600", "Nativity play"), event("b", 2, "1630", "Boiler service")),
        (event("a", 2, "1000", "Stand-up", "ATTENDEE:mailto:bob@lab.example"), event("b", 2, "1000", "Focus time")),
        (event("a", 2, "1200", "Budget", "ATTENDEE:mailto:bob@lab.example"), event("b", 2, "1200", "HOLD")),
        (event("a", 2, "0900", "Dentist"), event("b", 2, "0900", "1:1", "ATTENDEE:mailto:bob@lab.example")),
    ],
)
def test_what_most_people_keep_is_proposed_at_first(decide: Calendar, ics_file: IcsFile, kept: str, other: str) -> None:
    (conflict,) = decide(ics_file(kept, other, event("z", 9, "0900", "Z")), answers="\n")["conflicts"]

    assert f"SUMMARY:{proposed(conflict)}" in kept


def test_what_is_likely_is_asked_about_at_once_and_corrected_by_letter(decide: Calendar, ics_file: IcsFile) -> None:
    days = range(2, 16)
    kept = [event(f"a{day}", day, "1000", "Vivarium") for day in days]
    path = ics_file(*kept, *(event(f"b{day}", day, "1030", "Budget") for day in days))
    decide(path, "--days", "11", answers="a\n" * 11)

    answer = decide(path, answers="c\n")

    asked = [one["kept"] for one in answer["conflicts"] if not one["decided_before"]]
    assert asked == ["A", "B", "A"], "one answer about three"
    pairs = {"x": ("1000", "fgh"), "y": ("1030", "jkl")}
    unsure = ics_file(*(event(f"{uid}{day}", day, *pairs[uid]) for day in (20, 21) for uid in pairs))
    clear = ics_file(
        *(event(f"{name}{day}", day, "1000", name) for day in (2, 3) for name in ("Dentist", "HOLD")), name="x.ics"
    )
    for path, hub in ((unsure, "hub.db"), (clear, "new.db")):
        assert decide(path, "--hub", hub, answers="a\nq\n")["stopped"], (
            "what isn't sure, or at first, is asked one by one"
        )


@pytest.mark.parametrize(
    ("title", "clock", "earliest", "latest"),
    [
        ("Dinner", "1900", "18:00", "23:00"),
        ("Choir", "2000", "18:30", "22:30"),
        ("Team meeting", "1000", "09:00", "17:00"),
    ],
)
def test_another_time_is_one_at_which_such_events_are(
    decide: Calendar, ics_file: IcsFile, title: str, clock: str, earliest: str, latest: str
) -> None:
    path = ics_file(event("a", 6, clock, "Kept"), event("b", 6, clock, title))

    (other,) = decide(path, answers="Kept\n")["other_times"]

    assert earliest <= other["to"][11:16] <= latest


def test_nobody_is_told_to_move_a_concert_and_a_choir_has_its_evening(decide: Calendar, ics_file: IcsFile) -> None:
    concert = ics_file(event("a", 6, "1900", "Kept"), event("b", 6, "1900", "Concert"))
    assert decide(concert, answers="Kept\n")["other_times"] == []

    choir = ics_file(event("choir", 2, "1900", "Choir", WEEKLY), event("parents", 2, "1900", "Parents evening"))
    answer = decide(choir, answers="Parents evening\n")
    assert (answer["declined"], answer["other_times"]) == (1, [])


@pytest.mark.parametrize("by_hand", ["moved", "deleted", "declined"])
def test_what_was_done_by_hand_is_learned_from(decide: Calendar, ics_file: IcsFile, by_hand: str) -> None:
    vivarium, budget = event("a", 2, "1000", "Vivarium"), event("b", 2, "1030", "Budget")
    later = (event("c", 9, "1000", "Vivarium"), event("d", 9, "1030", "Budget"))
    done = {
        "moved": event("b", 3, "1200", "Budget"),
        "deleted": event("z", 4, "1200", "Other"),
        "declined": f"{budget}\nATTENDEE;PARTSTAT=DECLINED:mailto:ana@lab.example",
    }[by_hand]
    path = ics_file(vivarium, budget, *later)

    (before, _) = decide(path, answers='[{"keep": null}, "s"]')["conflicts"]
    ics_file(vivarium, done, *later)
    (after,) = decide(path, answers="s\n")["conflicts"]

    assert (before["proposed"], after["proposed"]) == ("B", "A")


def test_what_is_out_of_sight_or_elsewhere_was_not_done_by_hand_and_what_was_counts_once(
    decide: Calendar, calendar_session: Calendar, ics_file: IcsFile
) -> None:
    late, night = event("a", 2, "2330", "Vivarium"), event("b", 3, "0015", "Budget")
    path, other = ics_file(late, night), ics_file(late, name="other.ics")

    def decisions() -> str:
        return str(calendar_session("me").out.split()[1])

    decide(path, answers="s\n")
    decide(path, "--days", "1")
    decide(path, answers="s\n")
    decide(other)
    assert decisions() == "0"
    decide(path, answers="s\n")
    ics_file(late, event("c", 5, "1000", "Vivarium"), event("d", 5, "1030", "Budget"))
    assert calendar_session("list", path, "--json", since="2099-11-02").code == 0, "to look teaches nothing"
    decide(path, answers="what?\n", code=2)
    decide(path, answers="s\n")
    assert decisions() == "1", "also where a session is interrupted"


def test_leave_cancels_no_childs_club_nor_moves_a_stand_up(decide: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    (tmp_path / "people.toml").write_text('[me]\nfamily = ["Lily"]\n')
    boss = "ORGANIZER:mailto:maria@lab.example\nATTENDEE:mailto:ana@lab.example"
    leave = "UID:leave\nDTSTART;VALUE=DATE:20991102\nDTEND;VALUE=DATE:20991104\nSUMMARY:Annual leave"
    daily = event("daily", 2, "0915", "Stand-up", "RRULE:FREQ=DAILY;COUNT=5", boss, length="PT15M")
    kickoff = event("kickoff", 3, "1000", "Project kickoff", boss)
    path = ics_file(leave, FAMILY[0], daily, kickoff)

    answer = decide(path, "--people", "people.toml", answers="\n")

    assert "Lily swimming" not in [title for some in titles(answer) for title in some]
    assert answer["declined"] == 3
    assert [one["title"] for one in answer["other_times"]] == ["Project kickoff"]
    assert decide(path, "--people", "people.toml")["strategies"] == [], "to be away says nothing of what is preferred"


# -- what is known of a person, in sentences with the decisions behind them --------------------------------------------

BOSS = ("ORGANIZER:mailto:maria@lab.example", "ATTENDEE:mailto:ana@lab.example")
CLIENT = ("ORGANIZER:mailto:joe@acme.example", "ATTENDEE:mailto:ana@lab.example")


@pytest.fixture
def known(calendar: Calendar, tmp_path: Path) -> Calendar:
    """Decide with a file that says who is who."""
    (tmp_path / "people.toml").write_text('"maria@lab.example" = "superior"\n"acme.example" = "client"\n')
    return lambda *words, **more: calendar("decide", *words, "--people", "people.toml", since="2099-11-23", **more)


def clashes(count: int) -> list[str]:
    days = range(23, 23 + count)
    boss = [event(f"a{day}", day, "1000", f"Talk {day}", *BOSS) for day in days]
    return [*boss, *(event(f"b{day}", day, "1030", f"Acme {day}", *CLIENT) for day in days)]


def test_what_is_known_is_said_with_its_decisions(calendar: Calendar, known: Calendar, ics_file: IcsFile) -> None:
    known(ics_file(*clashes(5)), answers="b\nb: they pay\na\nb\nb\n")

    told = calendar("me")

    first = next(one for one in told["sentences"] if (one["first"], one["second"]) == ("who=client", "who=superior"))
    assert first["sentence"] == "clients before superiors: 4 of 5 times"
    assert first["decisions"][1].endswith('Acme 24, and not Talk 24. "they pay"')
    assert sum(week["proposed"] for week in told["weeks"]) == 5


def listed(calendar: Calendar, path: Path, *words: str) -> list[str]:
    found = calendar("list", path, "--people", "people.toml", *words, since="2099-11-23")
    return list(map(proposed, found["conflicts"]))


def test_a_sentence_is_pinned_corrected_and_forgotten(calendar: Calendar, known: Calendar, ics_file: IcsFile) -> None:
    known(ics_file(*clashes(3)), answers="b\nb\nb\n")
    new = ics_file(*(text.replace("UID:", "UID:new").replace("209911", "209912") for text in clashes(1)))
    before = listed(calendar, new, "--days", "60")
    number = next(one["number"] for one in calendar("me")["sentences"] if one["first"] == "who=client")

    pinned = calendar("me", "--pin", number)["sentences"][0]
    corrected = calendar("me", "--correct", 1)["sentences"]
    after = listed(calendar, new, "--days", "60")
    forgotten = calendar("me", "--forget", 1)

    assert pinned["sentence"] == "clients before superiors: pinned, 3 of 3 times"
    assert corrected[0]["sentence"] == "superiors before clients: pinned, not decided yet"
    assert sum(one["pinned"] for one in corrected) == 1
    assert forgotten["sentences"] == []
    assert (before, after) == (["Acme 23"], ["Talk 23"])
    assert "there is no sentence 9" in calendar("me", "--forget", 9, code=2)


ONE_TO_ONE = event("o", 23, "1000", "1:1 with Maria", "RRULE:FREQ=WEEKLY", *BOSS)


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("Dentist", ()),
        ("Rendez-vous chez le médecin", ()),
        ("Cumpleaños de mi hija", ()),
        ("Dinner", ("ORGANIZER;CN=Rui Costa:mailto:rui@gmail.com", "ATTENDEE:mailto:ana.costa@lab.example")),
    ],
)
@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("other", [ONE_TO_ONE, event("c", 23, "1000", "Review with Acme", *CLIENT)])
def test_health_and_family_come_first_until_somebody_says_otherwise(
    calendar: Calendar, ics_file: IcsFile, title: str, lines: tuple[str, ...], other: str
) -> None:
    path = ics_file(event("p", 23, "1030", title, *lines), other)
    owner = "ana.costa@lab.example" if lines else "ana@lab.example"

    assert listed(calendar, path, "--days", "5", "--me", owner) == [title]
