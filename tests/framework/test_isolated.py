"""Components in a process of their own: they do their work there, and what ends the process doesn't end the run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentfw.boundary.calls import KINDS_OF_CALLS
from agentfw.engine import LocalEngine, Remote
from agentfw.episode import Episode, Task, Usage
from agentfw.errors import PluginError
from agentfw.host import Host, HostOptions
from agentfw.memory import Embedded, Memory, Query, Recollection, Remembered, Saying
from agentfw.runs.isolation import Isolation, isolated
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import IsolableChoice, parse_spec
from agentfw.runs.spec.values import apply_assignments
from agentfw.scores import Score
from agentfw.testing.samples import sample_episode

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes of components need Unix")

TOOLS = """
import os, time
kept = []

def number() -> str:
    "The number of its process."
    return str(os.getpid())

def crash() -> str:
    "End the process."
    os.abort()

def hang() -> str:
    "Never answer."
    time.sleep(1_000_000)

def fill() -> str:
    "Take all memory, and keep it."
    while True:
        kept.append(bytearray(2**24))
"""
REWARD = """
import os, re

def score(episode):
    if episode.task.user == "crash":
        os.kill(os.getpid(), 9)
    if episode.task.user == "exit":
        os._exit(7)
    if episode.task.user == "hang":
        re.fullmatch("(a+)+b", "a" * 200)     # never lets another thread have a turn
    episode.turns.clear()
    return float(os.getpid())
"""
MEMORY = """
import asyncio, ctypes, os, sys
from agentfw import Memory
from agentfw.memory import Recollection
from agentfw.tool import tool

class Mine(Memory):
    kept = []
    def open(self, folder):
        self.file = folder / "notes.txt"
    def begin(self, task):
        if task.user == "segfault at the start":
            ctypes.string_at(0)
    async def recall(self, query):
        if query.user == "segfault":
            await asyncio.sleep(0.2)
            ctypes.string_at(0)
        if query.user == "slow":
            await asyncio.sleep(0.4)
        if query.user == "eat":
            while True:
                self.kept.append(bytearray(2**24))
        if query.user == "raise":
            raise ValueError("spilt")
        if query.user == "wrong":
            return [3]
        print("printed by", os.getpid())
        os.write(1, b"written\\n")
        text = self.file.read_text() if self.file.exists() else "nothing"
        return [Recollection(f"{os.getpid()} {text}", 0.5, {"by": ("file", 1)})]
    async def learn(self, episode, reward):
        self.file.write_text(f"{episode.id} of {len(episode.turns)} turns earned {reward}")
    async def hear(self, saying):
        self.file.write_text(saying.text)
    def tools(self, task):
        @tool
        def note(text: str) -> str:
            "Note a text."
            self.file.write_text(f"{task.user}: {text}")
            return f"noted in {os.getpid()}"
        return [note]
"""

Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    engine, host = LocalEngine(), Host.load(HostOptions(), [])

    def made(kind: str, code: str, deadline: float = 60.0, **more: Any) -> Any:
        file = tmp_path / f"{kind}.py"
        file.write_text(code, "utf-8")
        choice = IsolableChoice(name=str(file), isolate=True, **more)
        return isolated(kind, choice, Isolation(host, engine, deadline))

    yield made
    engine.close()


def _query(user: str = "ada", sample: int = 0) -> Query:
    return Query("tea", Task(0, 0, user, sample))


def _episode(user: str = "ada") -> Episode:
    return sample_episode(Task(0, 0, user), turns=2)


async def _number(memory: Any) -> int:
    return int((await memory.recall(_query()))[0].text.split()[0])


@pytest.mark.parametrize(
    ("kind", "call", "values"),
    [
        ("memory", "recall", [Query("tea", Task(1, 2, "ada", 3, "train", "q", 4), 1.5, 2, 3, ("a", "b"))]),
        ("memory", "learn", [sample_episode(Task(0, 7), turns=3), 0.5]),
        ("memory", "hear", [Saying("1", "ada", "I like tea", "c", 1.5, "Hello")]),
        ("memory", "introduce", ["ada", {"about": "likes tea"}]),
        ("memory", "open", [Path("/somewhere")]),
        ("reward", "score", [[sample_episode(Task(0, 7), turns=3), Episode(Task(1, 7))]]),
    ],
)
def test_what_a_component_is_given_is_equal_after_it_has_crossed(kind: str, call: str, values: list[Any]) -> None:
    crossing = KINDS_OF_CALLS[kind].calls[call]

    crossed = json.loads(json.dumps(crossing.written(tuple(values))))

    assert [form.read(one) for form, one in zip(crossing.given, crossed, strict=True)] == values


@pytest.mark.parametrize(
    ("kind", "call", "value"),
    [
        ("memory", "recall", [Recollection("tea", 0.5, {"by": "words"}), Recollection("", float("inf"))]),
        ("memory", "remembered", [Remembered("1", "tea", 1.5, None, "I like tea")]),
        ("memory", "correct", Remembered("1", "tea")),
        ("memory", "forget", {"notes": 3}),
        ("memory", "embed", Embedded("small", [[0.5, 1.0], [0.0, 2.0]])),
        ("reward", "score", [Score("00000-0", "zoo", 1.5, "personal", 2, 3, False, Usage(1, None, 3, None))]),
        ("tool", "answer", (True, "\ud800")),
    ],
)
def test_what_a_component_answers_is_equal_after_it_has_crossed(kind: str, call: str, value: Any) -> None:
    answer = KINDS_OF_CALLS[kind].calls[call].answer

    assert answer.read(json.loads(json.dumps(answer.write(value)))) == value


def test_tools_answer_from_a_process_of_their_own_and_outlive_a_crash(make: Make) -> None:
    async def played() -> list[tuple[bool, str]]:
        tools = {tool.action.name: tool for tool in await make("tool", TOOLS).open()}
        return [await tools[name].answer({}) for name in ("number", "crash", "number")]

    (well, first), (crashed_well, crashed), (well_again, second) = asyncio.run(played())

    assert (well, crashed_well, well_again) == (True, False, True)
    assert len({str(os.getpid()), first, second}) == 3
    assert 'tool "tool" of tool.py' in crashed
    assert "killed by signal 6" in crashed


def test_a_tool_that_takes_all_memory_fails_alone_and_leaves_none_of_it_behind(make: Make) -> None:
    async def played() -> list[tuple[bool, str]]:
        tools = {tool.action.name: tool for tool in await make("tool", TOOLS, most_memory=1000).open()}
        return [await tools[name].answer({}) for name in ("number", "fill", "number", "fill")]

    (_, first), (well, text), (well_again, second), (_, again) = asyncio.run(played())

    assert (well, well_again) == (False, True)
    assert "MemoryError" in text
    assert "MemoryError" in again
    assert first != second


def test_a_tool_that_hangs_is_answered_for_and_its_process_ends(make: Make) -> None:
    async def played() -> tuple[Any, Any, bool]:
        made = make("tool", TOOLS)
        tools = {tool.action.name: tool for tool in await made.open()}
        tools["hang"].timeout = 0.1
        hung = await tools["hang"].answer({})
        left = made._process._life
        while left.remote.alive:
            await asyncio.sleep(0.05)
        return hung, await tools["number"].answer({}), left.remote.alive

    hung, answered, alive = asyncio.run(played())

    assert hung == (False, "hang timed out after 0.1 s")
    assert answered[0]
    assert not alive


@pytest.mark.parametrize(("user", "how"), [("crash", "was killed by signal 9"), ("exit", "ended with exit code 7")])
def test_a_reward_outlives_a_crash_and_changes_no_episode(make: Make, user: str, how: str) -> None:
    reward, episode = make("reward", REWARD), _episode()

    async def scored() -> list[float]:
        first = await reward.score([episode])
        with pytest.raises(PluginError, match=rf'reward model "reward" of reward\.py .* {how} in score\(\)'):
            await reward.score([_episode(user)])
        return [first[0].value, (await reward.score([episode]))[0].value]

    first, second = asyncio.run(scored())

    assert len({first, second, float(os.getpid())}) == 3
    assert episode == _episode()


def test_a_reward_that_never_lets_go_of_the_interpreter_is_ended(make: Make) -> None:
    reward = make("reward", REWARD)

    async def scored() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reward.score([_episode("hang")]), 1)
        found = await reward.score([_episode()])
        return float(found[0].value)

    assert asyncio.run(scored()) != os.getpid()


def test_a_memory_opens_its_folder_again_in_a_new_process(make: Make, tmp_path: Path) -> None:
    memory = make("memory", MEMORY)
    memory.open(tmp_path)

    async def recalled() -> list[Recollection]:
        await memory.learn(_episode(), 1.0)
        before = await memory.recall(_query())
        with pytest.raises(PluginError, match=r"killed by signal 11 in recall\(\), episode 00000-0"):
            await memory.recall(_query("segfault"))
        return [*before, *await memory.recall(_query())]

    before, after = asyncio.run(recalled())

    assert before.text.split()[1:] == after.text.split()[1:] == ["00000-0", "of", "2", "turns", "earned", "1.0"]
    assert before.text.split()[0] != after.text.split()[0]
    assert before.why == {"by": ["file", 1]}


def test_a_memory_that_crashes_where_an_episode_begins_is_named(make: Make) -> None:
    memory = make("memory", MEMORY)

    with pytest.raises(PluginError, match=r'memory "memory" of memory\.py .* signal 11 in begin\(\), episode 00000-0'):
        memory.begin(Task(0, 0, "segfault at the start"))

    memory.begin(Task(1, 0))


def test_only_the_call_that_ends_the_process_fails(make: Make, tmp_path: Path) -> None:
    memory = make("memory", MEMORY)
    memory.open(tmp_path)
    users = ["slow", "segfault", "slow", "ada", "slow"]

    async def recalled() -> list[Any]:
        calls = (memory.recall(_query(user, sample)) for sample, user in enumerate(users))
        return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(recalled())

    assert [isinstance(one, PluginError) for one in found] == [user == "segfault" for user in users]
    assert "episode 00000-1" in str(found[1])


def test_a_memory_that_takes_all_memory_is_named_and_begins_anew(make: Make, tmp_path: Path) -> None:
    memory = make("memory", MEMORY, most_memory=1000)
    memory.open(tmp_path)

    async def recalled() -> list[int]:
        first = await _number(memory)
        with pytest.raises(PluginError, match=r'memory "memory" .* recall\(\), episode 00000-0: MemoryError') as caught:
            await memory.recall(_query("eat"))
        assert caught.value.fix == "give it more: --set memory.memory.most_memory=MIB"
        return [first, await _number(memory)]

    first, second = asyncio.run(recalled())

    assert first != second


@pytest.mark.parametrize(
    ("user", "said"), [("raise", "ValueError: spilt"), ("wrong", "gave a int, not a Recollection")]
)
def test_an_error_has_the_words_that_it_has_without_isolation(make: Make, tmp_path: Path, user: str, said: str) -> None:
    memory = make("memory", MEMORY)
    memory.open(tmp_path)

    async def recalled() -> tuple[Any, int, int]:
        before = await _number(memory)
        with pytest.raises(PluginError) as caught:
            await memory.recall(_query(user))
        return caught.value, before, await _number(memory)

    error, before, after = asyncio.run(recalled())

    assert error.message.startswith('memory "memory" of memory.py')
    assert said in error.message
    assert before == after, "an error is no reason to end the process"


def test_a_memory_has_its_tools_and_hears_there(make: Make, tmp_path: Path) -> None:
    memory, task = make("memory", MEMORY), Task(0, 0, "ada")
    memory.open(tmp_path)

    async def played() -> tuple[tuple[bool, str], str, str]:
        await memory.hear(Saying("1", "ada", "I like tea", "c", 1.0))
        heard = (await memory.recall(_query()))[0].text
        noted = await memory.tools(task)[0].answer({"text": "oolong"})
        return noted, heard, (await memory.recall(_query()))[0].text

    (well, said), heard, noted = asyncio.run(played())

    assert well
    assert said != f"noted in {os.getpid()}"
    assert heard.endswith("I like tea")
    assert noted.endswith("ada: oolong")


def test_what_a_component_leaves_to_its_base_class_is_asked_of_nobody(make: Make) -> None:
    memory = make(
        "memory", "from agentfw import Memory\n\n\nclass Mine(Memory):\n    async def recall(self, query): return []\n"
    )

    assert type(memory).hear is Memory.hear
    assert type(memory).recall is not Memory.recall
    assert memory.tools(Task(0, 0)) == ()


def test_what_it_prints_goes_where_this_process_prints(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = make("memory", MEMORY)
    memory.open(tmp_path)

    number = asyncio.run(_number(memory))
    memory._process._life.remote.stop()
    out, printed = capsys.readouterr()

    assert out == ""
    assert f"printed by {number}\n" in printed
    assert "written\n" in printed


def test_a_component_that_cannot_be_made_is_an_error_at_once(make: Make) -> None:
    with pytest.raises(PluginError, match=r'memory "memory" of memory.py .* made: ValueError: spilt'):
        make("memory", MEMORY + "    def __init__(self):\n        raise ValueError('spilt')\n")


def test_a_crash_while_it_is_made_is_named(tmp_path: Path) -> None:
    site = tmp_path / "site"
    about = site / "agentfw_crashing-1.0.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: agentfw-crashing\nVersion: 1.0.0\n")
    (about / "entry_points.txt").write_text("[agentfw]\ncrashing = agentfw_crashing\n")
    (site / "agentfw_crashing.py").write_text(
        "from agentfw import Component, hookimpl\n\n\n@hookimpl\ndef agentfw_memories():\n"
        "    return [Component('crashing', 'agentfw_crashes:Memory', '')]\n"
    )
    (site / "agentfw_crashes.py").write_text("import os\nos.abort()\n")
    run = ["--memory", "crashing", "--set", "memory.crashing.isolate=true", "--episodes", "1"]

    ended = subprocess.run(
        [sys.executable, "-m", "agentfw", "run", "inbox", *run],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 3, ended.stderr
    assert 'memory "crashing" of agentfw-crashing 1.0.0 was killed by signal 6 in its creation' in ended.stderr


def test_a_run_isolates_what_its_spec_says_and_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = list[Remote]()
    start = LocalEngine.start

    def noted(self: LocalEngine, *given: Any, **named: Any) -> Remote:
        processes.append(start(self, *given, **named))
        return processes[-1]

    monkeypatch.setattr(LocalEngine, "start", noted)
    (tmp_path / "reward.py").write_text(REWARD)
    (tmp_path / "memory.py").write_text(MEMORY)
    values = {
        "environment": "inbox",
        "policy": "random",
        "rewards": [str(tmp_path / "reward.py")],
        "memories": [str(tmp_path / "memory.py")],
        "episodes": 2,
    }
    isolation = {"reward": {"reward": {"isolate": True}}, "memory": {"memory": {"isolate": True, "most_memory": 4000}}}
    run = Run.create(parse_spec(apply_assignments(values, isolation)), Host.load(), tmp_path / "runs")

    asyncio.run(run.execute())

    assert len(list(run.folder.episodes())) == 2
    assert all(episode.turns for episode in run.folder.episodes())
    assert run.folder.about["spec"]["memories"][0]["most_memory"] == 4000
    assert [process.alive for process in processes] == [False, False]


@pytest.mark.nightly
def test_an_episode_that_ends_the_process_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "tired.py").write_text(
        "import os\nfrom agentfw import Memory\n\n\nclass Tired(Memory):\n    async def recall(self, query):\n"
        "        if query.task.index == 3:\n            os._exit(1)\n        return []\n"
    )
    memory = {"name": str(tmp_path / "tired.py"), "isolate": True}
    values = {"environment": "inbox", "policy": "random", "memories": [memory], "episodes": 8, "max_failed": 0.2}
    run = Run.create(parse_spec(values), Host.load(), tmp_path / "runs")

    asyncio.run(run.execute())

    assert sorted(episode.task.index for episode in run.folder.episodes()) == [0, 1, 2, 4, 5, 6, 7]
    failed = [json.loads(line) for line in (run.folder.path / "failed.jsonl").read_text().splitlines()]
    assert [line["episode"] for line in failed] == ["00003-0"]
    assert 'memory "tired" of tired.py' in failed[0]["reason"]
    assert "ended with exit code 1 in recall(), episode 00003-0" in failed[0]["reason"]


def test_secrets_of_the_run_are_struck_out_of_what_a_process_prints_and_answers(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = make("memory", MEMORY.replace('"printed by"', '"it is hunter2/xyz"').replace("nothing", "hunter2%2Fxyz"))
    host = memory._process._isolation.host
    host.secrets.add("hunter2/xyz")  # of a component that is made later
    memory._process._life.kill()
    memory.open(tmp_path)

    found = asyncio.run(memory.recall(_query()))
    memory._process._life.remote.stop()

    assert "it is **********" in capsys.readouterr().err
    assert found[0].text.endswith("**********")


def test_ctrl_c_ends_a_run_whose_isolated_component_hangs_and_its_process(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import os, re\nfrom pathlib import Path\nfrom agentfw import Memory\n\n\nclass Hanging(Memory):\n"
        "    async def recall(self, query):\n"
        f"        Path({str(tmp_path / 'number')!r}).write_text(str(os.getpid()))\n"
        "        re.fullmatch('(a+)+b', 'a' * 200)\n"
    )
    words = ["run", "inbox", "--memory", "./hanging.py", "--set", "memory.hanging.isolate=true", "--episodes", "1"]
    running = subprocess.Popen(
        [sys.executable, "-m", "agentfw", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # In the background of a script SIGINT is ignored, and a child would inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    number = _waited_for(tmp_path / "number")

    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)

    assert running.returncode == 130, told
    assert "resume with" in told
    assert _is_gone(number)


def test_a_process_that_hangs_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import os, re\nfrom pathlib import Path\n\n\ndef score(episode):\n"
        f"    Path({str(tmp_path / 'number')!r}).write_text(str(os.getpid()))\n"
        "    re.fullmatch('(a+)+b', 'a' * 200)\n    return 1.0\n"
    )
    words = ["run", "inbox", "--reward", "./hanging.py", "--set", "reward.hanging.isolate=true", "--episodes", "1"]
    running = subprocess.Popen([sys.executable, "-m", "agentfw", *words], cwd=tmp_path, stderr=subprocess.DEVNULL)
    number = _waited_for(tmp_path / "number")

    running.kill()
    running.wait()

    assert _is_gone(number)


def _waited_for(file: Path) -> int:
    until = time.monotonic() + 120
    while time.monotonic() < until and not (file.exists() and file.read_text()):
        time.sleep(0.05)
    return int(file.read_text())


def _is_gone(number: int) -> bool:
    """Whether a process ends, which may be a moment after its parent."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{number}/stat")
        if state.exists() and re.search(r"\) Z ", state.read_text()):
            return True
        time.sleep(0.05)
    return False
