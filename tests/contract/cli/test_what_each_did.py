"""A run says what its components did: one that did nothing, one that failed, and the one that a process died in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SITE, Agentfw

CODE = """
import os
from pathlib import Path
from agentfw import Component, Generation, Memory, Policy, RewardModel, hookimpl
from agentfw.episode import Call
from agentfw.memory import Recollection
from agentfw.scores import Score
from agentfw.tool import tool

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

class Looking(Policy):
    async def generate(self, request):
        called = any(message.role == "tool" for message in request.messages)
        return Generation("", calls=() if called else (Call("look", {"at": "the moon"}),))

class First(RewardModel):
    async def score(self, group):
        return [Score(each.id, "first", 1.0, "base") for each in group if each.id.startswith("00000")]

@tool
def look(at: str) -> str:
    '''Look at something.'''
    if Path("deadly").exists():
        os._exit(9)
    raise OSError("it is dark")

def box():
    return look

def offered(*made):
    return [Component(each.__name__.lower(), f"{__name__}:{each.__name__}", "") for each in made]

@hookimpl
def agentfw_memories(): return offered(Diary)
@hookimpl
def agentfw_policies(): return offered(Stubborn, Looking)
@hookimpl
def agentfw_reward_models(): return offered(First)
@hookimpl
def agentfw_tools(): return offered(box)
"""
LOOKING = ("run", "guessing", "--policy", "looking", "--tool", "box", "--episodes", "3")
ROW = 'the tool look of tool "box" of agentfw-diary 1.0.0'


@pytest.fixture(autouse=True)
def _diary(agentfw: Agentfw, install: Callable[..., None]) -> None:
    install("agentfw-diary", "[agentfw]\ndiary = agentfw_diary\n", CODE)


def test_each_component_is_told_of(agentfw: Agentfw, quick: tuple[str, ...], tmp_path: Path) -> None:
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


def test_a_policy_whose_turns_are_all_refused_is_told_of(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    answer = agentfw(*quick, "--policy", "stubborn", "--episodes", "1")

    assert re.search(r"^policy stubborn +[\d,]+ turns, and all of its [\d,]+ calls were refused$", answer.out, re.M)


@pytest.mark.slow
def test_a_tool_that_fails_at_each_call_is_in_the_table(agentfw: Agentfw) -> None:
    answer, shown = agentfw(*LOOKING), agentfw("runs", "show", "last")

    assert answer.code == 0, answer.err
    (row,) = [line for line in answer.out.splitlines() if ROW in line]
    calls, failed = row.removeprefix(ROW).split()[:2]
    assert calls == failed != "0"
    assert 'policy "looking"' not in answer.out, "only what failed"
    assert ROW in shown.out
    assert 'policy "looking" of agentfw-diary 1.0.0' in shown.out
    (found,) = [row for row in agentfw("runs", "show", "last", "--json").json["calls"] if row["title"] == ROW]
    assert found["calls"] == found["failures"] == int(calls)
    (report,) = Path("runs").glob("*/report.html")
    assert "the tool look of tool" in report.read_text("utf-8")


@pytest.mark.slow
def test_the_call_that_a_process_died_in_is_named(agentfw: Agentfw) -> None:
    Path("deadly").touch()
    path = os.pathsep.join([str(Path("site").resolve()), str(SITE)])
    command, environment = [sys.executable, "-m", "agentfw", *LOOKING], {**os.environ, "PYTHONPATH": path}
    died = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    assert died.returncode == 9, died.stderr

    shown = agentfw("runs", "show", "last")
    Path("deadly").unlink()
    resumed = agentfw("runs", "resume", "last")

    assert 'was running when the process ended: tool "box" of agentfw-diary 1.0.0 in the tool look' in shown.err
    assert resumed.code == 0, resumed.err
    assert "when the run ended before, this was running: " in resumed.err
    assert 'tool "box" of agentfw-diary 1.0.0 in the tool look' in resumed.err
    assert "running when" not in agentfw("runs", "show", "last").err
    assert agentfw("runs", "show", "last", "--json").json["running"] == []
