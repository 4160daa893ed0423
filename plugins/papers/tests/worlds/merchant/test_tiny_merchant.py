"""The model that ships for the merchant world: its plans can be carried out, and do half of what they should."""

from __future__ import annotations

import asyncio
from statistics import fmean

import pytest

from agentfw import Engagement, Episode, PolicyAgent
from agentfw.request import Sampling
from agentfw_papers.worlds.merchant.environment import MerchantMarket
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.plan import plan_of
from agentfw_papers.worlds.merchant.skills import SKILLS
from agentfw_papers.worlds.merchant.tastes import TASTES
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings


@pytest.mark.slow
def test_it_plans_for_merchants_it_has_not_met_and_does_half_of_what_it_should() -> None:
    settings, policy = MerchantSettings(style="card", outages=0.0), TinyPolicy(TinySettings(model="tiny-merchant"))

    async def play(count: int) -> list[Episode]:
        tasks = MerchantMarket(settings).tasks(count, 11, "test")
        agents = [PolicyAgent(policy, sampling=Sampling(temperature=1.0, max_tokens=128)) for _ in tasks]
        both = zip(agents, tasks, strict=True)
        return await asyncio.gather(*(Engagement(MerchantMarket(settings), agent).run(task) for agent, task in both))

    episodes = asyncio.run(play(100))

    covered, unreadable, strays = [], 0, 0
    for episode in episodes:
        request = next(event.data for event in episode.events if event.name == "request")
        first = episode.turns[0]
        steps = [str(step.get("skill")) for call in first.calls for step in call.arguments.get("steps", ())]
        asked = [skill.name for skill in SKILLS.values() if skill.topic in request["topics"]]
        thought = first.text.partition("\n")[0]
        covered += [SKILLS[name].topic in thought.partition(";")[0] for name in asked]
        wished = {TASTES[name].skill for name in request["stated"].values()}
        useful = {step.skill for step in plan_of([*asked, *wished])}
        unreadable += bool(first.failures or any(call.id in episode.failed_calls for call in first.calls))
        strays += not set(steps) <= useful
    # 400 topics, with a standard error of 0.025; and 100 plans, of which 2 and 20 were measured.
    assert 0.35 < fmean(covered) < 0.65
    assert unreadable <= 10
    assert strays <= 35
