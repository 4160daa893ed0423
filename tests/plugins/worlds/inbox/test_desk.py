"""The inbox: what comes on a day, one thing at a time, nothing handled twice, and what was written stays written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from agentfw.agent import Agent, Decision
from agentfw.boundary.settings_input import validate
from agentfw.episode import Episode, Event, Intervention, Task
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.request import Moment
from agentfw.seeds import Seeds
from agentfw.turns.engagement import Engagement
from agentfw.turns.policy_agent import PolicyAgent
from agentfw_plugins.policies.scripted import ScriptedPolicy
from agentfw_plugins.worlds.inbox.environment import Inbox
from agentfw_plugins.worlds.inbox.mails import Arrivals, InboxSettings


class Ruled(Agent):
    def __init__(self, rule: Callable[[Moment], list[Intervention]]) -> None:
        self.rule = rule

    async def act(self, moment: Moment) -> Decision:
        return Decision(self.rule(moment))


def at(when: float, *calls: Intervention) -> Callable[[Moment], list[Intervention]]:
    """These at the first moment from `when` on, and writing at the start."""
    left = [list(calls)]

    def rule(moment: Moment) -> list[Intervention]:
        if moment.now >= when and left:
            return left.pop()
        return [Intervention("write")] if moment.now == 0 else []

    return rule


def handle(*mails: int) -> list[Intervention]:
    return [Intervention("handle_email", {"message": mail}) for mail in mails]


def play(agent: Agent, interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    return asyncio.run(Engagement(Inbox(InboxSettings(**settings)), agent, interface).run(Task(0, seed=seed)))


CALM: dict[str, Any] = {"rate": 0.5, "high": 0, "medium": 0}
"""Nothing is due within 25 minutes of its arrival."""


def heard(episode: Episode, name: str) -> list[Event]:
    return [event for event in episode.events if event.kind == "observation" and event.name == name]


def works(episode: Episode, name: str, state: str) -> list[Event]:
    return [
        event for event in episode.events if event.kind == "work" and (event.name, event.data["state"]) == (name, state)
    ]


def test_a_mail_puts_the_writing_aside_and_asking_to_write_goes_on_after_it() -> None:
    episode = play(Ruled(at(10, *handle(0), Intervention("write"))), **CALM)
    (aside,), (resumed,) = works(episode, "write", "interrupted"), works(episode, "write", "resumed")
    # A minute for the mail, and a tenth to turn back.
    assert resumed.time == pytest.approx(aside.time + 1.1)
    assert resumed.data["spent"] == aside.data["spent"] > 0
    assert episode.outcome["interruptions"] == 1


@pytest.mark.parametrize(
    ("call", "takes"),
    [
        (Intervention("check_inbox"), 0.1),
        (Intervention("triage"), 0.2),
        (Intervention("open_message", {"message": 0}), 0.1),
        (Intervention("handle_email", {"message": 0}), 1.0),
        (Intervention("set_reminder", {"message": 0, "after": 4}), 0.1),
    ],
)
def test_everything_takes_its_time_and_the_time_can_be_set(call: Intervention, takes: float) -> None:
    cases: list[tuple[dict[str, Any], float]] = [({}, takes), ({"durations": {call.name: 0.7}}, 0.7)]
    for settings, ticks in cases:
        episode = play(Ruled(at(4, call)), **CALM, **settings)
        (started,), (finished,) = works(episode, call.name, "started"), works(episode, call.name, "finished")
        assert finished.time - started.time == pytest.approx(ticks)


def test_the_inbox_and_the_triage_say_what_to_do_until_when_and_reading_says_what_it_is_about() -> None:
    calls = (Intervention("check_inbox"), Intervention("triage"), Intervention("triage"))
    episode = play(Ruled(at(10, *calls, Intervention("open_message", {"message": 0}))), **CALM)
    (inbox,), (first, second), (message,) = (heard(episode, name) for name in ("inbox", "triage", "message"))
    came = [event.data["message"] for event in heard(episode, "mail") if event.time <= inbox.time]
    assert [mail["message"] for mail in inbox.data["mails"]] == came
    assert all(mail["due"] > 0 and mail["advice"] in mail["chances"] for mail in first.data["mails"])
    assert not second.data["mails"], "each is weighed once"
    assert message.data["body"] in message.data["text"]


def test_what_is_asked_for_together_is_done_one_after_the_other_and_what_was_due_meanwhile_is_left_out() -> None:
    pair = [event.time for event in works(play(Ruled(at(4, *handle(0, 0, 1))), rate=1.0), "handle_email", "started")]
    assert pair == [pair[0], pair[0] + 1]
    # Everything is asked for at once, and far too late for most of it.
    episode = play(Ruled(at(60, *handle(*range(30)))), rate=1.0)
    assert episode.finish == "finished"
    assert 0 < episode.outcome["missed"] < 1
    started = [event.time for event in works(episode, "handle_email", "started")]
    assert all(later - earlier <= 1.0 + 1e-9 for earlier, later in pairwise(started))


@pytest.mark.parametrize(
    "call",
    [
        Intervention("handle_email", {"message": 99}),
        Intervention("open_message", {"message": -1}),
        Intervention("set_reminder", {"message": 0, "after": 0}),
        Intervention("set_reminder", {"message": 0, "after": 1e9}),
        Intervention("reply", {"message": 0}),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(call: Intervention) -> None:
    episode = play(Ruled(at(10, call)), **CALM)
    assert [event.name for event in episode.events if event.kind == "refused"] == [call.name]


def test_a_reminder_comes_when_it_was_asked_for_and_the_day_is_the_same_whatever_the_agent_does() -> None:
    reminded = play(Ruled(at(10, Intervention("set_reminder", {"message": 0, "after": 5.0}))), **CALM)
    others = play(Ruled(lambda moment: []), StepLoop(), **CALM), play(PolicyAgent(ScriptedPolicy()), Polling(5), **CALM)
    (done,) = works(reminded, "set_reminder", "finished")
    (reminder,) = heard(reminded, "reminder")
    assert reminder.time == done.time + 5
    both = Ruled(at(10, Intervention("set_reminder", {"message": 0, "after": 5.0}), *handle(0)))
    assert heard(play(both, **CALM), "reminder") == [], "of what is done nobody is reminded"
    assert heard(reminded, "mail") == heard(others[0], "mail") == heard(others[1], "mail") != []


@pytest.mark.parametrize("interface", [EventDriven(), StepLoop(), Polling(15), Reflex()], ids=str)
def test_the_demonstration_writes_and_handles_what_it_hears_of(interface: Interface) -> None:
    episode = play(PolicyAgent(ScriptedPolicy()), interface)
    assert episode.finish == "finished"
    assert episode.ended == 90
    assert episode.outcome["document"] > 0.5
    assert episode.outcome["mails"] > 0.3
    assert not [event for event in episode.events if event.kind == "refused"] or isinstance(interface, Reflex)


def test_what_a_day_pays_is_what_was_done() -> None:
    """Four tenths for a quarter of the document and for a mail, half a point off for one that is missed ..."""
    episode = play(PolicyAgent(ScriptedPolicy()), rate=0.4)
    paid = {
        reason: sum(event.data["value"] for event in episode.events if (event.kind, event.name) == ("utility", reason))
        for reason in ("mail handled", "mail missed", "document finished", "interruptions", "switches")
    }
    assert paid["switches"] < 0
    assert paid["mail handled"] == pytest.approx(0.4 * len(heard(episode, "handled")))
    assert paid["mail missed"] == pytest.approx(-0.5 * len(heard(episode, "missed")))
    assert paid["interruptions"] == pytest.approx(-0.005 * episode.outcome["interruptions"])
    sections = ("section written", "part of a section")
    written = sum(event.data["value"] for event in episode.events if event.name in sections)
    assert written == pytest.approx(1.6 * episode.outcome["document"])
    assert paid["document finished"] == (0.8 if episode.outcome["document"] == 1 else 0)


def test_mails_come_at_the_rate_with_the_urgencies_and_slacks_that_were_set() -> None:
    arrivals = Arrivals(InboxSettings(rate=0.2), Seeds(7))
    came = [arrivals.mail(number, 0) for number in range(4000)]
    shares = {urgency: count / len(came) for urgency, count in Counter(mail.urgency for mail in came).items()}
    assert shares == pytest.approx({"high": 0.4, "medium": 0.4, "low": 0.2}, abs=0.03)
    for urgency, (least, most) in {"high": (5, 15), "medium": (15, 25), "low": (25, 35)}.items():
        slacks = [mail.due for mail in came if mail.urgency == urgency]
        assert least <= min(slacks) < least + 0.2
        assert most - 0.2 < max(slacks) <= most
    assert sum(arrivals.gap() for _ in range(4000)) / 4000 == pytest.approx(5, rel=0.05)


@pytest.mark.parametrize(
    "wrong", [{"high": 0.8, "medium": 0.3}, {"rate": -1}, {"durations": {"triage": -1}}, {"durations": {"triag": 1}}]
)
def test_what_makes_no_sense_is_told_before_anything_runs(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="environment"):
        validate(InboxSettings, wrong, "environment")
