"""The merchant world: plans are checked, analyses overlap, and references stand where they should."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from statistics import fmean
from typing import Any

import pytest

from agentfw import Engagement, Episode, Intervention, Moment, Observation, PolicyAgent, Task
from agentfw_papers.worlds.merchant.engine import Results, carry_out
from agentfw_papers.worlds.merchant.environment import MerchantMarket
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.plan import MOST_STEPS, Step, plan_of
from agentfw_papers.worlds.merchant.rewards import MerchantBase, MerchantPersonal
from agentfw_papers.worlds.merchant.scoring import needless_steps, score_report
from agentfw_papers.worlds.merchant.skills import SKILLS
from agentfw_papers.worlds.merchant.written_report import make_report
from agentfw_plugins.policies.scripted import ScriptedPolicy


def world(**settings: Any) -> MerchantMarket:
    return MerchantMarket(MerchantSettings.model_validate(settings))


class Planner:
    """Carries out given turns, one after the other, and then reports."""

    def __init__(self, *turns: list[dict[str, Any]]) -> None:
        self.turns = list(turns)
        self.heard: list[Observation] = []

    def __call__(self, moment: Moment) -> Iterable[Intervention | str]:
        self.heard += moment.observations
        if self.turns:
            yield Intervention("plan", {"steps": self.turns.pop(0)})
        else:
            yield Intervention("report")


def play(task: Task, rule: Any = None, **settings: Any) -> Episode:
    policy = ScriptedPolicy(rule=rule) if rule else ScriptedPolicy()
    return asyncio.run(Engagement(world(**settings), PolicyAgent(policy)).run(task))


def a_task(index: int = 0, split: str = "test", **settings: Any) -> Task:
    return world(**settings).tasks(index + 1, 7, split)[index]


def as_steps(plan: Iterable[Step]) -> list[dict[str, Any]]:
    return [step.model_dump() for step in plan]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "no steps"),
        ([{"id": "a", "skill": "risk_sreen"}], 'did you mean "risk_screen"'),
        ([{"id": "a", "skill": "sales_forecast"}], "needs a step of category_trend"),
        (
            [
                {"id": "a", "skill": "risk_screen", "needs": ["b"]},
                {"id": "b", "skill": "price_band", "needs": ["a"]},
            ],
            "in a circle: a -> b -> a",
        ),
        ([{"id": "a", "skill": "risk_screen", "needs": ["a"]}], "in a circle: a -> a"),
        ([{"id": "s1", "skill": "risk_screen", "needs": ["s2"]}], '"s2", which is no step'),
        ([{"id": "a", "skill": "risk_screen"}] * 2, "two steps have the id a"),
        ([{"id": str(number), "skill": "risk_screen"} for number in range(11)], f"at most {MOST_STEPS}"),
        ([{"id": "a", "skill": "category_trend", "arguments": {"months": 99}}], "from 2 to 24"),
        ([{"id": "a", "skill": "price_band", "arguments": {"months": 9}}], "takes no arguments"),
        ([{"id": 7, "skill": "risk_screen"}], "id: Input should be a valid string"),
        ([{"id": str(number), "skill": "risk_screen"} for number in range(10_000)], "at most 100 items"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_words(steps: list[dict[str, Any]], says: str) -> None:
    rule = Planner(steps)

    episode = play(a_task(), rule)

    reasons = [str(one.data.get("reason")) for one in rule.heard if one.name == "refused"]
    assert len(reasons) == 1
    assert says in reasons[0]
    assert episode.outcome["steps"] == 0
    assert episode.outcome["authenticity"] == 0


def test_independent_steps_overlap_so_a_plan_takes_as_long_as_its_longest_path() -> None:
    draw = random.Random(5)
    for number in range(60):
        plan = plan_of(draw.sample(sorted(SKILLS), draw.randint(1, 5)))
        if len(plan) > MOST_STEPS:
            continue
        ends: dict[str, float] = {}
        for step in plan:
            ends[step.id] = SKILLS[step.skill].takes + max((ends[need] for need in step.needs), default=0.0)

        episode = play(a_task(number), Planner(as_steps(plan)), outages=0)

        assert episode.outcome["critical_path"] == max(ends.values())
        assert episode.outcome["steps"] == len(plan)


def test_a_failed_step_fails_what_needs_it_and_nothing_else() -> None:
    env = world()
    order = env.merchants.order("test 0", 1)
    results = Results()

    plan = plan_of(["category_trend", "sales_forecast", "capacity_fit", "risk_screen"])
    carry_out(plan, results, env.analyses, order.category, order.merchant, outages={"category_trend"})

    assert set(results.failures) == {"category_trend", "sales_forecast", "capacity_fit"}
    assert set(results.evidence) == {"risk_screen"}


def test_what_failed_can_be_planned_again_once() -> None:
    rule = Planner(
        as_steps(plan_of(["sales_forecast"])),
        as_steps(plan_of(["sales_forecast"])),
        [{"id": "x", "skill": "risk_screen"}],
    )

    episode = play(a_task(), rule, outages=1)

    told = [one.data for one in rule.heard if one.name == "evidence"]
    assert [len(one["failed"]) for one in told] == [2, 0]
    assert any("revised once" in str(one.data.get("reason")) for one in rule.heard)
    assert episode.outcome["failed_steps"] == 0


@pytest.mark.slow
def test_references_stand_where_they_should() -> None:
    env = world()
    found: dict[str, list[float]] = {}
    for task in env.tasks(288, 7, "test"):
        for name, figures in env.references(task).items():
            found.setdefault(name, []).append(figures["score"])
    means = {name: fmean(values) for name, values in found.items()}

    assert means["nothing planned"] < means["fixed plan"] - 0.1
    assert means["fixed plan"] <= means["knows the truth"] - 0.1
    assert means["all analyses"] < means["knows the truth"]
    assert means["fixed plan"] < means["stated profile"] < means["knows the truth"]


def test_merchants_with_one_query_are_asked_about_the_same_products() -> None:
    merchants = world().merchants
    by_query: dict[str, set[tuple[str, ...]]] = {}
    for number in range(240):
        name = f"train {number}"
        by_query.setdefault(merchants.query(name, 1), set()).add(merchants.order(name, 1).candidates)

    assert all(len(candidates) == 1 for candidates in by_query.values())
    assert len(by_query) < 60


def test_rewards_read_the_visible_view_only() -> None:
    read: set[str] = set()

    class Outcome(dict[str, float]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return super().get(name, default)

    episode = play(a_task())
    episode.outcome = Outcome(episode.outcome)
    scores = [score for model in (MerchantBase(), MerchantPersonal()) for score in asyncio.run(model.score([episode]))]

    assert {score.track for score in scores if score.component == "profile_match"} == {"personal"}
    assert all(0 <= score.value <= 1 for score in scores)
    assert read == {"authenticity", "logic", "completion", "depth", "visible_profile_match"}


def test_a_claim_without_evidence_and_an_analysis_without_use_cost() -> None:
    env = world()
    order = env.merchants.order("test 0", 1)
    parts = list(order.kind.parts.values())

    def scored(skills: list[str], **options: Any) -> Any:
        results, plan = Results(), plan_of(skills, **options)
        carry_out(plan, results, env.analyses, order.category, order.merchant)
        report = make_report(order, results, env.merchants.fame[order.category])
        return score_report(report, results, order, env.merchants, len(plan)), needless_steps(results, order)

    ranked = [*parts, "price_band"]
    full, _ = scored(ranked)
    fewer, _ = scored(ranked[1:])
    unlinked, _ = scored(ranked, unlinked=list(SKILLS))
    opposite, needless = scored([*ranked, "sales_forecast"])

    assert full.authenticity == full.completion == full.logic == 4
    assert fewer.authenticity < 4 > fewer.completion
    assert unlinked.logic < 4 == unlinked.authenticity
    assert "sales_forecast" in needless
    assert opposite.depth < full.depth
