"""Components that go wrong, in runs through the command."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from command_line import Agentfw, Answer, agentfw, install

from agentfw.component import KINDS

__all__ = ["agentfw", "install"]

HEAD = """
import asyncio

import agentfw
from agentfw import Component, hookimpl
from agentfw_laboratory import bandit, memories, rewards


class GoodPolicy(bandit.Biased):
    def __init__(self):
        super().__init__(bandit.BiasedSettings())


class GoodMemory(memories.Scratch):
    pass


class GoodReward(rewards.Varied):
    pass


class GoodTool(agentfw.Toolbox):
    async def open(self):
        return []
"""

Guarded = Callable[..., Answer]


@pytest.fixture
def guarded(agentfw: Agentfw, install: Callable[..., None]) -> Guarded:
    """Run a component of the distribution agentfw-odd, a good one but for `body`, which is a part of its class."""

    def run(kind: str, body: str, *settings: str, episodes: int = 2) -> Answer:
        code = f"{HEAD}\n\nclass Odd(Good{kind.title()}):\n{body}\n\n\n@hookimpl\ndef {KINDS[kind].hook}():\n"
        code += '    return [Component("odd", f"{__name__}:Odd", "Goes wrong")]\n'
        install("agentfw-odd", "[agentfw]\nodd = agentfw_odd\n", code)
        chosen = {"policy": "biased", kind: "odd"}
        words = [word for each, name in chosen.items() for word in (f"--{each}", name)]
        words += [word for each in settings for word in ("--set", each)]
        return agentfw("run", "bandit", *words, "--episodes", str(episodes))

    return run
