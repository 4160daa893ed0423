"""The model that ships for the assistant: it knows how to serve users that it has never seen, and not yet what pays."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from statistics import fmean

import pytest

from agentfw import Engagement, Episode, Host, PolicyAgent
from agentfw.request import Sampling
from agentfw_papers.loops import read_loop
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings


@pytest.mark.slow
def test_it_serves_users_it_has_not_met_and_is_unsure_what_is_worth_doing() -> None:
    settings = AssistantSettings(style="card", difficulty="hard")
    policy = TinyPolicy(TinySettings(model="tiny-assistant"))

    async def serve(count: int) -> list[Episode]:
        agents = [PolicyAgent(policy, sampling=Sampling(temperature=1.0, max_tokens=64)) for _ in range(count)]
        both = zip(agents, Assistant(settings).tasks(count, 11, "test"), strict=True)
        return await asyncio.gather(*(Engagement(Assistant(settings), agent).run(task) for agent, task in both))

    played = asyncio.run(serve(48))

    turns = [turn for episode in played for turn in episode.turns]
    assert fmean(len(turn.calls) == 1 and not turn.failures for turn in turns) >= 0.95
    # Half of the faults are given up, so some requests are perfect and others are not.
    assert 0.1 <= fmean(episode.outcome["procedure"] == 5.0 for episode in played) <= 0.7
    assert fmean(episode.outcome["claimed_falsely"] for episode in played) <= 0.15
    right = [
        dict(re.findall(r"([\w-]+)=([A-E]+|none)", episode.messages[turn.shown[-1]].content)).get(value) == letters
        for episode in played
        for turn in episode.turns
        for value, letters in re.findall(r"(?:own|several|stated|no) ([\w-]+) ([A-E]+|none)", turn.text)
    ]
    # One of 32 sets of letters would be right by chance.
    assert len(right) > 30
    assert fmean(right) > 0.6


def test_its_loop_can_be_done() -> None:
    host = Host.load()

    read_loop(Path(host.find_spec("loop-tiny-assistant").path)).check(host)
