"""Some seventy ways in which a component goes wrong, through `list`, `check`, `run` and `train`.

What holds for each of them: the error names the distribution and the component and says what to do, the exit code is
the documented one, nothing is called a bug of agentfw, and a run that doesn't select the component goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import Agentfw

from agentfw.component import KINDS

ZOO = "agentfw-zoo"

SETTINGS = {
    "no-module": "agentfw_zoo.gone:Settings",
    "no-name": "agentfw_zoo.settings:Gone",
    "no-model": "agentfw_zoo.settings:NoModel",
    "unresolved": "agentfw_zoo.settings:Unresolved",
    "key-error": "agentfw_zoo.settings:KeyErrors",
    "ends-python": "agentfw_zoo.settings:EndsPython",
    "speechless": "agentfw_zoo.settings:Speechless",
    "default-fails": "agentfw_zoo.settings:DefaultFails",
}
"""Faults of settings: by the name of the fault, the path of the model."""

FACTORIES = {
    "absent": "agentfw_zoo.gone:Thing",
    "nameless": "agentfw_zoo.factories:Gone",
    "broken-import": "agentfw_zoo.broken:Thing",
    "exit-at-import": "agentfw_zoo.exiting:Thing",
    "not-callable": "agentfw_zoo.factories:NUMBER",
    "raises": "agentfw_zoo.factories:raises",
    "raises-speechless": "agentfw_zoo.factories:speechless",
    "exits": "agentfw_zoo.factories:exits",
    "panics": "agentfw_zoo.factories:panics",
    "cancelled": "agentfw_zoo.factories:cancelled",
    "gives-none": "agentfw_zoo.factories:gives_none",
    "wants-more": "agentfw_zoo.factories:wants_more",
}
"""Faults of factories: by the name of the fault, the path of the factory."""

METHODS = {
    "environment": ("tasks", "begin", "describe", "headline", "turned", "demonstrate"),
    "policy": ("generate", "generation_time", "close"),
    "tool": ("open", "close"),
    "memory": ("recall", "learn", "begin", "open", "tools", "close"),
    "reward": ("score", "open", "close"),
    "optimizer": ("advantages", "loss", "metrics", "state"),
    "learner": ("update", "state", "open", "start"),
    "tracker": ("begin", "log", "finish", "close"),
}
"""What is called of a component in a run or a training."""

AWAITED = {"policy": ("generate", "close"), "memory": ("recall", "learn", "close"), "reward": ("score", "close")}
AWAITED["tool"] = METHODS["tool"]

WRONG = {
    "environment": ("tasks", "describe", "headline"),
    "policy": ("generate",),
    "tool": ("open",),
    "memory": ("recall", "tools"),
    "reward": ("score",),
    "optimizer": ("advantages", "loss", "metrics", "state"),
    "learner": ("update", "state"),
}
"""What gives an answer that is used; the number 3 is none of them."""

MORE = {
    "environment.begin.panic": "raise Panic('at begin')",
    "environment.demonstrate.number": "return [3]",
    "environment.demonstrate.late": "yield 'tea'; raise KeyError('cup')",
    "memory.recall.exit": "raise SystemExit(0)",
    "memory.recall.wordless": "raise Wordless()",
    "memory.recall.panic": "raise Panic('at recall')",
    "policy.generate.text": "return agentfw.Generation(5)",
    "policy.generate.calls": "return agentfw.Generation('', ('say',))",
    "policy.generate.arguments": "return agentfw.Generation('', (Call('say', {'word': object()}),))",
    "policy.generate.count": "return agentfw.Generation('', count=-1)",
}
"""What else a call may do, by the name of its component."""

NOTED = ("close",)
"""A run that is over isn't lost to what fails at its end: it is noted, and the exit code is 0."""

PACKAGE = {
    "settings": """
from __future__ import annotations
from agentfw import Settings
from pydantic import BaseModel, Field, model_validator

class NoModel: pass

class Unresolved(BaseModel):
    limit: NotThere = 3

class KeyErrors(Settings):
    limit: int = 3
    @model_validator(mode="after")
    def _check(self):
        raise KeyError("limit")

class EndsPython(Settings):
    @model_validator(mode="after")
    def _check(self):
        raise SystemExit(0)

class Wordless(Exception):
    def __str__(self):
        raise RuntimeError("no words")

class Panic(BaseException):
    "As a library written in Rust raises it."

class Speechless(Settings):
    @model_validator(mode="after")
    def _check(self):
        raise Wordless()

def fails():
    raise OSError("no default today")

class DefaultFails(Settings):
    limit: int = Field(default_factory=fails)
""",
    "factories": """
import asyncio
from agentfw_zoo.settings import Panic, Wordless

NUMBER = 3

def raises(): raise ValueError("spilt")
def speechless(): raise Wordless()
def exits(): raise SystemExit(0)
def cancelled(): raise asyncio.CancelledError()
def gives_none(): return None
def panics(): raise Panic("when made")
def wants_more(one, two): return None
""",
    "broken": "1 / 0",
    "exiting": "raise SystemExit(0)",
}


REQUIRED = ("", "tasks", "generate", "recall", "score", "advantages", "update", "log")
"""The methods whose faults `plugins check` is tried with: those that each component has, besides how it is made."""


class Case(NamedTuple):
    """One component of the zoo: its kind, its name, and how it is described to the host."""

    kind: str
    name: str
    factory: str
    settings: str = ""
    work: str = ""
    """What the method that fails does. Empty where the component fails as a whole."""

    @property
    def called(self) -> str:
        """The method that fails."""
        return self.name.split(".")[1] if self.work else ""

    @property
    def class_name(self) -> str:
        return self.factory.partition(":")[2]


def _cases() -> Iterator[Case]:
    # How a component is made is the same for all kinds.
    for fault, path in SETTINGS.items():
        yield Case("memory", f"memory-settings-{fault}", "agentfw:Memory", path)
    for fault, path in FACTORIES.items():
        yield Case("memory", f"memory-factory-{fault}", path)
    works = {f"{kind}.{method}.error": "raise ValueError('spilt')" for kind in METHODS for method in METHODS[kind]}
    works |= {f"{kind}.{method}.3": "return 3" for kind in WRONG for method in WRONG[kind]}
    for name, work in {**works, **MORE}.items():
        yield Case(name.split(".")[0], name, f"agentfw_zoo.calls:{name.replace('.', '_')}", work=work)


CASES = {case.name: case for case in _cases()}
CHECKED = {name: case for name, case in CASES.items() if case.called in REQUIRED and name not in MORE}

GOOD = """
import asyncio
import agentfw
from agentfw.episode import Call
from agentfw_laboratory import bandit, memories, rewards
from agentfw_zoo.settings import Panic, Wordless

class Good_environment(bandit.Bandit):
    def __init__(self): super().__init__(bandit.BanditSettings(rounds=2))
class Good_policy(bandit.Biased):
    def __init__(self): super().__init__(bandit.BiasedSettings())
class Good_tool(agentfw.Toolbox):
    async def open(self): return []
class Good_memory(memories.Scratch): pass
class Good_reward(rewards.Varied): pass
class Good_optimizer(bandit.Centred):
    def __init__(self): super().__init__(bandit.CentredSettings())
class Good_learner(bandit.Bias):
    def __init__(self): super().__init__(bandit.BiasSettings())
class Good_tracker(agentfw.Tracker):
    def log(self, step, metrics): pass
class Stopping(Good_policy):
    async def generate(self, request):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(1)
"""


def _calls() -> str:
    """The module of components whose calls go wrong."""
    lines = [GOOD]
    for case in CASES.values():
        if case.called:
            how = "async def" if case.called in AWAITED.get(case.kind, ()) else "def"
            marks = "@property\n    " if case.called == "headline" else ""
            method = f"{marks}{how} {case.called}(self, *given, **more): {case.work}"
            lines.append(f"class {case.class_name}(Good_{case.kind}):\n    {method}\n")
    return "\n".join(lines)


def _registration() -> str:
    lines = ["from agentfw import Component, hookimpl"]
    stopping = Case("policy", "stopping", "agentfw_zoo.calls:Stopping")
    for kind, about in KINDS.items():
        cases = [case for case in (*CASES.values(), stopping) if case.kind == kind]
        offers = [f"Component({one.name!r}, {one.factory!r}, '', settings={one.settings!r})" for one in cases]
        lines.append(f"@hookimpl\ndef {about.hook}():\n    return [{', '.join(offers)}]\n")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution agentfw-zoo."""
    folder = tmp_path_factory.mktemp("site")
    package, dist_info = folder / "agentfw_zoo", folder / "agentfw_zoo-1.0.0.dist-info"
    package.mkdir()
    dist_info.mkdir()
    for module, code in {**PACKAGE, "calls": _calls(), "plugin": _registration(), "__init__": ""}.items():
        (package / f"{module}.py").write_text(code, "utf-8")
    (dist_info / "METADATA").write_text(f"Name: {ZOO}\nVersion: 1.0.0\n", "utf-8")
    (dist_info / "entry_points.txt").write_text("[agentfw]\nzoo = agentfw_zoo.plugin\n", "utf-8")
    return folder


@pytest.fixture
def zoo(site: Path, agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> Agentfw:
    monkeypatch.syspath_prepend(str(site))
    return agentfw


TRAIN = {"environment": "bandit", "policy": "biased", "optimizer": "centred", "learner": "bias"}
SMALL = ("updates=1", "tasks=1", "samples=2", "evaluation.tasks=1")


def words(kind: str = "", name: str = "") -> list[str]:
    """A small run with this component, or a small training where only that uses such a component."""
    training = kind in ("optimizer", "learner")
    chosen = TRAIN if training else {"environment": "bandit", "policy": "biased"}
    if ".demonstrate." in name:
        chosen = {**chosen, "policy": "scripted"}
    chosen = {**chosen, **({kind: name} if kind else {})}
    made = ["train" if training else "run", chosen.pop("environment")]
    made += [word for kind, name in chosen.items() for word in (f"--{kind}", name)]
    return made + ([word for each in SMALL for word in ("--set", each)] if training else ["--episodes", "1"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_whoever_selects_it_is_told_who_is_to_blame(zoo: Agentfw, case: Case) -> None:
    noted = case.called in NOTED or (case.kind == "tracker" and case.called)
    told = zoo(*words(case.kind, case.name)).told(0 if noted else 3)

    assert f'"{case.name}" of {ZOO}' in told
    assert "bug in agentfw" not in told


@pytest.mark.parametrize("case", CHECKED.values(), ids=CHECKED)
def test_its_check_fails_and_says_how(zoo: Agentfw, case: Case) -> None:
    check = zoo("plugins", "check", f"{case.kind}:{case.name}")

    assert check.code == 3, check.out
    assert "broken" in check.out or f'"{case.name}" of {ZOO}' in check.err
    assert "bug in agentfw" not in check.err + check.out


def test_all_of_them_are_listed_and_those_who_select_none_go_on(zoo: Agentfw) -> None:
    listed, run, train = zoo("plugins", "list", "--json"), zoo(*words()), zoo(*words("learner", "bias"))

    assert CASES.keys() <= {row["name"] for row in listed.json if row["distribution"] == ZOO}
    assert (listed.code, run.code, train.code) == (0, 0, 0)
    assert ZOO not in listed.err + run.err + train.err


def test_what_no_call_explains_accuses_nobody(zoo: Agentfw) -> None:
    told = zoo(*words("policy", "stopping")).told(1)

    assert "Event loop stopped" in told
    assert ZOO not in told
