"""Components that go wrong, in runs and trainings through the command."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from command_line import Agentfw, Answer, agentfw, install, quick

__all__ = ["agentfw", "install", "quick"]

HEAD = """
import asyncio

import agentfw
from agentfw import Component, hookimpl
from agentfw_laboratory import bandit, memories, rewards


class GoodPolicy(bandit.Biased):
    def __init__(self):
        super().__init__(bandit.BiasedSettings())


class GoodOptimizer(bandit.Centred):
    def __init__(self):
        super().__init__(bandit.CentredSettings())


class GoodLearner(bandit.Bias):
    def __init__(self):
        super().__init__(bandit.BiasSettings())


class GoodEnvironment(bandit.Bandit):
    def __init__(self):
        super().__init__(bandit.BanditSettings(rounds=1))


class GoodMemory(memories.Scratch):
    pass


class GoodReward(rewards.Varied):
    pass


class GoodTracker(agentfw.Tracker):
    def log(self, step, metrics):
        pass


class GoodTool(agentfw.Toolbox):
    async def open(self):
        return []
"""
HOOKS = {
    "environment": "environments",
    "policy": "policies",
    "tool": "tools",
    "memory": "memories",
    "reward": "reward_models",
    "optimizer": "optimizers",
    "learner": "learners",
    "tracker": "trackers",
}

Guarded = Callable[..., Answer]


@pytest.fixture
def guarded(agentfw: Agentfw, install: Callable[..., None]) -> Guarded:
    """Run a component of the distribution agentfw-odd, a good one but for `body`, which is a part of its class.

    What it is part of is a run, or a training where only a training uses such a component.
    """

    def run(kind: str, body: str, *settings: str, episodes: int = 2) -> Answer:
        code = f"{HEAD}\n\nclass Odd(Good{kind.title()}):\n{body}\n\n\n@hookimpl\ndef agentfw_{HOOKS[kind]}():\n"
        code += '    return [Component("odd", f"{__name__}:Odd", "Goes wrong")]\n'
        install("agentfw-odd", "[agentfw]\nodd = agentfw_odd\n", code)
        training = kind in ("optimizer", "learner")
        chosen = {"environment": "bandit", "policy": "biased"}
        if training:
            chosen |= {"optimizer": "centred", "learner": "bias"}
        chosen[kind] = "odd"
        words = ["train" if training else "run", chosen.pop("environment")]
        words += [word for each, name in chosen.items() for word in (f"--{each}", name)]
        small = ["updates=1", "tasks=2", "samples=2", "evaluation.tasks=1"] if training else [f"episodes={episodes}"]
        return agentfw(*words, *(word for each in (*small, *settings) for word in ("--set", each)))

    return run
