"""The inbox: one thing at a time, nothing handled twice, and what was written stays written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from agentfw.agent import Agent, Decision, Moment
from agentfw.engagement import Engagement
from agentfw.environment import World
from agentfw.episode import Episode, Event, Intervention, Task
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.policy_agent import PolicyAgent
from agentfw_plugins.environments.inbox import Inbox, InboxSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy


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


def play(agent: Agent, interface: Interface | None = None, seed: int = 3, **settings: float) -> Episode:
    return asyncio.run(Engagement(Inbox(InboxSettings(**settings)), agent, interface).run(Task(0, seed=seed)))


def works(episode: Episode, name: str, state: str) -> list[Event]:
    return [
        event for event in episode.events if event.kind == "work" and (event.name, event.data["state"]) == (name, state)
    ]


def test_what_is_asked_for_together_is_done_one_after_the_other() -> None:
    episode = play(Ruled(at(15, *handle(0, 1))), rate=0.5)
    began = [event.time for event in works(episode, "handle_email", "started")]
    assert len(began) == 2
    assert began[1] == began[0] + 1


def test_one_mail_is_handled_once() -> None:
    episode = play(Ruled(at(10, *handle(0, 0), *handle(0))), rate=0.5)
    assert len(works(episode, "handle_email", "started")) == 1
    assert sum(event.kind == "refused" for event in episode.events) == 2
    assert [event.data["value"] for event in episode.events if event.name == "mail handled"] == [0.4]


def test_a_mail_puts_the_writing_aside_and_asking_to_write_goes_on_after_it() -> None:
    episode = play(Ruled(at(10, *handle(0), Intervention("write"))), rate=0.5)
    (aside,), (resumed,) = works(episode, "write", "interrupted"), works(episode, "write", "resumed")
    assert resumed.time == aside.time + 1
    assert resumed.data["spent"] == aside.data["spent"] > 0
    assert episode.outcome["interruptions"] == 1


def test_a_mail_that_is_finished_at_its_deadline_is_finished_in_time() -> None:
    class Punctual(Inbox):
        """One mail, that is due when its handling ends."""

        def begin(self, world: World, task: Task) -> None:
            super().begin(world, task)
            world.after(10, self._mail_arrives)

        def _expect_mail(self) -> None: ...

    def rule(moment: Moment) -> list[Intervention]:
        return (
            [Intervention("write")] if moment.now == 0 else handle(*[one.data["message"] for one in moment.of("late")])
        )

    world = Punctual()

    def just_in_time() -> None:
        world.world.at(world._mails[0].deadline - 1, lambda: world.world.observe("late", {"message": 0}))

    class Watching(Ruled):
        async def act(self, moment: Moment) -> Decision:
            if moment.of("mail"):
                just_in_time()
            return await super().act(moment)

    episode = asyncio.run(Engagement(world, Watching(rule)).run(Task(0, seed=3)))
    assert episode.outcome["mails"] == 1.0
    assert episode.outcome["missed"] == 0.0


def test_a_mail_that_was_due_meanwhile_is_left_out_and_the_next_is_done() -> None:
    """Everything is asked for at once, and far too late for most of it."""
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
    episode = play(Ruled(at(10, call)), rate=0.5)
    assert [event.name for event in episode.events if event.kind == "refused"] == [call.name]


def test_a_reminder_comes_when_it_was_asked_for() -> None:
    episode = play(Ruled(at(10, Intervention("set_reminder", {"message": 0, "after": 5.0}))), rate=0.5)
    (done,) = works(episode, "set_reminder", "finished")
    (reminder,) = [event for event in episode.events if event.kind == "observation" and event.name == "reminder"]
    assert reminder.time == done.time + 5


def test_the_day_is_the_same_whatever_the_agent_does() -> None:
    def mails(episode: Episode) -> list[Event]:
        return [event for event in episode.events if event.kind == "observation" and event.name == "mail"]

    days = [
        play(Ruled(at(10, *handle(0)))),
        play(Ruled(lambda moment: []), StepLoop()),
        play(PolicyAgent(ScriptedPolicy()), Polling(5)),
    ]
    assert mails(days[0]) == mails(days[1]) == mails(days[2])
    assert mails(days[0])


@pytest.mark.parametrize("interface", [EventDriven(), StepLoop(), Polling(15), Reflex()], ids=str)
def test_the_demonstration_writes_and_handles_what_it_hears_of(interface: Interface) -> None:
    episode = play(PolicyAgent(ScriptedPolicy()), interface)
    assert episode.finish == "finished"
    assert episode.ended == 90
    assert episode.outcome["document"] > 0.7
    assert episode.outcome["mails"] > 0.3
    assert not [event for event in episode.events if event.kind == "refused"] or isinstance(interface, Reflex)


def test_hearing_of_mails_sooner_handles_more_of_them() -> None:
    def mails(interface: Interface) -> float:
        return sum(play(PolicyAgent(ScriptedPolicy()), interface, seed).outcome["mails"] for seed in range(20)) / 20

    loop, polling, events = mails(StepLoop()), mails(Polling(15)), mails(EventDriven())
    assert loop + 0.05 < polling
    assert polling + 0.05 < events
