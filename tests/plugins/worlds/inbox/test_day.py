"""A day at the inbox, apart from who spends it: what comes, what it is worth, what the plain assistant makes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agentfw.boundary.settings_input import validate
from agentfw.episode import Intervention, Observation
from agentfw.errors import SettingsError
from agentfw.request import InFlight, Moment
from agentfw.seeds import Seeds
from agentfw_plugins.worlds.inbox.environment import Triage
from agentfw_plugins.worlds.inbox.mails import Arrivals, InboxSettings, Mail, balanced, in_time, read_library


def mails(count: int, **settings: Any) -> list[Mail]:
    arrivals = Arrivals(InboxSettings(**settings), Seeds(7))
    return [arrivals.mail(number, 0) for number in range(count)]


def test_every_document_has_four_sections_that_take_most_of_a_day() -> None:
    documents = read_library().documents
    assert len({document.title for document in documents}) == len(documents) >= 12
    for document in documents:
        assert len(document.sections) == 4
        assert 0.7 < sum(section.tokens for section in document.sections) * 0.05 / 90 < 0.9
        assert all(len(section.text.split()) > 30 for section in document.sections)


def test_every_mail_has_an_urgency_and_an_advice_that_sums_to_one() -> None:
    scenarios = read_library().scenarios
    assert scenarios.keys() == {"high", "medium", "low"}
    some = [scenario for of_one in scenarios.values() for scenario in of_one]
    assert len({scenario.subject for scenario in some}) == len(some) >= 30
    for scenario in some:
        assert sum(scenario.advice.values()) == pytest.approx(1)
        assert scenario.advice.keys() <= {"handle", "open", "remind", "leave"}
        assert scenario.advised(0.999999999) in scenario.advice


def test_mails_come_at_the_rate_with_the_urgencies_and_slacks_that_were_set() -> None:
    came = mails(4000)
    shares = {urgency: count / len(came) for urgency, count in Counter(mail.urgency for mail in came).items()}
    assert shares == pytest.approx({"high": 0.4, "medium": 0.4, "low": 0.2}, abs=0.03)
    for urgency, (least, most) in {"high": (5, 15), "medium": (15, 25), "low": (25, 35)}.items():
        slacks = [mail.due for mail in came if mail.urgency == urgency]
        assert least <= min(slacks) < least + 0.2
        assert most - 0.2 < max(slacks) <= most
    arrivals = Arrivals(InboxSettings(rate=0.2), Seeds(7))
    assert sum(arrivals.gap() for _ in range(4000)) / 4000 == pytest.approx(5, rel=0.05)


def test_no_mail_comes_twice_before_the_others_of_its_urgency_came() -> None:
    came = [mail.scenario.subject for mail in mails(12, high=1, medium=0)]
    assert len(set(came)) == 12


def test_the_advice_of_a_mail_is_drawn_as_often_as_it_is_likely() -> None:
    came = [mail for mail in mails(6000, high=0, medium=0) if mail.scenario.subject == "Lunch on Thursday"]
    shares = {advice: count / len(came) for advice, count in Counter(mail.advice for mail in came).items()}
    assert shares == pytest.approx({"handle": 0.3, "remind": 0.6, "leave": 0.1}, abs=0.06)


def test_urgent_mails_weigh_more_and_an_empty_day_is_a_good_one() -> None:
    high, low = mails(1, high=1, medium=0)[0], mails(1, high=0, medium=0)[0]
    assert in_time([]) == 1
    high.handled = True
    assert in_time([high, low]) == pytest.approx(1.2 / 1.3)
    high.handled, low.handled = False, True
    assert in_time([high, low]) == pytest.approx(0.1 / 1.3)


def test_the_balanced_score_pays_for_both_and_charges_for_the_gap() -> None:
    assert balanced(1, 1) == pytest.approx(1)
    assert balanced(0, 0) == 0
    assert balanced(1, 0) == pytest.approx(0.1)
    assert balanced(0.9, 0.5) == pytest.approx(0.6 * 0.9 + 0.4 * 0.5 - 0.5 * 0.4)


def told(triage: Triage, now: float, *observations: tuple[str, dict[str, Any]], at_work: str = "") -> list[str]:
    """What it does, in words."""
    flying = (InFlight(at_work, 0.0, 1.0, running=True),) if at_work else ()
    moment = Moment(now, tuple(Observation(now, name, data) for name, data in observations), flying)
    return [" ".join(map(str, [call.name, *call.arguments.values()])) for call in triage.answer(moment)]


def weighed(*advice: tuple[int, str, float]) -> tuple[str, dict[str, Any]]:
    return "triage", {"mails": [{"message": number, "advice": what, "due": due} for number, what, due in advice]}


def test_the_first_due_comes_first_and_the_document_when_nothing_is_left() -> None:
    triage = Triage(handling=1.0)
    assert told(triage, 0, ("document", {"sections": 4})) == ["write"]
    assert told(triage, 5, ("mail", {"message": 0}), at_work="write") == ["triage"]
    assert told(triage, 6, weighed((0, "handle", 30.0), (1, "open", 12.0), (2, "leave", 9.0))) == ["open_message 1"]
    assert told(triage, 6.1, ("message", {"message": 1})) == ["handle_email 1"]
    assert told(triage, 7.1, ("handled", {"message": 1})) == ["handle_email 0"]
    assert told(triage, 8.1, ("handled", {"message": 0})) == ["write"]


def test_it_is_at_one_mail_at_a_time() -> None:
    triage = Triage(handling=1.0)
    told(triage, 0, ("document", {"sections": 4}))
    assert told(triage, 5, weighed((0, "handle", 30.0)), at_work="handle_email") == []


def test_what_can_wait_is_put_off_by_half_of_the_time_there_is() -> None:
    triage = Triage(handling=1.0)
    assert told(triage, 5, weighed((0, "remind", 26.0))) == ["set_reminder 0 10.0"]
    assert told(triage, 5.1, ("reminder_set", {"message": 0})) == []
    assert told(triage, 15.1, ("reminder", {"message": 0})) == ["handle_email 0"]


def test_what_has_no_time_to_wait_is_done_and_what_is_too_late_is_left() -> None:
    triage = Triage(handling=1.0)
    assert told(triage, 5, weighed((0, "remind", 7.5))) == ["handle_email 0"]
    assert told(Triage(handling=1.0), 5, weighed((0, "handle", 5.9))) == []


def test_an_answer_that_was_broken_off_is_given_again() -> None:
    triage = Triage(handling=1.0)
    first = told(triage, 5, weighed((0, "handle", 30.0)))
    assert told(triage, 5.2, ("missed", {"message": 7})) == first == ["handle_email 0"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"high": 0.8, "medium": 0.3},
        {"high_slack": [15, 5]},
        {"low_slack": [0, 5]},
        {"rate": -1},
        {"durations": {"triage": -1}},
        {"durations": {"triag": 1}},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_told_before_anything_runs(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="environment"):
        validate(InboxSettings, wrong, "environment")


def test_a_triage_answers_with_calls_that_the_inbox_has() -> None:
    from agentfw_plugins.worlds.inbox.environment import Inbox

    triage, names = Triage(handling=1.0), {one.name for one in Inbox().brief().actions}
    assert names == {"write", "check_inbox", "triage", "open_message", "handle_email", "set_reminder"}
    (call,) = triage.answer(Moment(0, (Observation(0, "mail", {"message": 0}),)))
    assert isinstance(call, Intervention)
    assert call.name in names
