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

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are sent as POSIX has them")

WORLD = """
import time
from pathlib import Path
from agentfw import Component, Environment, Memory, hookimpl

class Endless(Environment):
    '''Wait.'''

    def begin(self, world, task):
        self.world = world
        self.tick()

    def tick(self):
        Path("busy").touch()
        self.world.after(1, self.tick)

class Blocking(Endless):
    def tick(self):
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

@hookimpl
def agentfw_environments():
    return [Component("endless", f"{__name__}:Endless", ""), Component("blocking", f"{__name__}:Blocking", "")]

@hookimpl
def agentfw_memories():
    return [Component("stubborn", f"{__name__}:Stubborn", "")]
"""

AT_A_WAKE_UP = """
import asyncio, signal
from agentfw_cli.interrupts import Interrupted, run_until_interrupted

plan = asyncio.BaseEventLoop.call_soon
armed = []

def call_soon(self, *args, **kwargs):
    if armed:
        signal.raise_signal(armed.pop())
    return plan(self, *args, **kwargs)

asyncio.BaseEventLoop.call_soon = call_soon

async def turns():
    for turn in range(1_000_000):
        if turn == 10:
            armed.append(signal.SIGTERM)
        await asyncio.sleep(0)

async def work(give_up):
    await asyncio.create_task(turns())

try:
    run_until_interrupted(work)
except Interrupted as interrupted:
    print(interrupted)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, install: Callable[..., None]) -> Iterator[Start]:
    """Start `agentfw WORD...` in a process of its own, and wait until its plugin is busy."""
    install("agentfw-busy", "[agentfw]\nbusy = agentfw_busy\n", WORLD)
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentfw", *words, "--set", "max_events=1000000000"],
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # In the background of a script SIGINT is ignored, and a child would inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
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


@pytest.mark.slow
@pytest.mark.parametrize("world", ["endless", "blocking"])
@pytest.mark.parametrize(
    ("number", "code", "label"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_one_signal_ends_a_run_whose_world_keeps_it_busy(
    start: Start, world: str, number: int, code: int, label: str
) -> None:
    process = start("run", world, "--policy", "random")

    process.send_signal(number)
    _, told = process.communicate(timeout=60)

    assert process.returncode == code
    assert f"{label}: every episode that was finished is kept" in told
    assert "resume with: agentfw runs resume" in told
    assert "Traceback" not in told


def test_a_signal_that_comes_while_asyncio_plans_the_next_step_loses_no_task() -> None:
    process = subprocess.run([sys.executable, "-c", AT_A_WAKE_UP], capture_output=True, text=True, timeout=60)

    assert (process.stdout, process.stderr) == ("SIGTERM\n", "")


@pytest.mark.slow
def test_the_second_signal_ends_what_holds_on_to_the_first(start: Start) -> None:
    process = start("run", "inbox", "--policy", "random", "--memory", "stubborn")

    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 130
    assert told.endswith("ended at once\n")
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_world_that_blocks_until_the_deadline_ends_the_run(start: Start) -> None:
    process = start("run", "blocking", "--policy", "random", "--set", "deadline=1")

    _, told = process.communicate(timeout=60)

    assert process.returncode == 3
    assert 'environment "blocking" of agentfw-busy' in told
    assert "has kept the run from going on for 1" in told
    assert "agentfw_busy.py" in told, "the place in the plugin's code"
    assert "--set deadline=SECONDS" in told
    assert "Traceback" not in told
