"""The policy transformers as tests use it: requests of any length, and policies that are closed at the end.

And what transformers itself says of an answer, which policies and learners have to say, too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentfw.episode import Message, Task
from agentfw.policy import Generation, Request, Sampling
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

Result = TypeVar("Result")
WORDS = ["guest", "tea", "coffee", "would", "like", "serve", "round", "mint", "green", "accepted"]


def request(number: int, **sampling: Any) -> Request:
    """A question of its own, of any length, of which some begin alike."""
    generator = random.Random(number)
    goal = "Serve what they like. " * (20 if number % 3 else 1)
    said = " ".join(generator.choice(WORDS) for _ in range(generator.randint(1, 150)))
    settings = {"temperature": generator.choice([0.7, 1.0]), "max_tokens": generator.randint(1, 20), "seed": 7}
    return Request(
        [Message("system", goal), Message("user", said)],
        sampling=Sampling(**settings | sampling),
        task=Task(number // 2, seed=1, sample=number % 2),
    )


def make(model: Path, **settings: Any) -> TransformersPolicy:
    return TransformersPolicy(TransformersSettings(model=str(model), device="cpu", **settings))


def using(policy: TransformersPolicy, use: Callable[[TransformersPolicy], Coroutine[Any, Any, Result]]) -> Result:
    async def run() -> Result:
        try:
            return await use(policy)
        finally:
            await policy.close()

    return asyncio.run(asyncio.wait_for(run(), 240))


async def together(policy: TransformersPolicy, requests: Sequence[Request]) -> list[Generation]:
    return await asyncio.gather(*(policy.generate(one) for one in requests))


async def in_turn(policy: TransformersPolicy, requests: Sequence[Request]) -> list[Generation]:
    return [await policy.generate(one) for one in requests]


def own_logprobs(model: Any, prompt: Sequence[int], answer: Sequence[int], temperature: float = 1.0) -> list[float]:
    """The logprobs of an answer's tokens after a prompt, by a model of transformers."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1].float()
    found: list[float] = (logits / temperature).log_softmax(-1)[range(len(answer)), list(answer)].tolist()
    return found
