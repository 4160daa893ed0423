"""A day at the inbox, apart from who spends it: what comes, what it is worth, what the plain assistant makes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agentfw.boundary.settings_input import validate
from agentfw.errors import SettingsError
from agentfw.seeds import Seeds
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


@pytest.mark.parametrize(
    "wrong",
    [
        {"high": 0.8, "medium": 0.3},
        {"rate": -1},
        {"durations": {"triage": -1}},
        {"durations": {"triag": 1}},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_told_before_anything_runs(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="environment"):
        validate(InboxSettings, wrong, "environment")
