"""Reports that a policy writes: their claims are compared with the evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentfw import Engagement, Episode, Generation, Host, Policy, PolicyAgent, Request, Task
from agentfw_papers.worlds.merchant.environment import MerchantMarket
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.skills import SKILLS
from agentfw_papers.worlds.merchant.team_policy import TeamPolicy, TeamSettings


def world(**settings: Any) -> MerchantMarket:
    return MerchantMarket(MerchantSettings.model_validate({"outages": 0.0, **settings}))


def play(task: Task, policy: Policy, **settings: Any) -> Episode:
    return asyncio.run(Engagement(world(**settings), PolicyAgent(policy)).run(task))


class Writer(Policy):
    """Writes reports with a function of what it is asked."""

    is_program = True

    def __init__(self, write: Callable[[str], str]) -> None:
        self.write = write
        self.asked: list[str] = []

    async def generate(self, request: Request) -> Generation:
        self.asked.append(request.messages[-1].content)
        return Generation(text=self.write(self.asked[-1]), count=1)


def team(write: Callable[[str], str]) -> TeamPolicy:
    planner = {"name": "scripted", "settings": {}}
    made = TeamPolicy(
        TeamSettings.model_validate({"planner": planner, "reporter": planner}),
        Host.load(),
    )
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
    task = next(task for task in world().tasks(20, 7, "test") if world().merchants.merchant(task.user).stated)

    honest = play(task, team(lambda asked: copied(asked)), report="agent")
    invented = play(task, team(lambda asked: copied(asked).replace(": 0", ": 7").replace(": 1", ": 8")), report="agent")

    assert honest.outcome["authenticity"] == 4.0
    assert invented.outcome["authenticity"] < 2.0
    assert honest.outcome["logic"] == invented.outcome["logic"] == 4.0


def test_a_report_without_a_recommendation_is_refused_and_can_be_written_again() -> None:
    (task,) = world().tasks(1, 7, "test")
    attempts: list[str] = []

    def write(asked: str) -> str:
        attempts.append(asked)
        return copied(asked) if len(attempts) > 1 else "Sales are fine."

    episode = play(task, team(write), report="agent")

    assert episode.outcome["score"] > 0
    assert "must end with `Recommended:" in attempts[1]
    assert "evidence:" in attempts[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Recommended: " * 2000,
        "demand: 1e999 [category_trend]\nRecommended: x",
        "\n" * 50_000,
        "a" * 100_000,
        "a: 1 [" * 5000,
    ],
)
def test_text_that_is_no_report_ends_without_a_score(text: str) -> None:
    (task,) = world().tasks(1, 7, "test")

    episode = play(task, team(lambda asked: text), report="agent")

    assert episode.outcome["score"] == 0.0
