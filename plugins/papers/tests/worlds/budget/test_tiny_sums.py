"""The model that ships for sums: it solves them and takes no notice of the budget."""

from __future__ import annotations

import asyncio
from statistics import fmean

import pytest

from agentfw.episode import Episode
from agentfw.policy import Sampling
from agentfw.turns.engagement import Engagement
from agentfw.turns.policy_agent import PolicyAgent
from agentfw_papers.worlds.budget.environment import Budget
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings


def solve(model: str, count: int, split: str) -> list[Episode]:
    policy = TinyPolicy(TinySettings(model=model))

    async def each() -> list[Episode]:
        agents = [PolicyAgent(policy, sampling=Sampling(temperature=1.0, max_tokens=256)) for _ in range(count)]
        tasks = Budget().tasks(count, 11, split)
        both = zip(agents, tasks, strict=True)
        return await asyncio.gather(*(Engagement(Budget(), agent).run(task) for agent, task in both))

    return asyncio.run(each())


@pytest.mark.slow
def test_it_solves_sums_that_it_has_not_seen_and_takes_no_notice_of_the_budget() -> None:
    outcomes = [episode.outcome for episode in solve("tiny-sums", 200, "validation")]
    tokens = {
        budget: fmean(one["tokens"] for one in outcomes if f"tokens@{budget}" in one) for budget in (16, 32, 48, 64)
    }
    assert fmean(one["correct"] for one in outcomes) > 0.6
    assert max(tokens.values()) < 1.5 * min(tokens.values())
    assert fmean(one["within"] for one in outcomes if "within@16" in one) < 0.5
