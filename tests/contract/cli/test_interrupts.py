"""Ctrl-C and SIGTERM end a run in good order, also one whose plugins keep it busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are sent as POSIX has them")

WORLD = """
import asyncio
import time
from pathlib import Path
from agentfw import Component, Environment, Memory, Policy, hookimpl
from agentfw.episode import Call
from agentfw.request import Generation
from agentfw.tool import FunctionTool

class Blocking(Environment):
    '''Wait.'''

    def begin(self, world, task):
        Path("busy").touch()
        time.sleep(10_000)

class Stubborn(Memory):
    '''Holds on to every exception, as a careless retry does.'''

    async def recall(self, query):
        while True:
            try:
                Path("busy").touch()
                time.sleep(10_000)
            except BaseException:
                pass

class Clinging(Memory):
    '''Does the same while it awaits.'''

    async def recall(self, query):
        while True:
            try:
                Path("busy").touch()
                await asyncio.sleep(10_000)
            except BaseException:
                pass

def look_up() -> str:
    "Look it up."
    Path("busy").touch()
    time.sleep(10_000)
    return "found"

def hasty():
    return FunctionTool(look_up, timeout=0.2)

class Caller(Policy):
    async def generate(self, request):
        return Generation(text="", calls=(Call("look_up", {}),))

def offered(*made):
    return [Component(each.__name__.lower(), f"{__name__}:{each.__name__}", "") for each in made]

@hookimpl
def agentfw_environments(): return offered(Blocking)
@hookimpl
def agentfw_memories(): return offered(Stubborn, Clinging)
@hookimpl
def agentfw_tools(): return offered(hasty)
@hookimpl
def agentfw_policies(): return offered(Caller)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, install: Callable[..., None]) -> Iterator[Start]:
    """Start `agentfw WORD...` in a process of its own, and wait until its plugin is busy."""
    install("agentfw-busy", "[agentfw]\nbusy = agentfw_busy\n", WORLD)
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "agentfw", *words]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
        # In the background of a script SIGINT is ignored, and a child would inherit that.
        heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True, preexec_fn=heeds
        )
        running.append(process)
        while not (tmp_path / "busy").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "number", "code", "label"),
    [
        (("blocking",), signal.SIGTERM, 143, "terminated"),
        (("inbox", "--memory", "stubborn"), signal.SIGINT, 130, "interrupted"),
        pytest.param(("inbox", "--memory", "clinging"), signal.SIGINT, 130, "interrupted", marks=pytest.mark.nightly),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_one_signal_ends_a_busy_run(start: Start, words: tuple[str, ...], number: int, code: int, label: str) -> None:
    process = start("run", *words, "--policy", "random")

    process.send_signal(number)
    _, told = process.communicate(timeout=300)

    assert process.returncode == code, told
    assert f"{label}: every episode that was finished is kept" in told
    assert "resume with: agentfw runs resume" in told
    assert "Traceback" not in told
    if "--memory" in words:
        assert f'left behind: memory "{words[-1]}" of agentfw-busy 1.0.0, busy with recall()' in told
        assert ", agentfw_busy.py, line " in told


def test_a_tool_that_hangs_keeps_a_run_from_ending_no_longer_than_its_timeout(start: Start) -> None:
    process = start("run", "inbox", "--policy", "caller", "--tool", "hasty", "--episodes", "1", "--set", "max_turns=2")

    table, told = process.communicate(timeout=300)

    assert process.returncode == 0, told
    assert "report.html" in table


def test_a_world_that_blocks_until_the_deadline_ends_the_run(start: Start) -> None:
    process = start("run", "blocking", "--policy", "random", "--set", "deadline=1")

    _, told = process.communicate(timeout=300)

    assert process.returncode == 3
    assert 'environment "blocking" of agentfw-busy' in told
    place = "has kept the run from going on for {} s: begin(), agentfw_busy.py, line "
    assert all(place.format(seconds) in " ".join(told.split()) for seconds in ("0.5", "1")), told
    assert "--set deadline=SECONDS" in told
    assert "Traceback" not in told
