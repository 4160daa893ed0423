"""The merchant world: plans are checked, analyses overlap, and references stand where they should."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import agentfw
from agentfw import Episode, Generation, Host, Intervention, Moment, Observation, Policy, Request, Task
from agentfw_papers.worlds.merchant.engine import Results, carry_out
from agentfw_papers.worlds.merchant.environment import MerchantMarket
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.plan import MOST_STEPS, Step, plan_of
from agentfw_papers.worlds.merchant.rewards import MerchantBase, MerchantPersonal
from agentfw_papers.worlds.merchant.scoring import needless_steps, score_report
from agentfw_papers.worlds.merchant.skills import SKILLS
from agentfw_papers.worlds.merchant.teacher import TeacherPolicy, TeacherSettings
from agentfw_papers.worlds.merchant.team_policy import TeamPolicy, TeamSettings
from agentfw_papers.worlds.merchant.written_report import make_report
from agentfw_plugins.policies.scripted import ScriptedPolicy

from ..playing import Read
from ..playing import play as play_in


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


def play(task: Task, player: Any = None, **settings: Any) -> Episode:
    """By a policy, or by a rule. Default: what the world demonstrates."""
    policy = player if isinstance(player, Policy) else ScriptedPolicy(rule=player) if player else ScriptedPolicy()
    return play_in(world(**settings), policy, task)


def tasks(count: int) -> list[Task]:
    return list(world().tasks(count, 7, "test"))


def as_steps(plan: Iterable[Step]) -> list[dict[str, Any]]:
    return [step.model_dump() for step in plan]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "no steps"),
        ([{"id": "a", "skill": "risk_sreen"}], 'did you mean "risk_screen"'),
        ([{"id": "a", "skill": "sales_forecast"}], "needs a step of category_trend"),
        ([{"id": one, "skill": "risk_screen", "needs": [other]} for one, other in ("ab", "ba")], "in a circle: a -> b"),
        ([{"id": "s1", "skill": "risk_screen", "needs": ["s2"]}], '"s2", which is no step'),
        ([{"id": "a", "skill": "risk_screen"}] * 2, "two steps have the id a"),
        ([{"id": str(number), "skill": "risk_screen"} for number in range(11)], f"at most {MOST_STEPS}"),
        ([{"id": "a", "skill": "category_trend", "arguments": {"months": 99}}], "from 2 to 24"),
        ([{"id": "a", "skill": "price_band", "arguments": {"months": 9}}], "takes no arguments"),
        ([{"id": 7, "skill": "risk_screen"}], "id: Input should be a valid string"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_words(steps: list[dict[str, Any]], says: str) -> None:
    rule = Planner(steps)

    episode = play(tasks(1)[0], rule)

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

        episode = play(tasks(number + 1)[number], Planner(as_steps(plan)), outages=0)

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
    forecast = as_steps(plan_of(["sales_forecast"]))
    rule = Planner(forecast, forecast, [{"id": "x", "skill": "risk_screen"}])

    episode = play(tasks(1)[0], rule, outages=1)

    told = [one.data for one in rule.heard if one.name == "evidence"]
    assert [len(one["failed"]) for one in told] == [2, 0]
    assert any("revised once" in str(one.data.get("reason")) for one in rule.heard)
    assert episode.outcome["failed_steps"] == 0


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
    episode = play(tasks(1)[0])
    episode.outcome = read = Read(episode.outcome)
    scores = [score for model in (MerchantBase(), MerchantPersonal()) for score in asyncio.run(model.score([episode]))]

    assert {score.track for score in scores if score.component == "profile_match"} == {"personal"}
    assert all(0 <= score.value <= 1 for score in scores)
    assert read.names == {"authenticity", "logic", "completion", "depth", "visible_profile_match"}


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


# -- cards for models with a short memory, and the teacher that plans from them ----------------------------------------


def test_a_plan_is_worth_the_same_whatever_the_style_of_its_request() -> None:
    for task in tasks(12):
        full, card = (play(task, style=style) for style in ("full", "card"))

        assert full.outcome == card.outcome
        assert max(len(one.content) for one in card.messages if one.role == "user") < 700


def test_the_teacher_repeats_what_failed() -> None:
    teacher = TeacherPolicy(TeacherSettings(share=1.0))

    for task in tasks(20):
        often, never = (play(task, teacher, style="card", outages=outages) for outages in (0.3, 0.0))

        assert often.outcome["authenticity"] == never.outcome["authenticity"]
        assert often.outcome["logic"] == never.outcome["logic"]
        assert len(often.turns) == (3 if often.outcome["failed_steps"] else 2)


# -- reports that a policy writes: their claims are compared with the evidence -----------------------------------------


WRITTEN: dict[str, Any] = {"report": "agent", "outages": 0.0}


class Writer(Policy):
    """Writes reports with a function of what it is asked."""

    is_program = True

    def __init__(self, write: Callable[[str], str]) -> None:
        self.write = write

    async def generate(self, request: Request) -> Generation:
        return Generation(text=self.write(request.messages[-1].content), count=1)


def team(write: Callable[[str], str]) -> TeamPolicy:
    planner = {"name": "scripted", "settings": {}}
    made = TeamPolicy(TeamSettings.model_validate({"planner": planner, "reporter": planner}), Host.load())
    made.reporter = Writer(write)
    return made


def copied(asked: str) -> str:
    """A report that copies the first figure of each step, and the product that the first ranking puts first."""
    lines, best = [], ""
    for line in asked.partition("evidence:\n")[2].splitlines():
        if not line.startswith("- "):
            break
        step, _, found = line.removeprefix("- ").partition(": ")
        figures = found.split(", ")
        lines.append(f"{SKILLS[step].topic or 'besides'}: {figures[0].rsplit(' ', 1)[1]} [{step}]")
        places = {one.split(" at ")[0]: float(one.split(" at ")[1]) for one in figures if " at " in one}
        if places and not best:
            product = max(places, key=lambda one: places[one])
            best = f"{product} {places[product]} [{step}]"
    candidates = asked.partition("candidates: ")[2].partition("\n")[0].split(", ")
    return "\n".join([*lines, f"Recommended: {best or candidates[0]}"])


def test_invented_figures_cost_authenticity_and_copied_ones_do_not() -> None:
    task = next(task for task in tasks(20) if world().merchants.merchant(task.user).stated)

    honest = play(task, team(copied), **WRITTEN)
    invented = play(task, team(lambda asked: copied(asked).replace(": 0", ": 7").replace(": 1", ": 8")), **WRITTEN)

    assert honest.outcome["authenticity"] == 4.0
    assert invented.outcome["authenticity"] < 2.0
    assert honest.outcome["logic"] == invented.outcome["logic"] == 4.0


def test_a_report_without_a_recommendation_is_refused_and_can_be_written_again() -> None:
    attempts: list[str] = []

    def write(asked: str) -> str:
        attempts.append(asked)
        return copied(asked) if len(attempts) > 1 else "Sales are fine."

    episode = play(tasks(1)[0], team(write), **WRITTEN)

    assert episode.outcome["score"] > 0
    assert "must end with `Recommended:" in attempts[1]
    assert "evidence:" in attempts[1]


NO_REPORTS = ("", "Recommended: " * 2000, "demand: 1e999 [category_trend]\nRecommended: x", "a: 1 [" * 5000)


@pytest.mark.parametrize("text", NO_REPORTS)
def test_text_that_is_no_report_ends_without_a_score(text: str) -> None:
    assert play(tasks(1)[0], team(lambda asked: text), **WRITTEN).outcome["score"] == 0.0


# -- wishes are read from what users say, so that a memory and a world's policy understand each other ------------------


def test_a_merchant_whose_wishes_are_remembered_is_served_better(tmp_path: Path) -> None:
    """Merchants of whom nothing is known beforehand, by the policy and the memory that the world starts with."""
    pytest.importorskip("igraph")
    few = {"environment.stated": 0.0, "environment.test_merchants": 6, "concurrency": 6}
    both = [{**few, "memory.skillgraph.evolve": evolve} for evolve in (True, False)]
    remembered, forgotten = (
        agentfw.run("merchant", episodes=48, settings=settings, runs=tmp_path / str(place))
        for place, settings in enumerate(both)
    )
    assert remembered.figures["score"].low > forgotten.figures["score"].estimate
