"""Kills trainings at random moments, resumes them, and compares what came of it with trainings that nobody disturbed.

Equal means every episode, every score, every figure that isn't a time, and every byte of the versions that are left;
and nothing twice. The cases `overlapped` and `overlapped pool` play up to two updates ahead, the latter with two
replicas, so what they play depends on timing: there, nothing that was on disk may be lost or changed, every update must
be there once, no turn may be too old, and each version must be proven.

    python tests/benchmarks/kill_train.py                           # 30 kills; the language model needs the extra train
    python tests/benchmarks/kill_train.py --case bandit --kills 10 --seed 3 --json
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SITE = Path(__file__).parents[1] / "site"
"""Where the plugin `agentfw-laboratory` is installed, as it were: a package and its dist-info."""

_SIZE = ("--set", "tasks=3", "--set", "samples=3", "--set", "evaluation.every=2", "--set", "evaluation.tasks=3")
CASES: dict[str, tuple[str, ...]] = {
    "bandit": (
        *("bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "6", *_SIZE),
        *("--set", "policy.pause=0.01"),
    ),
    "memory": (
        *("bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "6", *_SIZE),
        *("--memory", "scratch", "--set", "memories_learn=true", "--set", "concurrency=3"),
        *("--set", "policy.pause=0.01"),
    ),
    "overlapped": (
        *("bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "6", *_SIZE),
        *("--set", "policy.pause=0.01", "--set", "staleness=2"),
    ),
    "overlapped pool": (
        *("bandit", "--policy", "pool", "--optimizer", "centred", "--learner", "bias", "--updates", "6", *_SIZE),
        *("--set", "policy.policy.name=biased", "--set", "policy.policy.settings.pause=0.01", "--set", "staleness=2"),
    ),
    "language model": (
        *("bandit", "--policy", "transformers", "--optimizer", "grpo", "--learner", "lora", "--updates", "4", *_SIZE),
        *("--set", "sampling.max_tokens=12", "--set", "environment.rounds=2", "--set", "max_turns=4"),
        *("--reward", "varied", "--set", "learner.learning_rate=1e-3"),
    ),
}
CASES["pool"] = (
    *(word if word != "transformers" else "pool" for word in CASES["language model"]),
    *("--set", "policy.policy.name=transformers", "--set", "learner.tokens=64", "--set", "learner.workers=2"),
)
MODEL = {"language model": "policy.model", "pool": "policy.policy.settings.model"}
"""The setting that names the policy's model, for the cases that have one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One training that was killed, once or more."""

    case: str
    hit: tuple[bool, ...]
    """Whether it still ran then, each time."""
    kept: tuple[str, ...]
    """How far it was after each kill: the updates that count, and the episodes of the one in progress."""
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blow:
    """When to kill: not after a time, which says little on a busy machine, but after a part of the work."""

    share: float
    """How much of what is missing shall be on disk by then, in lines of journals."""
    pause: float
    """How many lines' time it then has: learning and publishing write no lines."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What is left of a training that nobody disturbs, and how long it takes."""

    left: dict[str, str]
    lines: int
    seconds: float


class Laboratory:
    """Trainings of one case, in a folder of its own."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder, self.runs = case, folder, folder / "runs"
        self.runs.mkdir(parents=True)

    def start(self) -> subprocess.Popen[str]:
        """The training, or where there is one already, its resumption."""
        if self.run is not None:
            return self._agentfw("runs", "resume", str(self.run))
        words = CASES[self.case]
        if self.case in MODEL:
            model = _model(self.folder.parent)
            words = (*words, "--set", f"{MODEL[self.case]}={model}", "--set", f"learner.model={model}")
        return self._agentfw("train", *words, "--runs", str(self.runs))

    @property
    def run(self) -> Path | None:
        """The training's folder, once it is whole enough to be resumed."""
        return next((path.parent for path in self.runs.glob("*/run.json")), None)

    def finish(self) -> dict[str, str]:
        """Let it come to its end, undisturbed; everything that must not depend on whether it was killed."""
        process = self.start()
        _, told = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{self.case} ended with {process.returncode}:\n{told}")
        assert self.run is not None
        return dict(_left(self.run))

    def kill(self, blow: Blow, usual: Usual) -> bool:
        """Start it, and kill it when it is so far: whether it still ran."""
        first = self.lines()
        goal = first + blow.share * (usual.lines - first)
        process = self.start()
        while process.poll() is None and self.lines() < goal:
            time.sleep(0.005)
        try:
            process.communicate(timeout=blow.pause * usual.seconds / usual.lines)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return process.returncode == -signal.SIGKILL

    def lines(self) -> int:
        """How many lines all journals have."""
        if self.run is None:
            return 0
        # Not below learner/: versions come and go there while it is looked at.
        places = ("*.jsonl", "rollouts/*/*.jsonl", "evaluations/*/*.jsonl")
        return sum(file.read_bytes().count(b"\n") for place in places for file in self.run.glob(place))

    def records(self) -> set[str]:
        """All records of journals, each with its place."""
        if self.run is None:
            return set()
        files = [file for place in ("updates.jsonl", "*/*/*.jsonl") for file in self.run.glob(place)]
        return {f"{file.relative_to(self.run)} {_text(record)}" for file in files for record in _lines(file)}

    def progress(self) -> str:
        """How far it is, in words."""
        if self.run is None:
            return "not begun"
        state = self.run / "state.json"
        number = json.loads(state.read_text("utf-8"))["update"] if state.exists() else 0
        rollouts = sum(1 for _ in _lines(self.run / "rollouts" / f"{number + 1:05d}" / "episodes.jsonl"))
        return f"{number} updates + {rollouts} episodes"

    def _agentfw(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SITE), os.environ.get("PYTHONPATH", "")])}
        return subprocess.Popen(
            [sys.executable, "-m", "agentfw_cli.main", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.folder,
        )


def undisturbed(case: str, folder: Path) -> Usual:
    """Train without a disturbance."""
    began, laboratory = time.perf_counter(), Laboratory(case, folder)
    left = laboratory.finish()
    return Usual(left, laboratory.lines(), time.perf_counter() - began)


def draw(generator: random.Random, count: int) -> list[Blow]:
    """So many blows, the later ones to the resumption."""
    return [Blow(generator.random(), generator.uniform(0, 4)) for _ in range(count)]


def trial(case: str, folder: Path, usual: Usual, blows: Sequence[Blow]) -> Trial:
    """Kill a training by each of these blows, let it end, and compare."""
    laboratory = Laboratory(case, folder)
    hits: list[bool] = []
    kept: list[str] = []
    acknowledged: set[str] = set()
    for blow in blows:
        hits.append(laboratory.kill(blow, usual))
        kept.append(laboratory.progress())
        acknowledged |= laboratory.records()
    left = laboratory.finish()
    if not case.startswith("overlapped"):
        return Trial(case, tuple(hits), tuple(kept), tuple(differences(left, usual.left)))
    assert laboratory.run is not None
    lost = [f"lost: {record[:80]}" for record in sorted(acknowledged - laboratory.records())]
    return Trial(case, tuple(hits), tuple(kept), (*lost, *faults(laboratory.run)))


def differences(found: dict[str, str], expected: dict[str, str]) -> Iterator[str]:
    """What isn't as it is in the undisturbed training."""
    yield from (f"only in one: {name}" for name in sorted(found.keys() ^ expected.keys()))
    yield from (name for name in sorted(found.keys() & expected.keys()) if found[name] != expected[name])


def faults(run: Path) -> Iterator[str]:
    """What an overlapped training must not have done, however often it was killed."""
    spec = json.loads((run / "run.json").read_text("utf-8"))["spec"]
    updates = [line["update"] for line in _lines(run / "updates.jsonl")]
    if updates != list(range(1, spec["updates"] + 1)):
        yield f"updates {updates}"
    for line in _lines(run / "updates.jsonl"):
        if line["served"] and line["served"].get("proven") != 1:
            yield f"update {line['update']} was not proven"
    for number in updates:
        place = run / "rollouts" / f"{number:05d}"
        names = [f"{each['task']['index']}-{each['task']['sample']}" for each in _lines(place / "episodes.jsonl")]
        if len(names) != spec["tasks"] * spec["samples"] or len(set(names)) < len(names):
            yield f"update {number} has the episodes {sorted(names)}"
        for episode in _lines(place / "episodes.jsonl"):
            for turn in episode["turns"]:
                made = int(turn["version"].partition("@")[2] or 0)
                if not 0 <= number - 1 - made <= spec["staleness"]:
                    yield f"update {number} learned from {turn['version']}"


def _left(run: Path) -> Iterator[tuple[str, str]]:
    """Every record by its place and name, and every file of the versions by its hash."""
    for file in sorted([*run.glob("rollouts/*/*.jsonl"), *run.glob("evaluations/*/*.jsonl")]):
        records = list(_lines(file))
        place = str(file.relative_to(run))
        yield f"{place}: lines", str(len(records))
        for record in records:
            name = record.get("episode") or f"{record['task']['index']:05d}-{record['task']['sample']}"
            yield f"{place}: {name}", _text(record)
    for number, line in enumerate(_lines(run / "updates.jsonl"), start=1):
        figures = {part: some for part, some in line.items() if part not in ("seconds", "speed")}
        for part in ("learner", "served"):
            figures[part] = {name: value for name, value in line[part].items() if not _is_time(name)}
        yield f"update {number}", _text(figures)
    for file in sorted((run / "learner").rglob("*")):
        if file.is_file():
            yield str(file.relative_to(run)), hashlib.sha256(file.read_bytes()).hexdigest()
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    yield "summary", _text({name: value for name, value in summary.items() if name not in ("run", "seconds")})


def _is_time(name: str) -> bool:
    """A figure that says how fast or how large the processes were, and nothing of what was learned."""
    return any(word in name for word in ("second", "memory", "workers"))


def _model(folder: Path) -> Path:
    """A language model of random weights, made once for all trainings below a folder."""
    path = folder / "model"
    if not path.exists():
        spec = importlib.util.spec_from_file_location("kill_train_models", SITE / "agentfw_laboratory" / "models.py")
        assert spec is not None
        assert spec.loader is not None
        models = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(models)
        models.make_model(path)
    return path


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file; read without agentfw, whose reading is under test."""
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    able = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "peft"))
    cases = options.case or [case for case in CASES if able or case not in MODEL]
    generator = random.Random(options.seed)
    trials: list[Trial] = []
    kills = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = {case: undisturbed(case, folder / f"undisturbed {case}") for case in cases}
        while kills < options.kills:
            case = cases[len(trials) % len(cases)]
            # Every third is killed again while it is being resumed.
            times = min(options.kills - kills, 2 if generator.random() < 1 / 3 else 1)
            trials.append(trial(case, folder / str(len(trials)), usual[case], draw(generator, times)))
            kills += sum(trials[-1].hit)
            if not options.json:
                _tell(trials[-1])
    equal = sum(not trial.differences for trial in trials)
    if options.json:
        print(
            json.dumps(
                {
                    "kills": kills,
                    "trainings": len(trials),
                    "equal": equal,
                    "seconds": {case: round(each.seconds, 2) for case, each in usual.items()},
                    "trials": [asdict(each) for each in trials],
                }
            )
        )
    else:
        print(f"\n{kills} kills in {len(trials)} trainings; {equal} of them ended as if undisturbed")
    return 0 if equal == len(trials) else 1


def _tell(trial: Trial) -> None:
    moments = ", ".join(kept if hit else "its end" for hit, kept in zip(trial.hit, trial.kept, strict=True))
    verdict = f"DIFFERENT {trial.differences[:5]}" if trial.differences else "equal"
    print(f"{trial.case:15}  killed after {moments:50}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
