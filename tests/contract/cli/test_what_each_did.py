"""A run says what its components did: one that did nothing, one that failed, and the one that a process died in.

A session that nobody could answer has failed, and says so first; one that nobody has rated has no reward, not 0.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import SITE, Agentfw, Install

from agentfw import Generation, Message, Policy, Request
from agentfw.errors import AgentfwError, EndpointError
from agentfw.runs import LiveRun, RunFolder, parse_spec
from agentfw.testing import fresh_host

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


@pytest.fixture
def diary(agentfw: Agentfw, install: Install) -> Agentfw:
    """The command, beside a plugin with these components."""
    install("agentfw-diary", "[agentfw]\ndiary = agentfw_diary\n", CODE)
    return agentfw


def test_each_component_is_told_of(diary: Agentfw, quick: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "taste.py"
    file.write_text("def short(completion):\n    return 1.0\n", "utf-8")
    parts = ("--memory", "diary", "--reward", "first", "--reward", f"{file}:short", "--set", "concurrency=1")

    answer = diary(*quick, *parts).ok

    told = re.search(r"^memory diary +recalled in (\d+) of (\d+) turns$", answer.out, re.M)
    assert told, answer.out
    assert 0 < int(told[1]) < int(told[2]), "nothing is known in the first episode"
    assert re.search(r"^reward first +scored 1 of 3 episodes$", answer.out, re.M)
    assert re.search(r"^reward short +scored 3 of 3 episodes$", answer.out, re.M), "by its own name"
    assert told[0] in diary("runs", "show", "last").out
    (page,) = Path("runs").glob("*/report.html")
    assert f"recalled in {told[1]} of {told[2]} turns" in page.read_text()


def test_a_policy_whose_turns_are_all_refused_is_told_of(diary: Agentfw, quick: tuple[str, ...]) -> None:
    answer = diary(*quick, "--policy", "stubborn", "--episodes", "1", "--set", "max_turns=20")

    assert re.search(r"^policy stubborn +[\d,]+ turns, and all of its [\d,]+ calls were refused$", answer.out, re.M)


def test_a_tool_that_fails_at_each_call_is_in_the_table(diary: Agentfw) -> None:
    answer, shown = diary(*LOOKING).ok, diary("runs", "show", "last")

    (row,) = [line for line in answer.out.splitlines() if ROW in line]
    calls, failed = row.removeprefix(ROW).split()[:2]
    assert calls == failed != "0"
    assert 'policy "looking"' not in answer.out, "only what failed"
    assert ROW in shown.out
    assert 'policy "looking" of agentfw-diary 1.0.0' in shown.out
    (found,) = [row for row in diary("runs", "show", "last", "--json").json["calls"] if row["title"] == ROW]
    assert found["calls"] == found["failures"] == int(calls)
    (report,) = Path("runs").glob("*/report.html")
    assert "the tool look of tool" in report.read_text("utf-8")
    assert ">0% were carried out<" in report.read_text("utf-8")


def test_the_call_that_a_process_died_in_is_named(diary: Agentfw) -> None:
    Path("deadly").touch()
    path = os.pathsep.join([str(Path("site").resolve()), str(SITE)])
    command, environment = [sys.executable, "-m", "agentfw", *LOOKING], {**os.environ, "PYTHONPATH": path}
    died = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    assert died.returncode == 9, died.stderr

    shown = diary("runs", "show", "last")
    Path("deadly").unlink()
    resumed = diary("runs", "resume", "last").ok

    assert 'was running when the process ended: tool "box" of agentfw-diary 1.0.0 in the tool look' in shown.err
    assert "when the run ended before, this was running: " in resumed.err
    assert 'tool "box" of agentfw-diary 1.0.0 in the tool look' in resumed.err
    assert "running when" not in diary("runs", "show", "last").err
    assert diary("runs", "show", "last", "--json").json["running"] == []


# -- sessions that failed, and those that nobody has rated -------------------------------------------------------------

SPEC = {
    "environment": "sessions",
    "policy": {"name": "scripted", "settings": {"replies": ["yes"], "tokens": 0}},
    "rewards": ["feedback"],
}


class Away(Policy):
    async def generate(self, request: Request) -> Generation:
        raise EndpointError("the model's server can't be reached")


def record(sessions: Sequence[str], seed: int = 1) -> str:
    """Record sessions below ./runs: those that are `away` fail, those that are `good` are rated."""

    async def lead() -> str:
        host = fresh_host(builtins=True)
        async with LiveRun.create(parse_spec({**SPEC, "seed": seed}), host, Path("runs").absolute()) as live:
            for number, kind in enumerate(sessions):
                session = live.begin(f"{kind} {number}", user="ada")
                try:
                    await session.answer([Message("user", "hello")], policy=Away() if kind == "away" else None)
                except AgentfwError:
                    pass
                if kind == "good":
                    session.feedback(1.0)
                await live.keep(session)
                await live.conclude(session)
            return live.folder.id

    return asyncio.run(lead())


@pytest.fixture
def mixed(agentfw: Agentfw) -> str:
    return record(["away", "plain", "away", "good"])


def test_the_failed_ones_come_first_and_a_comparison_counts_them(mixed: str, agentfw: Agentfw) -> None:
    other = record(["good", "good", "plain", "good"])

    listed, shown, compared = agentfw("runs", "list"), agentfw("runs", "show", mixed), agentfw("compare", mixed, other)

    assert re.search(rf"{mixed} +scripted +done, 2 failed, 2 sessions ended +reward 1\.000", listed.out)
    assert shown.out.splitlines()[:2] == [
        f"{mixed}   done, 2 failed, 2 sessions ended",
        "failed and left out, 2 episodes: the model's server can't be reached",
    ]
    assert agentfw("report", mixed).ok
    page = (Path("runs") / mixed / "report.html").read_text()
    assert page.index(">failed<") < page.index(">reward<")
    assert "unrated, 1 turn" in page
    assert f"of {mixed}, 2 episodes failed, and are in no figure here" in compared.told(0)
    assert f"{other} has no task in common with {mixed}" in compared.err, "though they have the same numbers"


def test_what_nobody_rated_or_answered_looks_neither_bad_nor_fine(agentfw: Agentfw) -> None:
    unrated, lost = record(["plain", "plain"]), record(["away"], seed=2)

    listed, report = agentfw("runs", "list").out, agentfw("report", lost)

    assert "reward 0" not in listed
    assert not re.search(r"^(reward|utility) +[\d-]", agentfw("runs", "show", unrated).out, re.M)
    assert agentfw("report", unrated).code == 0
    page = (Path("runs") / unrated / "report.html").read_text()
    assert "reward 0.000" not in page
    assert "these runs have no figure in common" in agentfw("compare", unrated, record(["good"])).told(2)
    assert "Turns by episode" in page
    assert "done, 1 failed, 0 sessions ended" in listed
    assert agentfw("runs", "show", lost).code == 0
    assert "can't be reached" in report.told(2)


def test_what_failed_stays_failed_when_the_run_goes_on(mixed: str, agentfw: Agentfw) -> None:
    async def again() -> None:
        async with LiveRun.open(RunFolder.open(Path("runs", mixed)), fresh_host(builtins=True)) as live:
            assert not live.sessions
            assert len(live.ended) == 4

    asyncio.run(again())

    assert "2 failed, 2 sessions ended" in agentfw("runs", "list").out


def test_a_run_that_failed_says_so(agentfw: Agentfw) -> None:
    closed = ("--set", "policy.base_url=http://127.0.0.1:9/v1", "--set", "policy.model=x", "--set", "retries=0")

    assert "1 of 1" not in agentfw("run", "inbox", "--policy", "openai", *closed, "--episodes", "1").told(1)
    assert "interrupted, 1 failed, 0 of 1 episode" in agentfw("runs", "list").out
