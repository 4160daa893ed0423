"""Answers by a JSON schema: they follow it, with the logprobs of what they were drawn from, and are marked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, Message, Request, Task, Turn
from agentfw.errors import RequestRefusedError, UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Advantage, Loss
from agentfw.request import Sampling

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("llguidance")

from agentfw_plugins.models import load_base  # noqa: E402
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings  # noqa: E402

COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
SCHEMA = {**COLOUR, "additionalProperties": False}


def request(number: int = 0, **more: Any) -> Request:
    given = {"sampling": Sampling(temperature=1.0, max_tokens=100, seed=number), "schema": SCHEMA, **more}
    return Request([Message("user", "Which colour?")], task=Task(number, seed=1), **given)


def ask(model: Path, *requests: Request) -> list[Any]:
    async def run() -> list[Any]:
        policy = TransformersPolicy(TransformersSettings(model=str(model), device="cpu"))
        try:
            return await asyncio.gather(*map(policy.generate, requests), return_exceptions=True)
        finally:
            await policy.close()

    return asyncio.run(run())


def test_every_answer_follows_the_schema(small_model: Path) -> None:
    answers = ask(small_model, *(request(number) for number in range(20)))

    said = {json.loads(answer.text)["colour"] for answer in answers}
    assert said == {"red", "blue"}  # a random model says either
    assert all(answer.finish == "stop" and answer.constrained for answer in answers)


def test_a_logprob_is_that_of_what_the_schema_left(small_model: Path) -> None:
    (answer,) = ask(small_model, request(5))
    model = load_base(small_model, "fp32", "cpu")
    constraint = TransformersPolicy(TransformersSettings(model=str(small_model), device="cpu"))._constraint(SCHEMA)

    with torch.inference_mode():
        logits = model(torch.tensor([[*answer.prompt_ids, *answer.token_ids]])).logits[0].double()
    found = []
    for place, token in enumerate(answer.token_ids, len(answer.prompt_ids) - 1):
        left = logits[place].masked_fill(~constraint.allowed(logits.shape[-1]), float("-inf"))
        found.append(left.log_softmax(-1)[token].item())
        constraint.take(token)

    assert answer.logprobs == pytest.approx(found, abs=1e-4)


def test_a_schema_that_can_not_be_followed_fails_alone(small_model: Path) -> None:
    wrong, fine = ask(small_model, request(schema={"type": "nonsense"}), request(1))

    assert isinstance(wrong, RequestRefusedError)
    assert json.loads(fine.text)


def test_a_loss_that_weighs_by_logprobs_refuses_it() -> None:
    from agentfw_plugins.learners.lessons import read_lessons
    from agentfw_plugins.learners.token_tree import TurnTokens

    turn = Turn(0, 0, 0, text="x", prompt_ids=(1,), token_ids=(2,), logprobs=(-0.5,), constrained=True)
    episode = Episode(task=Task(0, seed=0), turns=[turn])
    batch = Batch([episode], [Advantage(episode.id, 0, 1.0)], Loss(), Path())

    with pytest.raises(UsageError, match="JSON schema"):
        read_lessons(batch, 10, lambda episode, turn: TurnTokens(turn.prompt_ids, turn.token_ids))
