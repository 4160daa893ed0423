"""The kitchen: one thing in hand, signals that don't wait, what each of it pays, and what the tutor says meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, Generation, Intervention, Moment, Policy, PolicyAgent, Request, Task
from agentfw.agent import Agent
from agentfw.errors import AgentfwError, SettingsError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw_papers.worlds.kitchen.environment import Kitchen
from agentfw_papers.worlds.kitchen.kitchen_settings import KitchenSettings
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController
from agentfw_papers.worlds.kitchen.tutoring_problems import pieces_of
from agentfw_plugins.policies.scripted import RandomPolicy, ScriptedPolicy, ScriptedSettings

from ..playing import Ruled, observed, refusals
from ..playing import play as play_in

Rule = Callable[[Moment, dict[str, Any]], Iterable[Intervention]]


def do(name: str, **arguments: Any) -> Intervention:
    return Intervention(name, arguments)


def by(rule: Rule) -> Ruled:
    """An agent whose rule is asked with what was last shown of the dishes."""

    def with_dishes(moment: Moment) -> Iterable[Intervention]:
        seen = [one.data for one in moment.observations if "dishes" in one.data]
        return rule(moment, dict(seen[-1])) if seen else []

    return Ruled(with_dishes)


def play(agent: Agent, interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    return play_in(Kitchen(KitchenSettings.model_validate(settings)), agent, Task(0, seed=seed), interface)


def kept(interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    return play(PolicyAgent(KitchenController(), window=1), interface, seed, **settings)


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


CRITICAL = {"dish": "critical_narrow", "critical_narrow": {"window": (40, 40), "finish": (10, 10)}}
SOFT = {"dish": "soft_keepwarm", "soft_keepwarm": {"window": (40, 40), "warm": (100, 100), "finish": (10, 10)}}


@pytest.mark.parametrize(
    ("family", "after", "worth"),
    [
        (CRITICAL, 30, 1),  # finished in its last tick
        (CRITICAL, 31, 0),
        (SOFT, 130, 1),  # it keeps warm
        (SOFT, 131, 0),
        (SOFT | {"late": 0.5}, 131, 0.5),
    ],
)
def test_a_dish_counts_within_its_window_and_while_warm(family: dict[str, Any], after: float, worth: float) -> None:
    assert play(by(one_dish(after)), variant="one", jitter=0, **family).outcome["dishes"] == worth


def test_a_dish_that_is_finished_before_its_signal_is_raw() -> None:
    def rush(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        dish = seen["dishes"][0]["name"]
        if seen["dishes"][0]["state"] == "done":
            return [do("end")]
        return [do("prepare", dish=dish), do("stage", dish=dish), do("finish", dish=dish)]

    episode = play(by(rush), variant="one")
    assert episode.outcome["dishes"] == 0
    assert not observed(episode, "whistle", "timer")


def test_utility_is_what_is_served_and_explained_less_what_time_switches_and_checks_cost() -> None:
    def curious(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        return [do("check"), *one_dish(tutoring=True)(moment, seen)]

    for episode in (
        play(by(curious), variant="one"),
        kept(StepLoop()),
        kept(Reflex()),
        play(PolicyAgent(RandomPolicy()), budget=500),
    ):
        dishes = 1 if "soft" not in episode.outcome or "critical" not in episode.outcome else 3
        paid = sum(event.data["value"] for event in episode.events if event.name == "dish")
        assert paid == pytest.approx(dishes * episode.outcome["dishes"])
        costs = 0.001 * episode.ended + 0.02 * (episode.outcome["switches"] + episode.outcome["checks"])
        assert episode.utility == pytest.approx(paid + episode.outcome["problems"] - costs)
    assert play(by(curious), variant="one").outcome["checks"] > 0


def test_the_kitchen_is_the_same_whatever_the_agent_does() -> None:
    """Also when a dish whistles after it was put on the stove."""

    def cooked(episode: Episode) -> dict[str, float]:
        begun = {event.name: event.time for event in reversed(episode.events) if event.data.get("state") == "started"}
        staged = {name.removeprefix("stage "): time + 3 for name, time in begun.items() if name.startswith("stage ")}
        return {event.data["dish"]: event.time - staged[event.data["dish"]] for event in observed(episode, "whistle")}

    episodes = [kept(), kept(StepLoop()), kept(Polling(40)), kept(burners=1)]
    first, *others = (observed(episode, "kitchen")[0].data["dishes"] for episode in episodes)
    assert others == [first] * 3
    assert cooked(episodes[0])
    assert all(cooked(episode) == cooked(episodes[0]) for episode in episodes)


def test_the_reflex_acts_before_the_agent_and_on_critical_dishes_first() -> None:
    def neglect(moment: Moment, seen: dict[str, Any]) -> Iterable[Intervention]:
        """Put two dishes on the stove, and be busy when both are ready."""
        names = [dish["name"] for dish in seen["dishes"]]
        if moment.now == 0:
            return [do(what, dish=name) for name in names[:2] for what in ("prepare", "stage")]
        return [do("tutor")] if seen["hand"] == "" and any(not one["done"] for one in seen["problems"]) else []

    settings: dict[str, Any] = {"case": "soft_vs_critical_conflict", "jitter": 0, "time_per_token": 0}
    assert play(by(neglect), **settings).outcome["dishes"] == 0
    episode = play(by(neglect), Reflex(), **settings)
    done = [event for event in episode.events if event.kind == "reflex"]
    assert [event.name for event in done] == ["finish", "finish"]
    assert episode.outcome["dishes"] == pytest.approx(2 / 3)
    timer, whistle = observed(episode, "timer")[0], observed(episode, "whistle")[0]
    assert [event.time for event in done] == sorted([timer.time, whistle.time])


@pytest.mark.parametrize("interface", [EventDriven(), StepLoop(), Polling(40), Reflex()], ids=str)
def test_the_rule_explains_all_asks_for_nothing_impossible_and_ends_at_the_budget(interface: Interface) -> None:
    for seed in range(5):
        episode = kept(interface, seed)
        assert (episode.finish, episode.outcome["problems"]) == ("finished", 3)
        # A reflex can get ahead of what the agent has decided meanwhile.
        assert isinstance(interface, Reflex) or not refusals(episode)
        assert not [turn for turn in episode.turns if turn.failures]
    assert kept(interface, budget=300).ended == 300


# -- tutoring: what was said stays said, any policy explains, any file of exercises will do ----------------------------


def teach(*stretches: int | None, policy: Policy | None = None, **settings: Any) -> Episode:
    """The tutor explains, in stretches of so many tokens."""
    left = list(stretches)

    def rule(moment: Moment) -> list[Intervention]:
        if not left:
            return [do("end")]
        tokens = left.pop(0)
        return [do("tutor") if tokens is None else do("tutor", tokens=tokens)]

    chosen = KitchenSettings.model_validate({"variant": "one", "lesson": "short", **settings})
    return play_in(Kitchen(chosen, tutor=policy), Ruled(rule), Task(0, seed=5))


def said(episode: Episode) -> list[str]:
    return [turn.text for turn in episode.turns if turn.seat == "tutor"]


def written(**settings: Any) -> str:
    """What would be said without a break."""
    (whole,) = said(teach(None, **settings))
    return whole


def test_an_explanation_in_stretches_is_the_explanation_word_for_word() -> None:
    whole = teach(None)
    broken = teach(7, 40, None)
    assert "".join(said(broken)) == "".join(said(whole))
    assert [len(pieces_of(text)) for text in said(broken)[:2]] == [7, 40]
    assert broken.ended == whole.ended == len(pieces_of(said(whole)[0]))
    figures = {name: broken.outcome[name] for name in ("stretches", "interrupted", "resumed", "restarted", "problems")}
    assert figures == {"stretches": 3, "interrupted": 2, "resumed": 2, "restarted": 0, "problems": 1}


def test_the_tutor_is_shown_what_was_said_and_nothing_of_the_kitchen() -> None:
    asked: list[str] = []

    class Listening(Policy):
        async def generate(self, request: Request) -> Generation:
            asked.append("\n".join(message.content for message in request.messages))
            words = [f" w{number}" for number in range(request.sampling.max_tokens or 0)]
            return Generation("".join(words), count=len(words), pieces=tuple(words))

    episode = teach(25, None, policy=Listening())
    assert episode.outcome["problems"] == 1
    assert "w24" in asked[1]
    assert "w25" not in asked[1]
    assert not any(word in text for text in asked for word in ("kitchen", "dish", "stove", "<tutor"))


def test_a_tutor_is_named_in_the_settings_and_cut_where_the_problem_ends() -> None:
    length = len(pieces_of(written()))
    endless = teach(None, policy=ScriptedPolicy(ScriptedSettings(replies=("on and on " * 500,))))
    assert endless.ended == length
    assert [turn.finish for turn in endless.turns if turn.seat == "tutor"] == ["length"]

    episode = teach(None, tutor="scripted", tutor_settings={"replies": ["It is twelve."]})
    assert said(episode) == ["It is twelve."]
    with pytest.raises(AgentfwError, match="skripted"):
        teach(None, tutor="skripted")
    with pytest.raises(SettingsError, match=r"environment\.tutor_settings\.replys"):
        teach(None, tutor="scripted", tutor_settings={"replys": ["x"]})


def exercises(folder: Path, lines: Iterable[str]) -> str:
    file = folder / "exercises.jsonl"
    file.write_text("\n".join(lines), "utf-8")
    return str(file)


def test_problems_are_made_of_any_file_of_questions_and_answers(tmp_path: Path) -> None:
    answer = "He has 4 + 5 = <<4+5=9>>9 apples, and he eats one of them on the way to school.\n#### 8"
    lines = [
        json.dumps({"question": f"How many,\u2028case {number}?", "answer": answer}, ensure_ascii=False)
        for number in range(40)
    ]
    text = written(exercises=exercises(tmp_path, lines))
    assert text.startswith("He has 4 + 5 = 9 apples")
    assert "The answer is 8." in text
    assert "<<" not in text


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"question": "?"}'], "line 1"),
        ([], "is empty"),
        (['{"question": "?", "answer": "8"}'], "no sheet of 90 to 150"),
    ],
)
def test_exercises_that_will_not_do_are_told(tmp_path: Path, lines: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        teach(None, exercises=exercises(tmp_path, lines))
    with pytest.raises(SettingsError, match="can't read"):
        teach(None, exercises=str(tmp_path / "nowhere"))
