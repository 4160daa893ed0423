"""Kills runs at random moments, resumes them, and compares what came of it with runs that nobody disturbed.

The one rule: equal means equal: every record of every episode, every figure, and nothing twice; and whatever a hook or
a person was told of before the blow is on disk after it.

    python tests/benchmarks/kill_resume.py                # 50 kills, about five minutes
    python tests/benchmarks/kill_resume.py --kills 10 --seed 3 --json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
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

_GUESSING = ("guessing", "--policy", "hashing", "--set", "concurrency=4", "--set", "policy.pause=0.006")
CASES: dict[str, tuple[str, ...]] = {
    "inbox": ("inbox", "--episodes", "40"),
    "rounds": (*_GUESSING, "--episodes", "60", "--set", "environment.odd=true"),
    "groups": (*_GUESSING, "--episodes", "20", "--set", "samples=3", "--reward", "rank", "--reward", "utility=0.5"),
    "memory on disk": (*_GUESSING, "--episodes", "30", "--set", "samples=2", "--memory", "ledger"),
    "memory in process": (*_GUESSING, "--episodes", "50", "--memory", "scratch"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a run: everything that must not depend on whether it was killed."""

    episodes: dict[str, str]
    metrics: dict[str, str]
    figures: str
    lines: int
    """Lines of episodes.jsonl; more than there are episodes means that one was written twice."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run that was killed, once or more."""

    case: str
    delays: tuple[float, ...]
    """Seconds after which it was killed, each time."""
    hit: tuple[bool, ...]
    """Whether it still ran then: on a busy machine one run takes longer than the next."""
    kept: tuple[int, ...]
    """How many episodes were on disk after each kill."""
    lost: tuple[str, ...]
    """Episodes that had been acknowledged and weren't there."""
    differences: tuple[str, ...]

    @property
    def well(self) -> bool:
        return not self.lost and not self.differences


class Laboratory:
    """Runs of one case, in a folder of its own."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder, self.runs = case, folder, folder / "runs"
        self.runs.mkdir(parents=True)
        (self.runs / "acknowledged.txt").touch()

    def start(self) -> subprocess.Popen[str]:
        """The run, or where there is one already, its resumption."""
        if self.run is not None:
            return self._agentfw("runs", "resume", str(self.run))
        ledger = ("--set", f"memory.ledger.path={self.folder / 'ledger.db'}") if "ledger" in CASES[self.case] else ()
        return self._agentfw("run", *CASES[self.case], *ledger, "--runs", str(self.runs))

    @property
    def run(self) -> Path | None:
        """The run's folder, once it is whole enough to be resumed."""
        return next((path.parent for path in self.runs.glob("*/run.json")), None)

    def finish(self) -> Outcome:
        """Let it come to its end, undisturbed."""
        process = self.start()
        _, told = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{self.case} ended with {process.returncode}:\n{told}")
        assert self.run is not None
        episodes = list(_lines(self.run / "episodes.jsonl"))
        metrics = list(_lines(self.run / "metrics.jsonl"))
        summary = json.loads((self.run / "summary.json").read_text("utf-8"))
        return Outcome(
            {f"{record['task']['index']:05d}-{record['task']['sample']}": _text(record) for record in episodes},
            {record["episode"]: _text(record) for record in metrics},
            _text(summary["figures"]),
            len(episodes) + len(metrics),
        )

    def kill(self, delay: float) -> tuple[bool, list[str]]:
        """Start it, and kill it after a while: whether it still ran, and the acknowledged episodes that are gone."""
        process = self.start()
        try:
            _, told = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            _, told = process.communicate()
        return process.returncode == -signal.SIGKILL, self.lost(told)

    def lost(self, told: str) -> list[str]:
        """What was acknowledged and isn't on disk: to a hook by name, to a person by number."""
        names = set((self.runs / "acknowledged.txt").read_text("utf-8").split())
        gone = sorted(names - self.there("episodes.jsonl"))
        if self.case == "inbox":  # where there are rounds, people are told of rounds
            numbers = [int(number) for number in re.findall(r"^(\d+)/\d+ ", told, re.M)]
            done = len(self.there("metrics.jsonl"))
            gone += [f"number {number}" for number in numbers if number > done]
        return gone

    def there(self, file: str) -> set[str]:
        """The episodes of which a whole line is on disk."""
        if self.run is None:
            return set()
        return {
            record.get("episode") or f"{record['task']['index']:05d}-{record['task']['sample']}"
            for record in _lines(self.run / file)
        }

    def _agentfw(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(SITE)}
        return subprocess.Popen(
            [sys.executable, "-m", "agentfw_cli.main", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.folder,
        )


def undisturbed(case: str, folder: Path) -> tuple[Outcome, float]:
    """The outcome of a run that nobody disturbs, and how long it takes."""
    began = time.perf_counter()
    outcome = Laboratory(case, folder).finish()
    return outcome, time.perf_counter() - began


def trial(case: str, folder: Path, expected: Outcome, delays: Sequence[float]) -> Trial:
    """Kill a run after each of these delays, let it end, and compare."""
    laboratory = Laboratory(case, folder)
    lost: list[str] = []
    hits: list[bool] = []
    kept: list[int] = []
    for delay in delays:
        hit, gone = laboratory.kill(delay)
        hits.append(hit)
        lost += gone
        kept.append(len(laboratory.there("episodes.jsonl")))
    different = tuple(differences(laboratory.finish(), expected))
    return Trial(case, tuple(delays), tuple(hits), tuple(kept), tuple(lost), different)


def differences(found: Outcome, expected: Outcome) -> Iterator[str]:
    """What isn't as it is in the undisturbed run."""
    for name in ("episodes", "metrics"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        yield from (f"{name}: {key}" for key in sorted(ours.keys() ^ theirs.keys()))
        yield from (f"{name}: {key}" for key in sorted(ours.keys() & theirs.keys()) if ours[key] != theirs[key])
    if found.figures != expected.figures:
        yield "summary"
    if found.lines != expected.lines:
        yield f"{found.lines} lines instead of {expected.lines}"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file; read without agentfw, whose reading is under test."""
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = {case: undisturbed(case, folder / f"undisturbed {case}") for case in CASES}
        kills = 0
        while kills < options.kills:
            case = list(CASES)[len(trials) % len(CASES)]
            outcome, seconds = usual[case]
            # Every third is killed again while it is being resumed.
            times = min(options.kills - kills, 2 if generator.random() < 1 / 3 else 1)
            delays = [generator.uniform(0, seconds) for _ in range(times)]
            trials.append(trial(case, folder / str(len(trials)), outcome, delays))
            kills += sum(trials[-1].hit)
            if not trials[-1].hit[0]:  # faster than usual: then this is what is usual now
                usual[case] = outcome, min(seconds, delays[0])
            if not options.json:
                _tell(trials[-1])
    well = sum(trial.well for trial in trials)
    if options.json:
        seconds_of = {case: round(seconds, 2) for case, (_, seconds) in usual.items()}
        print(
            json.dumps(
                {
                    "kills": kills,
                    "runs": len(trials),
                    "equal": well,
                    "seconds": seconds_of,
                    "trials": [asdict(each) for each in trials],
                }
            )
        )
    else:
        torn = sum(0 < kept < len(usual[each.case][0].episodes) for each in trials for kept in each.kept)
        print(f"\n{kills} kills in {len(trials)} runs, {torn} of them amid the episodes; ", end="")
        print(f"{well} of {len(trials)} runs ended as if undisturbed")
    return 0 if well == len(trials) else 1


def _tell(trial: Trial) -> None:
    moments = ", ".join(
        f"{delay:.2f} s ({kept} on disk)" if hit else "its end"
        for delay, hit, kept in zip(trial.delays, trial.hit, trial.kept, strict=True)
    )
    verdict = "equal" if trial.well else f"LOST {trial.lost} DIFFERENT {trial.differences[:5]}"
    print(f"{trial.case:18}  killed after {moments:44}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
