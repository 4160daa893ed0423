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
import asyncio
import signal
import threading
import time
from pathlib import Path
from agentfw import Component, Environment, Memory, Policy, hookimpl
from agentfw.episode import Call
from agentfw.request import Generation
from agentfw.tool import FunctionTool

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

class Clinging(Memory):
    '''Does the same while it awaits.'''

    async def recall(self, query):
        while True:
            try:
                Path("busy").touch()
                await asyncio.sleep(10_000)
            except BaseException:
                pass

class Threaded(Memory):
    '''Waits in a thread.'''

    async def recall(self, query):
        Path("busy").touch()
        await asyncio.to_thread(time.sleep, 10_000)

class Taking(Memory):
    '''Takes the handler of Ctrl-C, and waits in the same call.'''

    async def recall(self, query):
        signal.signal(signal.SIGINT, lambda *_: None)
        Path("busy").touch()
        while True:
            time.sleep(10_000)

class Lingering(Memory):
    '''Leaves a thread that Python waits for.'''

    async def recall(self, query):
        threading.Thread(target=time.sleep, args=(10_000,)).start()
        Path("busy").touch()
        await asyncio.sleep(10_000)

class Unmade(Memory):
    '''Is never made.'''

    def __init__(self):
        while True:
            try:
                Path("busy").touch()
                time.sleep(10_000)
            except BaseException:
                pass

def look_up() -> str:
    "Look it up."
    Path("busy").touch()
    time.sleep(10_000)
    return "found"

def patient():
    return FunctionTool(look_up, timeout=10_000)

def hasty():
    return FunctionTool(look_up, timeout=0.2)

class Caller(Policy):
    async def generate(self, request):
        return Generation(text="", calls=(Call("look_up", {}),))

@hookimpl
def agentfw_environments():
    return [Component("endless", f"{__name__}:Endless", ""), Component("blocking", f"{__name__}:Blocking", "")]

@hookimpl
def agentfw_memories():
    names = "Stubborn", "Clinging", "Threaded", "Taking", "Lingering", "Unmade"
    return [Component(name.lower(), f"{__name__}:{name}", "") for name in names]

@hookimpl
def agentfw_tools():
    return [Component("patient", f"{__name__}:patient", ""), Component("hasty", f"{__name__}:hasty", "")]

@hookimpl
def agentfw_policies():
    return [Component("caller", f"{__name__}:Caller", "")]
"""

AT_A_WAKE_UP = """
import asyncio, signal
from agentfw_cli.ending import Interrupted
from agentfw_cli.interrupts import run_until_interrupted

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
    run_until_interrupted(work, print)
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


HOLDING = ["stubborn", "clinging", "threaded", "taking", "lingering"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("memory", HOLDING)
def test_one_signal_ends_a_run_with_a_memory_that_holds_on(start: Start, memory: str, number: int) -> None:
    process = start("run", "inbox", "--policy", "random", "--memory", memory)

    process.send_signal(number)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 128 + number, told
    assert "every episode that was finished is kept" in told
    assert "resume with: agentfw runs resume" in told
    assert "Traceback" not in told
    assert "Exception ignored" not in told
    if memory in ("stubborn", "clinging") or (memory == "taking" and number == signal.SIGINT):
        assert f'memory "{memory}" of agentfw-busy 1.0.0' in told
        assert "recall()" in told
        assert "recall, agentfw_busy.py, line" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "--policy caller --tool patient",
            (
                "resume with: agentfw runs resume",
                'tool "patient" of agentfw-busy 1.0.0 is still busy with the tool look_up',
                "look_up, agentfw_busy.py, line",
            ),
        ),
        ("--policy random --memory unmade", ('memory "unmade" of agentfw-busy 1.0.0 is busy with its creation',)),
    ],
    ids=["a tool that hangs", "a component that is never made"],
)
def test_one_signal_ends_a_run_that_waits(start: Start, settings: str, said: tuple[str, ...]) -> None:
    process = start("run", "inbox", *settings.split())

    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 130
    assert all(text in told for text in said)


@pytest.mark.slow
def test_a_tool_that_hangs_keeps_a_run_from_ending_no_longer_than_its_timeout(start: Start) -> None:
    process = start("run", "inbox", "--policy", "caller", "--tool", "hasty", "--episodes", "1", "--set", "max_turns=2")

    table, told = process.communicate(timeout=60)

    assert process.returncode == 0, told
    assert "report.html" in table
    assert 'tool "hasty" of agentfw-busy 1.0.0 is still busy with the tool look_up' in told
    assert "look_up, agentfw_busy.py, line" in told


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


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["agentfw_request", "agentfw_turn"])
def test_a_hook_that_blocks_until_the_deadline_ends_the_run(start: Start, tmp_path: Path, hook: str) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nfrom pathlib import Path\nfrom agentfw import hookimpl\nfrom agentfw.hookspecs import Hook\n"
        f"class Slow(Hook):\n    @hookimpl\n    def {hook}(self):\n"
        "        Path('busy').touch()\n        time.sleep(10_000)\n"
    )
    process = start("run", "inbox", "--hook", "./slow.py", "--set", "deadline=1")

    _, told = process.communicate(timeout=60)

    assert process.returncode == 3
    assert 'hook "slow" of slow.py' in told
    assert f"has kept the run from going on for 1 s: {hook}(), {hook}, slow.py, line 9" in told
