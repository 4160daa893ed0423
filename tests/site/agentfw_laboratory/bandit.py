"""A world, a policy and a learner that are small enough to be understood whole, and that do learn.

The world has a favourite word; the policy says a word, each with its own bias; the learner moves the biases along the
gradient of the policy. Every token, logprob and version is real.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from agentfw import Environment, Generation, Learner, Optimizer, Policy, Request, Settings, Task, World, action
from agentfw.learner import Batch, Update
from agentfw.optimizer import Advantage, Loss, Scored
from agentfw_laboratory.killing import reached

WORDS = ("tea", "coffee", "water", "juice", "milk", "cocoa")


class BanditSettings(Settings):
    rounds: int = Field(3, ge=1, description="How often a word is asked for.")
    favourite: str = Field("juice", description="The word that pays.")


class Bandit(Environment):
    """Say the word that is liked best."""

    headline = "missed"
    lower_is_better = True

    def __init__(self, settings: BanditSettings) -> None:
        self.settings = settings

    def begin(self, world: World, task: Task) -> None:
        self.world, self._said, self._hits = world, 0, 0
        self._ask()

    @action
    def say(self, word: str) -> None:
        """Say one word."""
        hit = word == self.settings.favourite
        self._hits += hit
        self._said += 1
        self.world.measure("missed", 1.0 - hit)
        self.world.utility(float(hit), "said")
        if self._said == self.settings.rounds:
            self.world.finish(missed=1 - self._hits / self._said)
        else:
            self._ask()

    def _ask(self) -> None:
        self.world.round(self._said + 1, self.settings.rounds)
        self.world.observe("asked", {"number": self._said})


class BiasedSettings(Settings):
    pause: float = Field(0.0, ge=0, description="Seconds that an answer takes.")
    fault: str = Field("", description="stuck, tokenless or base: a way to fail.")


class Biased(Policy):
    """Draws a word; the published biases say how likely each is."""

    def __init__(self, settings: BiasedSettings) -> None:
        self.settings = settings
        self.bias = [0.0] * len(WORDS)
        self.version = "base"

    async def generate(self, request: Request) -> Generation:
        if self.settings.fault == "stuck":
            await asyncio.Event().wait()
        await asyncio.sleep(self.settings.pause)
        prompt = tuple("\n".join(message.content for message in request.messages).encode())
        chances = [math.exp(each) for each in likelihoods(self.bias)]
        generator = random.Random(f"{request.sampling.seed} {prompt}")
        token = generator.choices(range(len(WORDS)), chances)[0]
        text = json.dumps({"name": "say", "arguments": {"word": WORDS[token]}})
        if self.settings.fault == "tokenless":
            return Generation(text, count=1)
        logprobs = (math.log(chances[token]),)
        return Generation(text, prompt_ids=prompt, token_ids=(token,), logprobs=logprobs, version=self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        reached("publish")
        self.version = version
        if self.settings.fault != "base":
            self.bias = json.loads(adapter.read_text("utf-8"))["bias"]

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return [likelihoods(self.bias)[token] for token in token_ids]


class Unpublishable(Policy):
    """Says the first word, for ever."""

    async def generate(self, request: Request) -> Generation:
        return Generation('{"name": "say", "arguments": {"word": "tea"}}', count=1)


class BiasSettings(Settings):
    rate: float = Field(2.0, gt=0, description="How far a bias moves.")
    pause: float = Field(0.0, ge=0, description="Seconds that an update takes.")
    fault: str = Field("", description="memory or version: a way to fail.")


class Bias(Learner):
    """Moves the biases along the gradient, with some momentum: so that there is something to restore."""

    def __init__(self, settings: BiasSettings) -> None:
        self.settings = settings
        self.bias, self.momentum, self.updates = [0.0] * len(WORDS), [0.0] * len(WORDS), 0

    def update(self, batch: Batch) -> Update:
        if self.settings.fault == "memory":
            raise MemoryError("3 GB wanted, 1 GB there")
        if not batch.advantages:
            raise ValueError("an empty batch is no batch")
        time.sleep(self.settings.pause)
        gradient = [0.0] * len(WORDS)
        turns = {(episode.id, turn.index): turn for episode in batch.episodes for turn in episode.turns}
        chances = [math.exp(each) for each in likelihoods(self.bias)]
        for advantage in batch.advantages:
            turn = turns[advantage.episode, advantage.turn]
            # A teacher's turn has no tokens: its text is tokenised.
            (token,) = turn.token_ids or (WORDS.index(turn.calls[0].arguments["word"]),)
            for word in range(len(WORDS)):
                gradient[word] += advantage.value * ((word == token) - chances[word]) / len(batch.advantages)
        batch.folder.mkdir()
        adapter = batch.folder / "adapter.json"
        (batch.folder / "half").write_text("not there yet", "utf-8")
        reached("learn")
        self.momentum = [0.5 * old + new for old, new in zip(self.momentum, gradient, strict=True)]
        self.bias = [old + self.settings.rate * step for old, step in zip(self.bias, self.momentum, strict=True)]
        self.updates += 1
        (batch.folder / "half").rename(adapter)
        adapter.write_text(json.dumps({"bias": self.bias}), "utf-8")
        version = "bias" if self.settings.fault == "version" else f"bias@{self.updates}"
        entropy = -sum(chance * math.log(chance) for chance in chances)
        kl = sum(chance * math.log(chance * len(WORDS)) for chance in chances)
        return Update(version, adapter, {"entropy": entropy, "kl": kl, "loss": -sum(gradient)})

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return [likelihoods([0.0] * len(WORDS) if base else self.bias)[token] for token in token_ids]

    def state(self) -> dict[str, Any]:
        return {"bias": self.bias, "momentum": self.momentum, "updates": self.updates}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.bias, self.momentum, self.updates = state["bias"], state["momentum"], state["updates"]


class CentredSettings(Settings):
    loss: str = Field("clipped", description="The loss that it names.")
    fault: str = Field("", description="unfinite or nothing: a way to fail.")


class Centred(Optimizer):
    """Each reward less the group's mean, and less from batch to batch: so that there is something to restore.

    Groups with equal rewards are left out.
    """

    def __init__(self, settings: CentredSettings) -> None:
        self.settings, self.batches = settings, 0

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        self.batches += 1
        found = []
        for group in groups:
            if len({scored.reward for scored in group}) == 1:
                continue
            mean = sum(scored.reward for scored in group) / len(group)
            for scored in group:
                value = (scored.reward - mean) / math.sqrt(self.batches)
                value = {"unfinite": math.nan, "nothing": 0.0}.get(self.settings.fault, value)
                found += [Advantage(scored.episode.id, turn.index, value) for turn in scored.episode.turns]
        return found

    def loss(self) -> Loss:
        return Loss(self.settings.loss)

    def metrics(self) -> dict[str, float]:
        return {"batches": float(self.batches)}

    def state(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.batches = state["batches"]


def likelihoods(bias: Sequence[float]) -> list[float]:
    """The log of each word's probability."""
    total = math.log(sum(math.exp(each) for each in bias))
    return [each - total for each in bias]
