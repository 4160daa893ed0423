"""An early checkpoint of `tiny`, and what its own episodes make of it, by `model_making/calendar-thought.toml`.

    python benchmarks/calendar_training.py                                  # three seeds, one after the other
    python benchmarks/calendar_training.py --seeds 1 2 3 4 5 --processes 2

The one rule: it is the command itself, in a process of its own, and every figure is read from the run's own folder.
Held-out users are those of the validation split; none of them is in a training.

Required: the held-out error falls by at least a quarter of its start, in each seed, within 15 minutes on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentfw import Episode
from agentfw.report.statistics import bootstrap
from agentfw_benchmarks import AGENTFW, ROOT, Options, print_markdown, tell

FALL = 0.25


@dataclass(frozen=True, slots=True)
class Trained:
    """One training: the held-out error before and after, the fall as a part of the start, and its minutes."""

    optimizer: str
    seed: int
    before: float
    after: float
    fall: float
    low: float
    high: float
    minutes: float
    curve: tuple[tuple[int, float], ...]


def train(optimizer: str, seed: int, more: Sequence[str], runs: Path, threads: int) -> Trained:
    """The command, and what it left in its folder."""
    home = runs / f"{optimizer}-{seed}"
    command = [
        *AGENTFW,
        "train",
        "--spec",
        "model_making/calendar-thought.toml",
        "--optimizer",
        optimizer,
        "--seed",
        str(seed),
    ]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--runs", str(home.absolute()), "--json", *more],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    minutes = (time.monotonic() - began) / 60
    (folder,) = (path.parent for path in home.glob("*/state.json"))
    evaluations = {int(path.name): errors(path) for path in sorted((folder / "evaluations").iterdir())}
    first, last = evaluations[min(evaluations)], evaluations[max(evaluations)]
    falls = bootstrap([(old - new) / (sum(first) / len(first)) for old, new in zip(first, last, strict=True)])
    curve = tuple((number, sum(there) / len(there)) for number, there in sorted(evaluations.items()))
    return Trained(optimizer, seed, curve[0][1], curve[-1][1], falls.estimate, falls.low, falls.high, minutes, curve)


def errors(evaluation: Path) -> list[float]:
    """The mean error of each held-out user, in the order of the tasks."""
    lines = (evaluation / "episodes.jsonl").read_text("utf-8").splitlines()
    episodes = sorted((Episode.from_record(json.loads(line)) for line in lines), key=lambda one: one.task.index)
    return [sum(one.series("error")) / len(one.series("error")) for one in episodes]


def show(result: Mapping[str, Any]) -> None:
    rows = []
    for row in result["rows"]:
        errors = [f"{row['before']:.3f}", f"{row['after']:.3f}", f"{row['fall']:.0%}"]
        span = f"{row['low']:.0%} to {row['high']:.0%}"
        rows.append([row["optimizer"], row["seed"], *errors, span, f"{row['minutes']:.1f}"])
    heads = ["optimizer", "seed", "held-out error before", "after", "fall", "95% over users", "minutes"]
    print_markdown(heads, rows)
    print()
    for row in result["rows"]:
        curve = ", ".join(f"{value:.3f} after {number}" for number, value in row["curve"])
        print(f"{row['optimizer']} {row['seed']}: {curve}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        optimizer=["roundwise"],
        seeds=[1, 2, 3],
        processes=(1, "how many trainings at once, on as many cores"),
        threads=(2, "of each training"),
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="handed on to the command")
    parser.add_argument("--runs", type=Path, help="keep the run folders here")
    given = parser.parse_args(arguments)
    more = [part for setting in given.set for part in ("--set", setting)]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(given.processes) as pool:
        runs = given.runs or Path(scratch)
        trained = [
            pool.submit(train, optimizer, seed, more, runs, given.threads)
            for optimizer in given.optimizer
            for seed in given.seeds
        ]
        rows = [one.result() for one in trained]
    result = {"rows": [asdict(row) for row in rows], "met": all(row.fall >= FALL for row in rows)}
    return tell(result, given.json, show)


if __name__ == "__main__":
    main()
