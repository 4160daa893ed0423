"""Runs and trainings that are killed at random moments, resumed, and compared with one that nobody disturbed.

Equal means every record of every episode, every figure that isn't a time, every byte of the versions, and nothing
twice: what `agentfw reproduce` compares. Whatever a hook or a person was told of before a kill has to be on disk after
it, which is read here without agentfw's own reading.

    usual = undisturbed(TrainingCase, "bandit", folder / "undisturbed")
    found = trial(TrainingCase, "bandit", folder / "killed", usual, draw(random.Random(7), 2))
    assert found.differences == ()
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agentfw.runs import RunFolder
from agentfw.runs.results.reproduction import content_of

from .laboratory import make_model
from .processes import AGENTFW, with_laboratory

_GUESSING = ("guessing", "--policy", "hashing", "--set", "concurrency=4", "--set", "policy.pause=0.006")
_SIZE = ("--set", "tasks=3", "--set", "samples=3", "--set", "evaluation.every=2", "--set", "evaluation.tasks=3")
_BIASED = ("--optimizer", "centred", "--learner", "bias", "--updates", "6", *_SIZE)
_BANDIT = ("bandit", "--policy", "biased", *_BIASED, "--set", "policy.pause=0.01")
_SHORT_CALENDAR = (
    *("calendar", "--episodes", "1", "--memory", "strategyhub", "--set", "memories_learn=false"),
    *("--set", "environment.rounds=8", "--set", "sampling.temperature=1"),
)


@dataclass(frozen=True, slots=True)
class Blow:
    """When to kill: not after a time, which says little on a busy machine, but after a part of the work."""

    share: float
    """How much of what is missing shall be on disk by then, in lines of journals."""
    pause: float
    """How many lines' time it then has: learning and publishing write no lines."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What is left of a run that nobody disturbs, and how long it takes."""

    left: Mapping[str, str]
    lines: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One run that was killed, once or more."""

    case: str
    hit: tuple[bool, ...]
    """Whether it still ran then, each time."""
    kept: tuple[int, ...]
    """The lines of journals that were on disk at each kill."""
    differences: tuple[str, ...]
    """What was lost, and what isn't as in the undisturbed run."""


class Case:
    """The run or training of a case, in a folder of its own, however often it is killed."""

    CASES: ClassVar[dict[str, tuple[str, ...]]]
    JOURNALS: ClassVar[tuple[str, ...]]

    def __init__(self, case: str, folder: Path, command: Sequence[str]) -> None:
        self.case, self.folder, self.runs = case, folder, folder / "runs"
        self._command, self.kept = command, 0
        self.runs.mkdir(parents=True)

    @property
    def run(self) -> Path | None:
        """The run's folder, once it is whole enough to be resumed."""
        return next((path.parent for path in self.runs.glob("*/run.json")), None)

    def start(self) -> subprocess.Popen[str]:
        """Begin it, or resume it if it has begun."""
        words = [*self._command, "--runs", str(self.runs)] if self.run is None else ["runs", "resume", str(self.run)]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(
            [*AGENTFW, *words], stdout=none, stderr=pipe, text=True, env=with_laboratory(), cwd=self.folder
        )

    def finish(self) -> dict[str, str]:
        """Let it come to its end. Returns everything that must not depend on whether it was killed."""
        process = self.start()
        _, told = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{self.case} ended with {process.returncode}:\n{told}")
        assert self.run is not None
        return dict(self.left(self.run))

    def kill(self, blow: Blow, usual: Usual) -> tuple[bool, str]:
        """Start it, and kill it when it is so far. Returns whether it still ran, and what it had told."""
        first = self.lines()
        goal = first + blow.share * (usual.lines - first)
        process = self.start()
        while process.poll() is None and self.lines() < goal:
            time.sleep(0.005)
        with suppress(subprocess.TimeoutExpired):
            process.wait(blow.pause * usual.seconds / usual.lines)
        self.kept = self.lines()
        self.strike(process)
        _, told = process.communicate()
        return process.returncode == -signal.SIGKILL, told

    def strike(self, process: subprocess.Popen[str]) -> None:
        process.kill()

    def journals(self) -> list[Path]:
        return [] if self.run is None else [file for place in self.JOURNALS for file in self.run.glob(place)]

    def lines(self) -> int:
        """How many lines all journals have."""
        return sum(file.read_bytes().count(b"\n") for file in self.journals())

    def lost(self, told: str) -> list[str]:
        """What was acknowledged and isn't on disk after a kill."""
        return []

    def left(self, run: Path) -> Iterator[tuple[str, str]]:
        """Every record by its name, one that is there twice by another, and the figures of the summary."""
        times = Counter[str]()
        for name, record in content_of(RunFolder.open(run)):
            times[name] += 1
            yield name if times[name] == 1 else f"{name} for the {times[name]}. time", as_text(record)
        yield "summary", as_text(json.loads((run / "summary.json").read_text("utf-8"))["figures"])

    def faults(self, left: Mapping[str, str], usual: Usual) -> Iterator[str]:
        """What isn't as it must be at the end."""
        yield from differences(left, usual.left)


class RunCase(Case):
    """A run. A hook of the laboratory's plugin notes each episode that it is told of."""

    JOURNALS = ("*.jsonl",)
    CASES: ClassVar[dict[str, tuple[str, ...]]] = {
        "inbox": ("inbox", "--episodes", "40"),
        "rounds": (*_GUESSING, "--episodes", "60", "--set", "environment.odd=true"),
        "groups": (*_GUESSING, "--episodes", "20", "--set", "samples=3", "--reward", "rank", "--reward", "utility=0.5"),
        "memory on disk": (*_GUESSING, "--episodes", "30", "--set", "samples=2", "--memory", "ledger"),
        "memory in process": (*_GUESSING, "--episodes", "50", "--memory", "scratch"),
    }

    def __init__(self, case: str, folder: Path) -> None:
        words = self.CASES[case]
        ledger = ("--set", f"memory.ledger.path={folder / 'ledger.db'}") if "ledger" in words else ()
        super().__init__(case, folder, ["run", *words, *ledger])
        (self.runs / "acknowledged.txt").touch()

    def lost(self, told: str) -> list[str]:
        """To a hook they are acknowledged by name, to a person by number."""
        names = set((self.runs / "acknowledged.txt").read_text("utf-8").split())
        gone = sorted(names - self.there("episodes.jsonl"))
        if self.case == "inbox":  # where there are rounds, people are told of rounds
            numbers = [int(number) for number in re.findall(r"^(\d+)/\d+ ", told, re.M)]
            gone += [f"number {number}" for number in numbers if number > len(self.there("metrics.jsonl"))]
        return gone

    def there(self, file: str) -> set[str]:
        """The episodes of which a whole line is on disk."""
        return set() if self.run is None else {episode_of(record) for record in records(self.run / file)}


AGENT = """
import http.client, json, os, sys, time
from urllib.parse import urlsplit

task, url = json.load(sys.stdin), urlsplit(os.environ["OPENAI_BASE_URL"])
for turn in range(3):
    asking = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
    body = {"model": "any", "messages": [{"role": "user", "content": f"{task['id']}, {turn}"}]}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    asking.request("POST", url.path + "/chat/completions", json.dumps(body), key)
    assert asking.getresponse().status == 200
    time.sleep(0.2)
print(json.dumps({"reward": 1.0}))
"""


class AgentCase(RunCase):
    """A run of three hundred agents at once, each a process with three turns, that the run starts and watches.

    Their turns have times and ports of their own, so what is compared is that each has ended, once, with all it said.
    """

    AGENTS = 300
    CASES: ClassVar[dict[str, tuple[str, ...]]] = {
        "agents": (
            *("program", "--policy", "scripted", "--set", 'policy.replies=["Go on."]'),
            *("--set", f"environment.command={sys.executable} -I -S agent.py"),
            *("--set", "environment.tasks=tasks.jsonl"),
            *("--set", f"concurrency={AGENTS}", "--episodes", str(AGENTS)),
        )
    }

    def __init__(self, case: str, folder: Path) -> None:
        super().__init__(case, folder)
        (folder / "agent.py").write_text(AGENT)
        tasks = [json.dumps({"id": f"task {number}", "prompt": "Go."}) for number in range(self.AGENTS)]
        (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")

    def faults(self, left: Mapping[str, str], usual: Usual) -> Iterator[str]:
        assert self.run is not None
        ended = Counter(map(episode_of, records(self.run / "metrics.jsonl")))
        if len(ended) != self.AGENTS or set(ended.values()) != {1}:
            yield f"{len(ended)} agents have ended, {sum(ended.values())} times"
        for record in records(self.run / "episodes.jsonl"):
            if len(record["turns"]) != 3 or record["utility"] != 1.0:
                yield f"{episode_of(record)} has {len(record['turns'])} turns, and its reward is {record['utility']}"


class ReplicaCase(RunCase):
    """A run with a pool of two replicas, of which one is killed. The run itself goes on."""

    CASES: ClassVar[dict[str, tuple[str, ...]]] = {
        "one process": (*_SHORT_CALENDAR, "--policy", "tiny"),
        "pool": (*_SHORT_CALENDAR, "--policy", "pool", "--set", "policy.policy=tiny", "--set", "policy.replicas=2"),
    }

    def kill(self, blow: Blow, usual: Usual) -> tuple[bool, str]:
        self._struck = False
        _, told = super().kill(blow, usual)
        return self._struck, told

    def strike(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None and (replicas := sorted(_workers_of(process.pid))):
            os.kill(replicas[0], signal.SIGKILL)
            self._struck = True


class TrainingCase(Case):
    """A training. The cases `overlapped` play up to two updates ahead, so what they play depends on timing.

    There, nothing that was on disk may be lost or changed, every update must be there once, no turn may be too old, and
    each version must be proven.
    """

    # Not below learner/: versions come and go there while it is looked at.
    JOURNALS = ("*.jsonl", "rollouts/*/*.jsonl", "evaluations/*/*.jsonl")
    CASES: ClassVar[dict[str, tuple[str, ...]]] = {
        "bandit": _BANDIT,
        "memory": (*_BANDIT, "--memory", "scratch", "--set", "memories_learn=true", "--set", "concurrency=3"),
        "overlapped": (*_BANDIT, "--set", "staleness=2"),
        "overlapped pool": (
            *("bandit", "--policy", "pool", *_BIASED, "--set", "staleness=2"),
            *("--set", "policy.policy.name=biased", "--set", "policy.policy.settings.pause=0.01"),
        ),
        "language model": (
            *("bandit", "--policy", "transformers", "--optimizer", "grpo", "--learner", "lora", "--updates", "4"),
            *(*_SIZE, "--set", "sampling.max_tokens=12", "--set", "environment.rounds=2", "--set", "max_turns=4"),
            *("--reward", "varied", "--set", "learner.learning_rate=1e-3", "--set", "learner.tokens=64"),
        ),
    }
    CASES["pool"] = (
        *(word if word != "transformers" else "pool" for word in CASES["language model"]),
        *("--set", "policy.policy.name=transformers"),
    )
    CASES["ray"] = (*CASES["pool"], "--set", "engine=ray")
    MODEL: ClassVar[dict[str, str]] = {
        "language model": "policy.model",
        **dict.fromkeys(("pool", "ray"), "policy.policy.settings.model"),
    }
    """The setting that names the policy's model, for the cases that have one."""

    def __init__(self, case: str, folder: Path) -> None:
        words = ["train", *self.CASES[case]]
        if case in self.MODEL:
            model = folder.parent / "model"  # one for all trainings beside one another
            if not model.exists():
                make_model(model)
            words += ["--set", f"{self.MODEL[case]}={model}", "--set", f"learner.model={model}"]
        super().__init__(case, folder, words)
        self._acknowledged = set[str]()

    def _records(self) -> set[str]:
        """All records of journals, each with its place."""
        assert self.run is not None
        files = [self.run / "updates.jsonl", *self.run.glob("*/*/*.jsonl")]
        return {f"{file.relative_to(self.run)} {as_text(record)}" for file in files for record in records(file)}

    def lost(self, told: str) -> list[str]:
        if self.run is not None:
            self._acknowledged |= self._records()
        return []

    def faults(self, left: Mapping[str, str], usual: Usual) -> Iterator[str]:
        if not self.case.startswith("overlapped"):
            yield from super().faults(left, usual)
            return
        run = self.run
        assert run is not None
        yield from (f"lost: {record[:80]}" for record in sorted(self._acknowledged - self._records()))
        spec = json.loads((run / "run.json").read_text("utf-8"))["spec"]
        updates = list(records(run / "updates.jsonl"))
        if [line["update"] for line in updates] != list(range(1, spec["updates"] + 1)):
            yield f"updates {[line['update'] for line in updates]}"
        for line in updates:
            number = line["update"]
            if line["served"] and line["served"].get("proven") != 1:
                yield f"update {number} was not proven"
            episodes = list(records(run / "rollouts" / f"{number:05d}" / "episodes.jsonl"))
            names = sorted(map(episode_of, episodes))
            if len(names) != spec["tasks"] * spec["samples"] or len(set(names)) < len(names):
                yield f"update {number} has the episodes {names}"
            for turn in (turn for episode in episodes for turn in episode["turns"]):
                made = int(turn["version"].partition("@")[2] or 0)
                if not 0 <= number - 1 - made <= spec["staleness"]:
                    yield f"update {number} learned from {turn['version']}"


def undisturbed(make: Callable[[str, Path], Case], case: str, folder: Path) -> Usual:
    """Play a case without a disturbance."""
    began, played = time.perf_counter(), make(case, folder)
    left = played.finish()
    return Usual(left, played.lines(), time.perf_counter() - began)


def draw(generator: random.Random, count: int) -> list[Blow]:
    """So many blows, the later ones to the resumption."""
    return [Blow(generator.random(), generator.uniform(0, 4)) for _ in range(count)]


def trial(make: Callable[[str, Path], Case], case: str, folder: Path, usual: Usual, blows: Sequence[Blow]) -> Trial:
    """Kill a run by each of these blows, let it end, and compare."""
    played = make(case, folder)
    hits, kept, lost = list[bool](), list[int](), list[str]()
    for blow in blows:
        hit, told = played.kill(blow, usual)
        hits.append(hit)
        kept.append(played.kept)
        lost += [f"lost: {name}" for name in played.lost(told)]
    return Trial(case, tuple(hits), tuple(kept), (*lost, *played.faults(played.finish(), usual)))


def differences(found: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[str]:
    """What isn't as it is in the undisturbed run."""
    yield from (f"only in one: {name}" for name in sorted(found.keys() ^ expected.keys()))
    yield from (name for name in sorted(found.keys() & expected.keys()) if found[name] != expected[name])


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file."""
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


def episode_of(record: dict[str, Any]) -> str:
    """The name of a record's episode."""
    return str(record.get("episode") or f"{record['task']['index']:05d}-{record['task']['sample']}")


def as_text(value: object) -> str:
    """Equal text for equal values."""
    return json.dumps(value, sort_keys=True)


def _workers_of(process: int) -> list[int]:
    """The worker processes that a process has started (Linux)."""
    words = [file.read_text("ascii").split() for file in Path(f"/proc/{process}/task").glob("*/children")]
    found = [int(word) for some in words for word in some]
    return [pid for pid in found if b"agentfw.engine.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
