"""Kills trainings at random moments, resumes them, and compares what came of it with trainings that nobody disturbed.

Equal means every episode, every score, every figure that isn't a time, and every byte of the versions that are left;
and nothing twice. The cases `overlapped` and `overlapped pool` play up to two updates ahead, the latter with two
replicas, so what they play depends on timing: there, nothing that was on disk may be lost or changed, every update must
be there once, no turn may be too old, and each version must be proven.

    python benchmarks/kill_train.py                           # 30 kills; the language model needs the extra train
    python benchmarks/kill_train.py --case bandit --kills 10 --seed 3 --json
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agentfw_benchmarks import Options, make_model, tell
from agentfw_benchmarks.kills import Resumable, as_text, episode_of, kill_after, records, trials

_SIZE = ("--set", "tasks=3", "--set", "samples=3", "--set", "evaluation.every=2", "--set", "evaluation.tasks=3")
_BIASED = ("--optimizer", "centred", "--learner", "bias", "--updates", "6", *_SIZE)
_BANDIT = ("bandit", "--policy", "biased", *_BIASED, "--set", "policy.pause=0.01")
CASES: dict[str, tuple[str, ...]] = {
    "bandit": _BANDIT,
    "memory": (*_BANDIT, "--memory", "scratch", "--set", "memories_learn=true", "--set", "concurrency=3"),
    "overlapped": (*_BANDIT, "--set", "staleness=2"),
    "overlapped pool": (
        *("bandit", "--policy", "pool", *_BIASED, "--set", "staleness=2"),
        *("--set", "policy.policy.name=biased", "--set", "policy.policy.settings.pause=0.01"),
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


class Laboratory(Resumable):
    """The training of a case."""

    def __init__(self, case: str, folder: Path) -> None:
        words = ["train", *CASES[case]]
        if case in MODEL:
            # One for all trainings beside one another.
            model = folder.parent / "model"
            if not model.exists():
                make_model(model)
            words += ["--set", f"{MODEL[case]}={model}", "--set", f"learner.model={model}"]
        super().__init__(case, words, folder)

    def finish(self) -> dict[str, str]:
        """Let it come to its end, undisturbed; everything that must not depend on whether it was killed."""
        return dict(_left(self.end()))

    def kill(self, blow: Blow, usual: Usual) -> bool:
        """Start it, and kill it when it is so far: whether it still ran."""
        first = self.lines()
        goal = first + blow.share * (usual.lines - first)
        process = self.start()
        while process.poll() is None and self.lines() < goal:
            time.sleep(0.005)
        return kill_after(process, blow.pause * usual.seconds / usual.lines)[0]

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
        return {f"{file.relative_to(self.run)} {as_text(record)}" for file in files for record in records(file)}

    def progress(self) -> str:
        """How far it is, in words."""
        if self.run is None:
            return "not begun"
        state = self.run / "state.json"
        number = json.loads(state.read_text("utf-8"))["update"] if state.exists() else 0
        rollouts = sum(1 for _ in records(self.run / "rollouts" / f"{number + 1:05d}" / "episodes.jsonl"))
        return f"{number} updates + {rollouts} episodes"


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
    updates = [line["update"] for line in records(run / "updates.jsonl")]
    if updates != list(range(1, spec["updates"] + 1)):
        yield f"updates {updates}"
    for line in records(run / "updates.jsonl"):
        if line["served"] and line["served"].get("proven") != 1:
            yield f"update {line['update']} was not proven"
    for number in updates:
        place = run / "rollouts" / f"{number:05d}"
        names = [episode_of(each) for each in records(place / "episodes.jsonl")]
        if len(names) != spec["tasks"] * spec["samples"] or len(set(names)) < len(names):
            yield f"update {number} has the episodes {sorted(names)}"
        for episode in records(place / "episodes.jsonl"):
            for turn in episode["turns"]:
                made = int(turn["version"].partition("@")[2] or 0)
                if not 0 <= number - 1 - made <= spec["staleness"]:
                    yield f"update {number} learned from {turn['version']}"


def _left(run: Path) -> Iterator[tuple[str, str]]:
    """Every record by its place and name, and every file of the versions by its hash."""
    for file in sorted([*run.glob("rollouts/*/*.jsonl"), *run.glob("evaluations/*/*.jsonl")]):
        found = list(records(file))
        place = str(file.relative_to(run))
        yield f"{place}: lines", str(len(found))
        yield from ((f"{place}: {episode_of(record)}", as_text(record)) for record in found)
    for number, line in enumerate(records(run / "updates.jsonl"), start=1):
        figures = {part: some for part, some in line.items() if part not in ("seconds", "speed")}
        for part in ("learner", "served"):
            figures[part] = {name: value for name, value in line[part].items() if not _is_time(name)}
        yield f"update {number}", as_text(figures)
    for file in sorted((run / "learner").rglob("*")):
        if file.is_file():
            yield str(file.relative_to(run)), hashlib.sha256(file.read_bytes()).hexdigest()
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    yield "summary", as_text({name: value for name, value in summary.items() if name not in ("run", "seconds")})


def _is_time(name: str) -> bool:
    """A figure that says how fast or how large the processes were, and nothing of what was learned."""
    return any(word in name for word in ("second", "memory", "workers"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Options(__doc__, kills=30, seed=7)
    parser.add_argument("--case", choices=CASES, action="append")
    options = parser.parse_args(arguments)
    able = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "peft"))
    cases = options.case or [case for case in CASES if able or case not in MODEL]
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = {case: undisturbed(case, folder / f"undisturbed {case}") for case in cases}

        def attempt(case: str, number: int, times: int) -> Trial:
            found = trial(case, folder / str(number), usual[case], draw(generator, times))
            if not options.json:
                _tell(found)
            return found

        found = trials(cases, options.kills, generator, attempt)
    result = {
        "kills": sum(sum(each.hit) for each in found),
        "trainings": len(found),
        "equal": sum(not each.differences for each in found),
        "seconds": {case: round(each.seconds, 2) for case, each in usual.items()},
        "trials": [asdict(each) for each in found],
    }
    words = "\n{kills} kills in {trainings} trainings; {equal} of them ended as if undisturbed"
    tell(result, options.json, lambda result: print(words.format_map(result)))
    return 0 if result["equal"] == result["trainings"] else 1


def _tell(trial: Trial) -> None:
    moments = ", ".join(kept if hit else "its end" for hit, kept in zip(trial.hit, trial.kept, strict=True))
    verdict = f"DIFFERENT {trial.differences[:5]}" if trial.differences else "equal"
    print(f"{trial.case:15}  killed after {moments:50}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
