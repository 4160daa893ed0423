"""Broken plugins as source text: each call of each kind of component, each way of failing in it.

    for case in cases():
        case.name, case.words, case.code

All of them are one distribution, agentfw-zoo, with a class for each case. What the class does besides failing is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

DISTRIBUTION = "agentfw-zoo"

RAISES = {
    "value_error": "raise ValueError('spilt')",
    "panic": "raise Panic('a library written in Rust')",
    "exit": "raise SystemExit(3)",
    "stop_iteration": "next(iter(()))",
    "wordless": "raise Wordless()",
    "cancelled": "raise asyncio.CancelledError()",
    "recursion": "deeper()",
    "timeout": "raise TimeoutError('of its own')",
    "group": "raise BaseExceptionGroup('two', [Panic('one'), ValueError('other')])",
    "stop_async": "raise StopAsyncIteration()",
    "own_error": "raise UsageError('spilt')",
    "long_message": "raise ValueError('tea ' * 1_000_000)",
    "odd_message": "raise ValueError('\\ud800\\x1b[2J\\n\\n\\x00')",
    "its_own_cause": "raise Circular()",
    "reads_stdin": "input()",
    "asserts": "assert not self",
}
RETURNS = {
    "number": "return 3",
    "nothing": "return None",
    "text": "return 'tea'",
    "coroutine": "return asyncio.sleep(0)",
    "object": "return object()",
    "lying": "return Lying()",
    "not_a_number": "return float('nan')",
    "huge": "return 10**400",
    "generator": "return (each for each in (1, 2))",
    "incomparable": "return Incomparable()",
    "surrogate": "return '\\ud800'",
    "raising_property": "return RaisingProperty()",
    "itself": "return self",
    "endless": "return itertools.repeat(None)",
    "mock": "return mock.MagicMock()",
    "lying_text": "return LyingText('tea')",
    "deep": "return deep()",
    "dead_proxy": "return weakref.proxy(type('Gone', (), {})())",
    "foreign_future": "return asyncio.Future(loop=asyncio.SelectorEventLoop())",
    "class": "return dict",
    "bytes": "return b'tea'",
}
GLOBALS = {
    "handlers": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "policy": "asyncio.set_event_loop_policy(NoLoops())",
    "stdout": "sys.stdout = io.StringIO()",
    "environ": "os.environ.clear()",
    "path": "sys.path.clear()",
    "seed": "random.seed(1)",
    "warnings": "warnings.simplefilter('error')",
    "gc": "gc.disable()",
    "cancels_all": "[task.cancel() for task in tasks()]",
    "prints": "os.write(1, b'a banner\\n')",
    "alarm": "signal.setitimer(signal.ITIMER_REAL, 0.05)",
    "alarm_handler": "signal.signal(signal.SIGALRM, lambda *_: 1 / 0)",
    "exits_when_deleted": "ExitsWhenDeleted()",
    "closes_stdout": "sys.stdout.close()",
    "closes_stderr": "sys.stderr.close()",
    "closes_file_1": "os.close(1)",
    "thread_raises": "threading.Thread(target=deeper).start()",
    "task_raises": "begin_task(fails())",
    "traces": "sys.settrace(lambda *given: 1 / 0)",
    "no_logs": "logging.disable(); logging.shutdown()",
    "all_logs": "logging.basicConfig(level=1, force=True)",
    "temporary": "tempfile.tempdir = '/nowhere'",
    "recursion_limit": "sys.setrecursionlimit(200)",
    "locale": "locale.setlocale(locale.LC_ALL, 'C')",
    "signal_mask": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])",
    "deletes_itself": "sys.modules.pop(__name__, None)",
    "thread_for_ever": "threading.Thread(target=hold_on).start()",
    "at_exit": "atexit.register(hold_on)",
    "forks": "os.fork() or os._exit(0)",
    "umask": "os.umask(0o777)",
}
HANGS = {
    "sleeps": "time.sleep(10_000)",
    "spins": "while True: pass",
    "holds_on": "hold_on()",
    "takes_handler": "signal.signal(signal.SIGINT, lambda *_: None); hold_on()",
    "locks": "threading.Lock().acquire() and deadlock()",
    "leaves_thread": "threading.Thread(target=time.sleep, args=(10_000,)).start(); time.sleep(10_000)",
}
AWAITED_HANGS = {
    "awaits": "await asyncio.sleep(10_000)",
    "holds_on_awaiting": "await hold_on_awaiting()",
    "in_a_thread": "await asyncio.to_thread(time.sleep, 10_000)",
}

CALLS: dict[str, dict[str, str]] = {
    "environment": {
        "begin": "", "goal": "", "profile": "", "intervene": "", "turned": "", "outcome": "", "demonstrate": "",
        "tasks": "", "describe": "", "references": "", "time_per_token": "", "tick": "",
    },
    "policy": {"generate": "async", "generation_time": "", "open": "", "close": "async"},
    "tool": {"open": "async", "call": "async", "close": "async"},
    "memory": {
        "recall": "async", "learn": "async", "open": "", "begin": "", "introduce": "", "tools": "", "close": "async",
    },
    "reward": {"score": "async", "open": "", "close": "async"},
    "tracker": {"begin": "", "log": "", "finish": "", "close": ""},
}  # fmt: skip
"""What is called of a component in a run, and whether it is a coroutine."""
AT_THE_END = ("close", "finish")
"""What fails there is noted: a run that is over isn't lost to it."""

HEAD = """
import asyncio, atexit, builtins, gc, io, itertools, json, locale, logging, os, random, signal, sys, tempfile
import threading, time, warnings, weakref
from pathlib import Path
from unittest import mock
import agentfw
from agentfw import Component, Environment, Generation, Intervention, Memory, Policy, RewardModel, Score
from agentfw import action, hookimpl
from agentfw.episode import Call
from agentfw.errors import UsageError
from agentfw.tool import FunctionTool, Tool, Toolbox
from agentfw.tracker import Tracker

class Panic(BaseException): pass
class Wordless(Exception):
    def __str__(self): raise RuntimeError("no words")
class Lying(list):
    def __iter__(self): raise RuntimeError("no")
    def __len__(self): return 10**9
class Incomparable:
    def __eq__(self, other): raise RuntimeError("can't be compared")
    __hash__ = None
class RaisingProperty:
    def __getattr__(self, name): raise RuntimeError(name)
class LyingText(str):
    def __len__(self): raise RuntimeError("no length")
    def __str__(self): return 3
class Circular(Exception):
    def __init__(self): self.__cause__ = self
class ExitsWhenDeleted:
    def __del__(self): raise SystemExit(3)
def deep():
    found = []
    for _ in range(100_000): found = [found]
    return found
async def fails(): raise ValueError("nobody awaits this")
def begin_task(coroutine):
    try: asyncio.get_running_loop().create_task(coroutine)
    except RuntimeError: coroutine.close()
class NoLoops(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self): raise RuntimeError("no loops today")
def deeper(): return deeper()
def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def tasks():
    try: return asyncio.all_tasks()
    except RuntimeError: return ()
def hold_on():
    while True:
        try: time.sleep(10_000)
        except BaseException: pass
async def hold_on_awaiting():
    while True:
        try: await asyncio.sleep(10_000)
        except BaseException: pass
def busy(): Path(os.environ["ZOO_BUSY"]).touch()

def look_up() -> str:
    "Look it up."
    return "found"

class Good_environment(Environment):
    "Pour."
    def begin(self, world, task):
        self.world = world
        world.observe("thirsty")
        world.after(1, self.tick)
    def tick(self): self.world.observe("refilled")
    @action
    def pour(self) -> None:
        "Pour a cup."
    def demonstrate(self, moment): return [Intervention("pour")]
    def profile(self): return {"about": "likes tea"}
class Good_policy(Policy):
    is_program = True
    async def generate(self, request):
        answered = any(each.name == "answer" for each in request.moment.observations)
        calls = () if answered else (Call("look_up", {}), Call("pour", {}))
        return Generation("", calls, version="zoo")
class Good_tool(Toolbox, Tool):
    def __init__(self):
        self.inner = FunctionTool(look_up)
        self.action = self.inner.action
    async def open(self): return [self]
    async def call(self, arguments): return "found"
class Good_memory(Memory):
    async def recall(self, query): return []
class Good_reward(RewardModel):
    async def score(self, group): return [Score(each.id, "zoo", 1.0) for each in group]
class Good_tracker(Tracker):
    def log(self, step, metrics): pass
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One broken component."""

    kind: str
    call: str
    fault: str
    body: str
    awaited: bool

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.call}-{self.fault}".replace("_", ".")

    @property
    def class_name(self) -> str:
        return f"{self.kind}__{self.call}__{self.fault}"

    @property
    def hangs(self) -> bool:
        return self.fault in HANGS or self.fault in AWAITED_HANGS

    @property
    def told(self) -> tuple[str, ...]:
        """What must be said where something is said: the distribution and the component."""
        return DISTRIBUTION, f'"{self.name}"'

    @property
    def words(self) -> list[str]:
        """The command that runs it beside components that are well."""
        chosen = {"policy": "good.policy", "tool": "good.tool", "environment": "good.environment"}
        chosen[self.kind] = self.name
        options = [word for kind, name in chosen.items() if kind != "environment" for word in (f"--{kind}", name)]
        if self.kind == "environment" and self.call == "demonstrate":
            options[options.index("--policy") + 1] = "scripted"
        return ["run", chosen["environment"], *options, "--episodes", "2"]

    @property
    def code(self) -> str:
        kept = "" if self.call in ("tick",) else "*given, **more"
        prefix = "async " if self.awaited else ""
        busy = "busy()\n        " if self.hangs else ""
        after = ""
        if self.fault in GLOBALS:
            wait = "await " if self.awaited else ""
            after = f"\n        return {wait}Good_{self.kind}.{self.call}(self, *given, **more)" if kept else ""
        given = f"self, {kept}" if kept else "self"
        return (
            f"class {self.class_name}(Good_{self.kind}):\n"
            f"    {prefix}def {self.call}({given}):\n        {busy}{self.body}{after}\n"
        )


def cases() -> Iterator[Case]:
    for kind, calls in CALLS.items():
        for call, prefix in calls.items():
            faults = RAISES | RETURNS | GLOBALS
            faults |= HANGS if call in ("begin", "tick", "generate", "open", "call", "recall", "score", "log") else {}
            faults |= AWAITED_HANGS if prefix and call != "close" else {}
            for fault, body in faults.items():
                yield Case(kind, call, fault, body, bool(prefix))


def source(every: list[Case]) -> str:
    """The one module of the distribution."""
    parts = [HEAD, *(case.code for case in every)]
    hooks = {"reward": "reward_models", "policy": "policies", "memory": "memories"}
    for kind in CALLS:
        offers = [(case.name, case.class_name) for case in every if case.kind == kind]
        offers.append((f"good.{kind}", f"Good_{kind}"))
        listed = ", ".join(f"Component({name!r}, 'agentfw_zoo:{path}', 'Of the zoo')" for name, path in offers)
        parts.append(f"@hookimpl\ndef agentfw_{hooks.get(kind, kind + 's')}(): return [{listed}]\n")
    return "\n".join(parts)
