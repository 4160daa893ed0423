"""The model that ships for the proactive world: right about actions, unsure about timing, and able to learn it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import fmean

import pytest

from agentfw import Engagement, Episode, Host, PolicyAgent
from agentfw.request import Sampling
from agentfw.runs import read_spec
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings


@pytest.mark.slow
def test_it_follows_people_it_has_not_met_and_is_unsure_when_to_be_ready() -> None:
    spec = read_spec(Path(Host.load().find_spec("train-proactive").path))
    settings = ProactiveSettings.model_validate(spec["environment"]["settings"])
    policy = TinyPolicy(TinySettings(model="tiny-proactive"))

    async def follow(count: int) -> list[Episode]:
        tasks = Proactive(settings).tasks(count, 11, "test")
        agents = [PolicyAgent(policy, sampling=Sampling(temperature=1.0, max_tokens=96)) for _ in tasks]
        both = zip(agents, tasks, strict=True)
        return await asyncio.gather(*(Engagement(Proactive(settings), agent).run(task) for agent, task in both))

    outcomes = [episode.outcome for episode in asyncio.run(follow(100))]

    def mean_of(figure: str) -> float:
        return fmean(one[figure] for one in outcomes if figure in one)

    # Means over 100 turns; the standard error of each is below 0.05.
    assert mean_of("format") >= 0.99
    assert mean_of("ac") >= 0.6
    assert 0.2 <= mean_of("rar") <= 0.6
