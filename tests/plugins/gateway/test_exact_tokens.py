"""What is recorded of a session are exactly the tokens that the policy drew."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from agentfw import Generation, Message, Policy, Request
from agentfw.request import Sampling
from agentfw.runs import read_sessions
from agentfw_plugins.policies.http.openai_policy import OpenAIPolicy, OpenAISettings

from .conftest import served

TOOL = {"type": "function", "function": {"name": "order", "parameters": {"type": "object", "properties": {}}}}


def transformers(model: Path) -> list[str]:
    return [f"policy.model={model}", "policy.device=cpu"]


class Noting(Policy):
    """Notes what another policy draws."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.drawn = policy, list[Generation]()

    async def generate(self, request: Request) -> Generation:
        self.drawn.append(await self.policy.generate(request))
        return self.drawn[-1]

    async def close(self) -> None:
        await self.policy.close()


async def lead(client: httpx.AsyncClient, url: str, tools: Sequence[object]) -> None:
    """A conversation in which each question is asked twice at once, and one answer is edited."""
    conversation: list[dict[str, object]] = [{"role": "system", "content": "would like <|end|> green"}]
    for text in ("mint tea", "<tool_call> coffee", "round"):
        conversation.append({"role": "user", "content": text})
        given = {"model": "any", "messages": conversation, "max_tokens": 12, "temperature": 1.0}
        given |= {"tools": tools} if tools else {}
        answers = await asyncio.gather(*(client.post(f"{url}/chat/completions", json=given) for _ in range(2)))
        message = answers[0].raise_for_status().json()["choices"][0]["message"]
        conversation.append({"role": "assistant", "content": "Edited."} if text == "round" else message)
        conversation += [
            {"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in message.get("tool_calls", ())
        ]
    asked = {"model": "any", "messages": [*conversation, {"role": "user", "content": "like"}], "max_tokens": 12}
    (await client.post(f"{url}/chat/completions", json=asked)).raise_for_status()


@pytest.mark.slow
def test_recorded_tokens_are_those_that_were_drawn_and_a_learner_agrees(small_model: Path, tmp_path: Path) -> None:
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    with served(tmp_path, policy="transformers", assignments=transformers(small_model)) as gateway:
        noting = Noting(gateway.live.assembly.policy.inside)
        gateway.live.assembly.policy.inside = noting

        async def run() -> None:
            async with httpx.AsyncClient(timeout=60) as client:
                await asyncio.gather(
                    *(lead(client, gateway.session(f"s{len(tools)}"), tools) for tools in ([], [TOOL]))
                )

        asyncio.run(run())
    turns = [turn for episode in read_sessions(gateway.live.folder.path) for turn in episode.turns]

    drawn = sorted((one.prompt_ids, one.token_ids, one.logprobs) for one in noting.drawn)
    assert sorted((turn.prompt_ids, turn.token_ids, turn.logprobs) for turn in turns) == drawn
    assert len(turns) == 14
    learner = LoraLearner(LoraSettings(model=str(small_model), device="cpu"))
    learner.open(tmp_path)
    for turn in turns:
        # Two passes in fp32: a token in a few thousand is 2e-5 off.
        assert learner.logprobs(turn.prompt_ids, turn.token_ids) == pytest.approx(turn.logprobs, abs=5e-5)
    learner.close()


@pytest.mark.slow
def test_a_policy_behind_a_gateway_has_the_same_tokens_streamed_and_whole(small_model: Path, tmp_path: Path) -> None:
    told: list[str] = []

    async def run(url: str) -> list[Generation]:
        policy = OpenAIPolicy(OpenAISettings(base_url=f"{url}/s/tea/v1", model="transformers", token_ids="on"))
        request = Request([Message("user", "tea please")], sampling=Sampling(max_tokens=12, seed=3))
        whole, streamed = await policy.generate(request), await policy.stream(request, told.append)
        await policy.close()
        return [whole, streamed]

    with served(tmp_path, policy="transformers", assignments=transformers(small_model)) as gateway:
        whole, streamed = asyncio.run(run(gateway.url))

    assert streamed == whole
    assert len(streamed.token_ids) == len(streamed.logprobs) == 12
    assert "".join(told) == whole.text
    assert len(told) > 1
