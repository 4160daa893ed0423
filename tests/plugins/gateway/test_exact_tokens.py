"""What is recorded of a session are exactly the tokens that the policy drew."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw import Generation, Message, Request, Session, Task
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


def test_an_answer_that_comes_back_keeps_its_tokens_and_an_edited_one_does_not(small_model: Path) -> None:
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    async def run() -> Session:
        policy = TransformersPolicy(TransformersSettings(model=str(small_model), device="cpu", max_tokens=8))
        session = Session(policy, Task(0, seed=7))
        first = [Message("user", "Tea, please.")]
        reply = await session.answer(first)
        await session.answer([*first, reply.message, Message("user", "And now?")])
        await session.answer([*first, Message("assistant", reply.text + "!"), Message("user", "And now?")])
        await session.answer(first)
        await policy.close()
        return session

    one, kept, edited, again = asyncio.run(run()).end().turns

    drawn = one.prompt_ids + one.token_ids
    assert kept.prompt_ids[: len(drawn) - 1] == drawn[:-1]
    assert edited.prompt_ids[: len(drawn)] != drawn
    assert again.prompt_ids == one.prompt_ids
    assert again.token_ids != one.token_ids, "who asks again gets another sample"


@pytest.mark.slow
def test_a_streamed_answer_is_that_without_the_gateway_word_by_word(small_model: Path, tmp_path: Path) -> None:
    from agentfw import Request
    from agentfw.request import Sampling
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    question = Message("user", "Tea or coffee?")
    assignments = [f"policy.model={small_model}", "policy.device=cpu"]

    async def direct() -> str:
        policy = TransformersPolicy(TransformersSettings(model=str(small_model), device="cpu"))
        sampling = Sampling(temperature=1.0, max_tokens=24, seed=3)
        generation = await policy.generate(Request([question], sampling=sampling, task=Task(0, 0)))
        await policy.close()
        return generation.text

    with served(tmp_path, policy="transformers", assignments=assignments) as gateway:
        body: dict[str, Any] = {"model": "transformers", "messages": [{"role": "user", "content": question.content}]}
        body |= {"temperature": 1.0, "max_tokens": 24, "seed": 3, "stream": True}
        lines = httpx.post(f"{gateway.session('s')}/chat/completions", json=body, timeout=60).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    told = [event["choices"][0]["delta"].get("content") or "" for event in events]

    assert "".join(told) == asyncio.run(direct())
    assert len(list(filter(None, told))) > 5
