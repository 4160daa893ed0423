"""The proof asks about several answers, and knows noise that a single answer doesn't show."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
import pytest

from agentfw import Policy
from agentfw.episode import Episode, Task, Turn
from agentfw.errors import AgentfwError
from agentfw.learner import Scores
from agentfw.runs.learning.proof import Probe, Proof

LENGTH = 16


@dataclass
class Recorded:
    """An evaluation of answers of the same length, of which each has a prompt of its own."""

    count: int = 8

    def episodes(self) -> Sequence[Episode]:
        turns = (Turn(0, 0, 1, prompt_ids=(each,), token_ids=(1,) * LENGTH) for each in range(self.count))
        return [Episode(Task(index, 0), turns=[turn]) for index, turn in enumerate(turns)]


def drawn(name: str, prompt: int, size: float) -> numpy.ndarray:
    return numpy.random.default_rng([*name.encode(), prompt]).normal(0.0, size, LENGTH)


@dataclass
class Model:
    """Logprobs of a base with some updates, computed in a precision."""

    name: str
    noise: float
    grown: float = 1.0
    """How much more noise there is with an update."""
    updates: Sequence[float] = ()
    lucky: Sequence[int] = ()
    """Prompts where the base's logprobs have no noise at all."""

    def of(self, prompt: int, *, base: bool = False) -> numpy.ndarray:
        exact = -3.0 + drawn("base", prompt, 1.0)
        noise = 0.0 if prompt in self.lucky and not self.updates else self.noise
        for number, size in enumerate([] if base else self.updates):
            exact += drawn(f"update {number}", prompt, size)
        if self.updates and not base:
            noise *= self.grown
        found: numpy.ndarray = exact + drawn(f"{self.name} {base} {len(self.updates)}", prompt, noise)
        return found


@dataclass
class Serving(Policy):
    model: Model
    asked: list[int] = field(default_factory=list)
    busy: bool = False

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        assert not self.busy, "a server may not bear several at once"
        self.asked.append(prompt_ids[0])
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        found: list[float] = self.model.of(prompt_ids[0]).tolist()
        return found


def proof_of(policy: Serving, model: Model, rounding: float) -> Proof:
    async def ask(probes: Sequence[Probe], base: bool) -> Scores:
        noise = rounding * (model.grown if model.updates and not base else 1.0)
        prompts = [probe.prompt_ids[0] for probe in probes]
        return Scores(
            numpy.concatenate([model.of(prompt, base=base) for prompt in prompts]).tolist(),
            numpy.concatenate([drawn("rounding", prompt, noise) for prompt in prompts]).tolist(),
        )

    return Proof(policy, ask)


def proven(
    updates: Sequence[float],
    *,
    served: Sequence[float] | None = None,
    grown: float = 1.0,
    lucky: Sequence[int] = (),
    rounding: float = 0.03,
) -> float:
    """Begin with the base, then publish all updates. `served` are those that the policy really uses."""
    policy = Serving(Model("policy", 0.01, grown, lucky=lucky))
    learner = Model("learner", 0.0, grown)
    proof = proof_of(policy, learner, rounding)

    async def train() -> dict[str, float]:
        await proof.begin(Recorded())  # type: ignore[arg-type]
        learner.updates, policy.model.updates = updates, updates if served is None else served
        return await proof.prove()

    return asyncio.run(train())["proven"]


def test_several_answers_are_compared() -> None:
    policy = Serving(Model("policy", 0.0))
    proof = proof_of(policy, Model("learner", 0.0), 0.0)

    asyncio.run(proof.begin(Recorded()))  # type: ignore[arg-type]

    assert sorted(policy.asked) == list(range(8))


def test_an_answer_on_which_both_agree_to_the_last_bit_is_not_the_measure_of_noise() -> None:
    assert proven([1.0], lucky=[0, 1, 2]) == 1
    assert proven([0.001], lucky=[0, 1, 2]) == 0, "an update below the noise proves nothing, and is no fault"


def test_if_both_agree_on_every_answer_by_luck_rounding_says_how_much_noise_there_can_be() -> None:
    assert proven([1.0], lucky=range(8), rounding=0.05) == 1
    with pytest.raises(AgentfwError, match="more than numerical noise"):
        proven([1.0], lucky=range(8), rounding=0.0)


def test_noise_that_grows_with_an_adapter_is_no_fault() -> None:
    assert proven([1.0], grown=8.0) == 1


def test_a_part_of_an_update_is_still_found_under_noise() -> None:
    with pytest.raises(AgentfwError, match="a part of"):
        proven([0.1, 0.05], served=[0.1])
