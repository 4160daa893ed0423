"""The specs of the proactive world: the paper's training is a file whose settings are the paper's."""

from __future__ import annotations

from typing import Any

from agentfw.runs import parse_spec, resolve
from agentfw.runs.spec.start import start_of_training
from agentfw.runs.spec.weights import Progress, parse_schedule
from agentfw.testing import fresh_host

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)


def resolved(name: str) -> Any:
    return resolve(parse_spec(start_of_training(HOST, name, None)), HOST)


def test_the_training_of_a_large_model_has_the_settings_of_the_paper() -> None:
    spec = resolved("proactive-llm")

    world, pool, learner = (choice.checked for choice in (spec.environment, spec.policy, spec.learner))
    server: Any = HOST.check_settings("policy", pool.policy.name, pool.policy.settings)
    optimizer = spec.optimizer.checked
    assert (world.unit, world.style, world.catalog) == ("turn", "reasoning", "full")
    assert (spec.samples, spec.evaluation.samples, spec.sampling.temperature) == (4, 2, 1.0)
    assert (pool.policy.name, pool.replicas, pool.gpus) == ("vllm", 8, 0.4)
    assert (server.context, server.memory, server.concurrency) == (9216, 0.4, 15)
    assert (learner.precision, learner.rank, learner.alpha, learner.workers) == ("nf4", 8, 16, 4)
    assert {one.removesuffix("_proj") for one in learner.modules} == {"q", "k", "v", "o", "gate", "up", "down"}
    assert learner.tokens == 4 * server.context
    # Steps of four samples: with a single step every ratio is 1, and its cap does nothing.
    assert spec.tasks * spec.samples / learner.minibatches == 4
    assert (learner.model, learner.precision) == (server.model, server.precision), "what is trained is what is served"
    assert (spec.optimizer.name, optimizer.ratio_cap, optimizer.kl) == ("turnwise", 10, 0)


def test_its_reward_passes_from_agreement_to_a_judge_with_two_rules_of_its_own() -> None:
    rewards = {one.name: one for one in resolved("proactive-llm").rewards}

    def weights(update: int) -> list[float]:
        return [
            parse_schedule(rewards[name].weight)(Progress(update=update, updates=320))
            for name in ("proactive_max_ac", "rubric")
        ]

    judge = rewards["rubric"].checked
    assert weights(0) == [1, 0]
    assert [round(one, 3) for one in weights(319)] == [0.701, 0.299]
    assert judge.policy.name == "openai"
    assert len(judge.rules) == 2
