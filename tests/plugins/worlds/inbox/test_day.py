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
from agentfw_plugins.worlds.inbox.mails import Arrivals, InboxSettings, Mail


def mails(count: int, **settings: Any) -> list[Mail]:
    arrivals = Arrivals(InboxSettings(**settings), Seeds(7))
    return [arrivals.mail(number, 0) for number in range(count)]


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
