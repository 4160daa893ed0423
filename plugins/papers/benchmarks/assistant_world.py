"""What the world of the assistant must hold before anything is learned in it, at full size.

    python plugins/papers/benchmarks/assistant_world.py
    python plugins/papers/benchmarks/assistant_world.py --rows references faults --json
    python plugins/papers/benchmarks/assistant_world.py --share 0.02                       # the same, quickly

| row | required |
| --- | --- |
| repeat | 1,000 episodes in two orders: equal bytes; the digest is the same on every machine |
| references | satisfaction of test users: random 0.50 ± 0.02, most famous <= 0.60, stated <= 0.70, truth 1 |
| faults | the solver ends 2,000 hard requests with procedure 5 |
| calls | 10,000 random sequences of calls break no rule of the apps |
| outputs | 20,000 mutated outputs of a model get an observation each |
| views | the visible and the true personal mark correlate, by 0.3 to 0.7 |
| model | the preference model's interest branch and the hidden interest: >= 0.45 for train, >= 0.25 for newcomers |
| beyond | with `beyond_average`, the reward goes by fame at most half as much, and by hidden interest not less |
| speed | 300 episodes a second of CPU, scripted |
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy

from agentfw import Engagement, Episode, Generation, Intervention, Moment, Policy, PolicyAgent, Request, Task
from agentfw.report.statistics import bootstrap
from agentfw_benchmarks import Options, outcomes_of_references
from agentfw_papers.rewards.log_preference import LogPreferenceSettings
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.catalogue import Catalogue, Item
from agentfw_papers.worlds.assistant.domains import load_domains
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_papers.worlds.assistant.linear_policy import LinearPolicy, LinearSettings
from agentfw_papers.worlds.assistant.people import People
from agentfw_papers.worlds.assistant.preference_reward import AssistantPreference
from agentfw_plugins.policies.scripted import ScriptedPolicy
from agentfw_rewardmodels import PreferenceModel


@dataclass(frozen=True, slots=True)
class Found:
    """What a row found, in words and as figures."""

    met: bool
    text: str
    figures: dict[str, float | str]


def world(**settings: Any) -> Assistant:
    return Assistant(AssistantSettings.model_validate(settings))


def play(task: Task, policy: Policy, **settings: Any) -> tuple[Assistant, Episode]:
    environment = world(**settings)
    return environment, asyncio.run(Engagement(environment, PolicyAgent(policy)).run(task))


def tasks(count: int, split: str = "test", **settings: Any) -> Sequence[Task]:
    return world(**settings).tasks(count, 7, split)


def repeat(share: float) -> Found:
    every = tasks(round(1000 * share))

    def digests(order: Iterable[Task]) -> dict[str, bytes]:
        found = {}
        for task in order:
            record = play(task, ScriptedPolicy())[1].to_record()
            found[task.id] = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).digest()
        return found

    first, second = digests(every), digests(random.Random(1).sample(every, len(every)))
    digest = hashlib.sha256(b"".join(first[task.id] for task in every)).hexdigest()[:16]
    return Found(first == second, f"{len(every):,} episodes, digest {digest}", {"digest": digest})


def references(share: float) -> Found:
    environment = world()
    outcomes = outcomes_of_references(environment, environment.tasks(round(4000 * share), 7, "test"))
    means = {name: bootstrap([one["satisfaction"] for one in some]) for name, some in outcomes.items()}
    at = {name: one.estimate for name, one in means.items()}
    met = abs(at["random"] - 0.5) <= 0.02 and at["most famous"] <= 0.6 and at["stated profile"] <= 0.7
    text = ", ".join(f"{name} {one}" for name, one in means.items())
    return Found(met and at["knows the truth"] == 1.0, text, dict(at))


def faults(share: float) -> Found:
    played = [play(task, ScriptedPolicy(), difficulty="hard")[1] for task in tasks(round(2000 * share))]
    perfect = fmean(episode.outcome["procedure"] == 5.0 for episode in played)
    met = sum("recovered" in episode.outcome for episode in played)
    return Found(
        perfect == 1.0, f"procedure 5 in {perfect:.2%} of {len(played):,}, {met:,} with faults", {"perfect": perfect}
    )


_ODD = ("", "A", "B", "z", "AB", "9", "\ud800", "x" * 300, None, 7, ["A"], {"a": 1})


def calls(share: float) -> Found:
    names = [call for scenario in load_domains("").values() for call in scenario.calls]
    generator, count, broken = random.Random(7), round(10_000 * share), 0

    def anything(moment: Moment) -> Iterable[Intervention | str]:
        odd = generator.choice(_ODD)
        name = generator.choice([*names, "calendar_add", "mail_send", "mail_search", "ask", "nothing"])
        name = "answer" if generator.random() < 0.05 else name
        arguments: list[dict[str, Any]] = [{}, {"offer": odd}, {"scenario": "dining"}, {"scenario": odd}]
        arguments += [{"to": "guest", "text": "hello"}, {"text": odd}]
        return [Intervention(name, generator.choice(arguments))]

    for task in tasks(count, difficulty="hard"):
        environment, episode = play(task, ScriptedPolicy(rule=anything), difficulty="hard")
        apps = environment.apps
        asked = {part.scenario.name for part in apps.errand.parts}
        whole = set(apps.calendar) <= set(apps.chosen) <= asked and len(set(apps.sent)) == len(apps.sent)
        broken += not (whole and episode.finish == "finished" and 0 <= episode.outcome["judge"] <= 1)
    return Found(broken == 0, f"{broken} of {count:,} sequences broke a rule", {"broken": broken})


class Mutated(Policy):
    """Answers with a call as text, a few characters of which are wrong."""

    def __init__(self) -> None:
        self.made, self._generator = 0, random.Random(7)

    async def generate(self, request: Request) -> Generation:
        generator = self._generator
        action = generator.choice(request.actions)
        arguments = {name: generator.choice(["A", "guest", "dining", ""]) for name in action.parameters["properties"]}
        text = list(json.dumps({"name": action.name, "arguments": arguments}))
        for _ in range(generator.randrange(4)):
            place = generator.randrange(len(text))
            text[place : place + generator.randrange(3)] = generator.choice(["", "{", '"', "\x00", "\ud800", "é", "]"])
        self.made += 1
        return Generation("".join(text))


def outputs(share: float) -> Found:
    policy, wanted, silent, index = Mutated(), round(20_000 * share), 0, 0
    every = tasks(max(1, wanted))
    while policy.made < wanted:
        _, episode = play(every[index % len(every)], policy)
        index += 1
        answered = False
        for event in reversed(episode.events):
            answered = answered or event.kind == "observation"
            if event.kind == "seen":  # here a turn began; what follows came of it
                silent, answered = silent + (not answered), False
    return Found(silent == 0, f"{silent} of {policy.made:,} outputs got no observation", {"silent": silent})


def views(share: float) -> Found:
    policy = LinearPolicy(LinearSettings(recover=9, check=9))
    played = [play(task, policy)[1].outcome for task in tasks(round(2000 * share))]
    pairs = numpy.array([(one["visible_personal"], one["personal"]) for one in played])
    found = _correlation(*pairs.T)
    return Found(0.3 <= found <= 0.7, f"correlation {found:.3f} over {len(played):,} requests", {"correlation": found})


def model(share: float) -> Found:
    """One world at full size, with a model of the loop's size."""
    people, items, fitted = _fitted(share, beyond_average=False)

    def correlation(user: str) -> float:
        found = fitted.score_items([user] * len(items), [item.id for item in items]).interest_z
        return _correlation(found, [people.person(user).interest(item) for item in items])

    known, new = ([correlation(user) for user in people.names(split)] for split in ("train", "test"))
    met = fmean(known) >= 0.45 and fmean(new) >= 0.25
    return Found(
        met, f"train {bootstrap(known)}, newcomers {bootstrap(new)}", {"train": fmean(known), "newcomers": fmean(new)}
    )


def beyond(share: float) -> Found:
    """What the reward of the preference model goes by."""
    found, words = dict[str, float | str](), []
    for beyond_average in (False, True):
        people, items, fitted = _fitted(share, beyond_average=beyond_average)
        when = "beyond the average" if beyond_average else "plain"
        for split in ("train", "test"):
            by = dict[str, list[float]](interest=[], fame=[])
            for user in people.names(split):
                rewards = fitted.score_items([user] * len(items), [item.id for item in items]).reward
                by["interest"].append(_correlation(rewards, [people.person(user).interest(item) for item in items]))
                by["fame"].append(_correlation(rewards, [item.fame for item in items]))
            found |= {f"{when}, {split}, {name}": fmean(values) for name, values in by.items()}
            words.append(f"{when}, {split}: " + ", ".join(f"{name} {bootstrap(some)}" for name, some in by.items()))
    plain, own = (
        {name: float(found[f"{when}, train, {name}"]) for name in ("interest", "fame")}
        for when in ("plain", "beyond the average")
    )
    met = own["fame"] <= plain["fame"] / 2 and own["interest"] >= plain["interest"]
    return Found(met, "; ".join(words), found)


def _fitted(share: float, *, beyond_average: bool) -> tuple[People, list[Item], PreferenceModel]:
    settings = AssistantSettings()
    with TemporaryDirectory() as work:
        home = Path(work) / "model"
        epochs = max(1, round(100 * share))
        AssistantPreference(LogPreferenceSettings(model=str(home), epochs=epochs, beyond_average=beyond_average))
        return People(settings), list(Catalogue(settings).by_id.values()), PreferenceModel.load(home)


def _correlation(one: Any, other: Any) -> float:
    return float(numpy.corrcoef(one, other)[0, 1])


def speed(share: float) -> Found:
    every = tasks(round(1000 * share))
    environments = [world() for _ in every]

    async def all_of_them() -> None:
        for task, environment in zip(every, environments, strict=True):
            await Engagement(environment, PolicyAgent(ScriptedPolicy())).run(task)

    began = time.process_time()
    asyncio.run(all_of_them())
    found = len(every) / (time.process_time() - began)
    return Found(found >= 300, f"{found:.0f} episodes a second of CPU", {"episodes_per_second": found})


ROWS: dict[str, Callable[[float], Found]] = {
    function.__name__: function
    for function in (repeat, references, faults, calls, outputs, views, model, beyond, speed)
}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, share=(1.0, "share of the full size"))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    options = parser.parse_args(arguments)
    result: dict[str, Any] = {}
    for name in options.rows:
        one = ROWS[name](options.share)
        result[name] = {"met": one.met, **one.figures}
        if not options.json:
            print(f"{name:<11} {'met' if one.met else 'SHORT':<6} {one.text}", flush=True)
    if options.json:
        print(json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
