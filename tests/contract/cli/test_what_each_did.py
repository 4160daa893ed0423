"""A run says at its end what its components did, so that one that did nothing is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from command_line import Agentfw

Install = Callable[..., None]

CODE = """
from agentfw import Component, Generation, Memory, Policy, RewardModel, hookimpl
from agentfw.episode import Call
from agentfw.memory import Recollection
from agentfw.scores import Score

class Diary(Memory):
    def __init__(self):
        self.known = 0
    async def recall(self, query):
        return [Recollection("they like tea")] if self.known else []
    async def learn(self, episode, reward):
        self.known += 1

class Stubborn(Policy):
    async def generate(self, request):
        return Generation("", (Call("fly", {}),))

class First(RewardModel):
    async def score(self, group):
        return [Score(each.id, "first", 1.0, "base") for each in group if each.id.startswith("00000")]

@hookimpl
def agentfw_memories():
    return [Component("diary", f"{__name__}:Diary", "")]

@hookimpl
def agentfw_policies():
    return [Component("stubborn", f"{__name__}:Stubborn", "")]

@hookimpl
def agentfw_reward_models():
    return [Component("first", f"{__name__}:First", "")]
"""


def test_each_component_is_told_of(agentfw: Agentfw, install: Install, quick: tuple[str, ...], tmp_path: Path) -> None:
    install("agentfw-diary", "[agentfw]\ndiary = agentfw_diary\n", CODE)
    file = tmp_path / "taste.py"
    file.write_text("def short(completion):\n    return 1.0\n", "utf-8")
    parts = ("--memory", "diary", "--reward", "first", "--reward", f"{file}:short", "--set", "concurrency=1")

    answer = agentfw(*quick, *parts)

    assert answer.code == 0, answer.err
    told = re.search(r"^memory diary +recalled in (\d+) of (\d+) turns$", answer.out, re.M)
    assert told, answer.out
    assert 0 < int(told[1]) < int(told[2]), "nothing is known in the first episode"
    assert re.search(r"^reward first +scored 1 of 3 episodes$", answer.out, re.M)
    assert re.search(r"^reward short +scored 3 of 3 episodes$", answer.out, re.M), "by its own name"
    assert told[0] in agentfw("runs", "show", "last").out
    (page,) = Path("runs").glob("*/report.html")
    assert f"recalled in {told[1]} of {told[2]} turns" in page.read_text()


def test_a_policy_whose_turns_are_all_refused_is_told_of(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...]
) -> None:
    install("agentfw-diary", "[agentfw]\ndiary = agentfw_diary\n", CODE)

    answer = agentfw(*quick, "--policy", "stubborn", "--episodes", "1")

    assert re.search(r"^policy stubborn +[\d,]+ turns, and all of its [\d,]+ calls were refused$", answer.out, re.M)
