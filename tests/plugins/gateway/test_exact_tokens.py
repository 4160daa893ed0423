"""What is recorded of a session are exactly the tokens that the policy drew."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from agentfw import Generation, Message, Request
from agentfw.request import Sampling
from agentfw.runs import read_sessions
from agentfw_plugins.gateway.app import Gateway
from agentfw_plugins.gateway.live import opened
from agentfw_plugins.gateway.sessions.session_finder import LiveSessionFinder
from agentfw_plugins.policies.http.openai_policy import OpenAIPolicy, OpenAISettings
from agentfw_plugins.serving import serving

from .conftest import served
from .random_sessions import Noting, lead

SESSIONS = 4


@pytest.mark.slow
def test_recorded_tokens_are_those_that_were_drawn_and_a_learner_agrees(small_model: Path, tmp_path: Path) -> None:
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    live = opened(tmp_path, policy="transformers", assignments=[f"policy.model={small_model}", "policy.device=cpu"])
    noting = Noting(live.assembly.policy.inside)
    live.assembly.policy.inside = noting

    async def run() -> None:
        async with (
            live,
            httpx.AsyncClient(timeout=60) as client,
            serving(Gateway(LiveSessionFinder(live)).app, "127.0.0.1", 0) as url,
        ):
            await asyncio.gather(*(lead(client, f"{url}/s/s{i}/v1", i) for i in range(SESSIONS)))

    asyncio.run(run())
    turns = [turn for episode in read_sessions(live.folder.path) for turn in episode.turns]

    drawn = sorted((one.prompt_ids, one.token_ids, one.logprobs) for one in noting.drawn)
    assert sorted((turn.prompt_ids, turn.token_ids, turn.logprobs) for turn in turns) == drawn
    assert len(turns) > 2 * SESSIONS
    learner = LoraLearner(LoraSettings(model=str(small_model), device="cpu"))
    learner.open(tmp_path)
    for turn in turns[:: max(1, len(turns) // 12)]:
        # Two passes in fp32: a token in a few thousand is 2e-5 off.
        assert learner.logprobs(turn.prompt_ids, turn.token_ids) == pytest.approx(turn.logprobs, abs=5e-5)
    learner.close()


@pytest.mark.slow
def test_a_policy_behind_a_gateway_has_the_same_tokens_streamed_and_whole(small_model: Path, tmp_path: Path) -> None:
    settings = [f"policy.model={small_model}", "policy.device=cpu"]
    told: list[str] = []

    async def run(url: str) -> list[Generation]:
        policy = OpenAIPolicy(OpenAISettings(base_url=f"{url}/s/tea/v1", model="transformers", token_ids="on"))
        request = Request([Message("user", "tea please")], sampling=Sampling(max_tokens=12, seed=3))
        whole, streamed = await policy.generate(request), await policy.stream(request, told.append)
        await policy.close()
        return [whole, streamed]

    with served(tmp_path, policy="transformers", assignments=settings) as gateway:
        whole, streamed = asyncio.run(run(gateway.url))

    assert streamed == whole
    assert len(streamed.token_ids) == len(streamed.logprobs) == 12
    assert "".join(told) == whole.text
    assert len(told) > 1
