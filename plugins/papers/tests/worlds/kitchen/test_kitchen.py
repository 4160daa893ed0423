"""The kitchen: one thing in hand at a time, signals that don't wait, and what each of it pays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agentfw.agent import Agent, Decision
from agentfw.episode import Episode, Event, Intervention, Task
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.request import Moment
from agentfw.turns.engagement import Engagement
from agentfw.turns.policy_agent import PolicyAgent
from agentfw_papers.worlds.kitchen.environment import Kitchen
from agentfw_papers.worlds.kitchen.kitchen_settings import KitchenSettings
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController
from agentfw_plugins.policies.scripted import RandomPolicy

Rule = Callable[[Moment, dict[str, Any]], Iterable[Intervention]]


def do(name: str, **arguments: Any) -> Intervention:
    return Intervention(name, arguments)


class Ruled(Agent):
    """Is asked with what was last shown, and takes no time to decide."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    async def act(self, moment: Moment) -> Decision:
        seen = [one.data for one in moment.observations if "dishes" in one.data]
        return Decision(list(self.rule(moment, dict(seen[-1]))) if seen else [])


def play(agent: Agent, interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    kitchen = Kitchen(KitchenSettings.model_validate(settings))
    return asyncio.run(Engagement(kitchen, agent, interface).run(Task(0, seed=seed)))


def kept(interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    return play(PolicyAgent(KitchenController(), window=1), interface, seed, **settings)


def observed(episode: Episode, *names: str) -> list[Event]:
    return [event for event in episode.events if event.kind == "observation" and event.name in names]


def refusals(episode: Episode) -> list[str]:
    return [str(event.data["reason"]) for event in episode.events if event.kind == "refused"]


def one_dish(after: float = 0, *, tutoring: bool = False) -> Rule:
    """Cook the only dish and finish it so long after its signal."""

    def rule(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        dish = seen["dishes"][0]
        name = dish["name"]
        if dish["state"] == "raw":
            yield from (do("prepare", dish=name), do("stage", dish=name))
        elif dish["state"] == "cooking":
            yield do("tutor") if tutoring else do("wait")
        elif dish["state"] == "ready" and (not after or moment.woken or moment.of("free")):
            yield do("finish", dish=name)
        elif dish["state"] == "ready":
            yield do("wait", ticks=after)
        else:
            yield do("end")

    return rule


def quality(after: float, **settings: Any) -> float:
    return play(Ruled(one_dish(after)), variant="one", jitter=0, **settings).outcome["dishes"]


def test_a_critical_dish_is_worth_something_only_within_its_window() -> None:
    family = {"dish": "critical_narrow", "critical_narrow": {"window": (40, 40), "finish": (10, 10)}}
    assert quality(0, **family) == 1
    assert quality(30, **family) == 1  # finished in its last tick
    assert quality(31, **family) == 0


def test_a_soft_dish_keeps_warm_and_then_is_worth_what_the_setting_says() -> None:
    family = {"window": (40, 40), "warm": (100, 100), "finish": (10, 10)}
    assert quality(130, dish="soft_keepwarm", soft_keepwarm=family) == 1
    assert quality(131, dish="soft_keepwarm", soft_keepwarm=family) == 0
    assert quality(131, dish="soft_keepwarm", soft_keepwarm=family, late=0.5) == 0.5


def test_a_dish_that_is_finished_before_its_signal_is_raw() -> None:
    def rush(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        dish = seen["dishes"][0]["name"]
        if seen["dishes"][0]["state"] == "done":
            return [do("end")]
        return [do("prepare", dish=dish), do("stage", dish=dish), do("finish", dish=dish)]

    episode = play(Ruled(rush), variant="one")
    assert episode.outcome["dishes"] == 0
    assert not observed(episode, "whistle", "timer")


def test_utility_is_what_is_served_and_explained_less_what_time_switches_and_checks_cost() -> None:
    def curious(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        return [do("check"), *one_dish(tutoring=True)(moment, seen)]

    for episode in (
        play(Ruled(curious), variant="one"),
        kept(StepLoop()),
        kept(Reflex()),
        play(PolicyAgent(RandomPolicy()), budget=500),
    ):
        dishes = 1 if "soft" not in episode.outcome or "critical" not in episode.outcome else 3
        paid = sum(event.data["value"] for event in episode.events if event.name == "dish")
        assert paid == pytest.approx(dishes * episode.outcome["dishes"])
        costs = 0.001 * episode.ended + 0.02 * (episode.outcome["switches"] + episode.outcome["checks"])
        assert episode.utility == pytest.approx(paid + episode.outcome["problems"] - costs)
    assert play(Ruled(curious), variant="one").outcome["checks"] > 0


def test_the_kitchen_is_the_same_whatever_the_agent_does() -> None:
    """Also when a dish whistles after it was put on the stove."""

    def opening(episode: Episode) -> Event:
        return observed(episode, "kitchen")[0]

    def cooked(episode: Episode) -> dict[str, float]:
        begun = {event.name: event.time for event in reversed(episode.events) if event.data.get("state") == "started"}
        staged = {name.removeprefix("stage "): time + 3 for name, time in begun.items() if name.startswith("stage ")}
        return {event.data["dish"]: event.time - staged[event.data["dish"]] for event in observed(episode, "whistle")}

    episodes = [kept(), kept(StepLoop()), kept(Polling(40)), kept(burners=1)]
    assert all(opening(episode).data["dishes"] == opening(episodes[0]).data["dishes"] for episode in episodes)
    assert cooked(episodes[0])
    assert all(cooked(episode) == cooked(episodes[0]) for episode in episodes)


def test_all_is_over_when_everything_is_done_and_at_the_budget_at_the_latest() -> None:
    episode = kept()
    assert episode.finish == "finished"
    assert episode.outcome["problems"] == 3
    assert episode.ended < 3000
    assert kept(budget=300).ended == 300


def test_the_reflex_acts_before_the_agent_and_on_critical_dishes_first() -> None:
    def neglect(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        """Put two dishes on the stove, and be busy when both are ready."""
        names = [dish["name"] for dish in seen["dishes"]]
        if moment.now == 0:
            return [do(what, dish=name) for name in names[:2] for what in ("prepare", "stage")]
        return [do("tutor")] if seen["hand"] == "" and any(not one["done"] for one in seen["problems"]) else []

    settings: dict[str, Any] = {"case": "soft_vs_critical_conflict", "jitter": 0, "time_per_token": 0}
    assert play(Ruled(neglect), **settings).outcome["dishes"] == 0
    episode = play(Ruled(neglect), Reflex(), **settings)
    done = [event for event in episode.events if event.kind == "reflex"]
    assert [event.name for event in done] == ["finish", "finish"]
    assert episode.outcome["dishes"] == pytest.approx(2 / 3)
    timer, whistle = observed(episode, "timer")[0], observed(episode, "whistle")[0]
    assert [event.time for event in done] == sorted([timer.time, whistle.time])


@pytest.mark.parametrize("interface", [EventDriven(), StepLoop(), Polling(40), Reflex()], ids=str)
def test_the_rule_explains_all_problems_and_asks_for_nothing_impossible(interface: Interface) -> None:
    for seed in range(12):
        episode = kept(interface, seed)
        assert episode.outcome["problems"] == 3
        # A reflex can get ahead of what the agent has decided meanwhile.
        assert isinstance(interface, Reflex) or not refusals(episode)
        assert not [turn for turn in episode.turns if turn.failures]
