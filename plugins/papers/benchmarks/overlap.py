"""Trains on `budget` with playing and learning in turns, and with both at once, and compares wall clock and reward.

The learner goes over each batch several times, so that learning takes about as long as playing. Each process has one
thread, unless OMP_NUM_THREADS says otherwise. The seeds alternate between the two sides, and the wall clock covers a
training from its first evaluation to its summary, the start of the learner's process included. A timeline of the phases
says where it went: how long the policy played, the learner learned, both, and neither.

    python plugins/papers/benchmarks/overlap.py               # 3 seeds of 20 updates, on two idle cores
    python plugins/papers/benchmarks/overlap.py --updates 5 --seeds 1 --json
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported

from agentfw import Host, Run
from agentfw.runs import parse_spec
from agentfw.runs.observers import Observer
from agentfw_benchmarks import Options, spec_named, triple_of

LEARNER = {"model": "tiny-sums", "weights": "all", "learning_rate": 1e-4, "tokens": 16384}


class Timeline(Observer):
    """The phases of a training, in seconds since it began."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.phases: list[tuple[str, int, float, float]] = []
        self._open: dict[tuple[str, int], float] = {}

    def phase(self, name: str, update: int) -> None:
        self._open[name, update] = self._now()

    def phase_ended(self, name: str, update: int) -> None:
        self.phases.append((name, update, self._open.pop((name, update)), self._now()))

    def shares(self) -> dict[str, float]:
        """Seconds with each set of phases in progress, and with none before, after and between learning."""
        end = self._now()
        learned = [(first, last) for name, _, first, last in self.phases if name == "learn"]
        times = sorted({0.0, end, *(time for _, _, *both in self.phases for time in both)})
        found: dict[str, float] = {}
        for one, other in itertools.pairwise(times):
            names = sorted({name for name, _, first, last in self.phases if first <= one and other <= last})
            when = "start" if one < learned[0][0] else "end" if one >= learned[-1][1] else "between"
            words = " + ".join(names) or f"none ({when})"
            found[words] = found.get(words, 0.0) + other - one
        return {name: round(found[name], 2) for name in sorted(found, key=lambda name: -found[name])}

    def _now(self) -> float:
        return time.perf_counter() - self.began


def train(
    root: Path, options: argparse.Namespace, seed: int, staleness: int, every: int, **learner: float
) -> dict[str, Any]:
    """One training of the spec `train-budget`, evaluated every so many updates, and what came of it."""
    host = Host.load()
    values = spec_named(host, "train-budget", seed=seed, staleness=staleness, updates=options.updates)
    values["learner"] = {"name": "lora", "settings": {**LEARNER, **learner}}
    values["evaluation"] = {"every": every, "tasks": options.evaluation}
    run = Run.create(parse_spec(values), host, root)
    began = time.perf_counter()
    timeline = Timeline()
    asyncio.run(run.execute(timeline))
    wall = time.perf_counter() - began
    lines = run.folder.updates()
    summary = run.folder.summary()
    assert summary is not None
    return {
        "staleness": staleness,
        "seed": seed,
        "wall": wall,
        "play": sum(line["seconds"]["play"] for line in lines),
        "learn": sum(line["seconds"].get("learn", 0.0) for line in lines),
        "wait": sum(line["seconds"].get("wait", 0.0) for line in lines),
        "shares": timeline.shares(),
        "age": statistics.fmean(line["rollouts"].get("age", 0.0) for line in lines),
        "rollouts": [line["rollouts"]["reward"] for line in lines],
        "evaluations": {
            str(number): statistics.fmean(each["reward"] for each in records)
            for number, records in run.folder.stages().items()
        },
        "reward": summary["figures"]["reward"]["mean"],
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        updates=20,
        seeds=3,
        steps=(6, "passes of the learner over a batch"),
        staleness=1,
        evaluation=(200, "tasks of an evaluation"),
    ).parse_args(arguments)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for seed in range(1, options.seeds + 1):
            for staleness in (0, options.staleness):
                found.append(train(Path(name), options, seed, staleness, options.updates, steps=options.steps))
                if not options.json:
                    print(_words(found[-1]), flush=True)
    sides = {staleness: [row for row in found if row["staleness"] == staleness] for staleness in (0, options.staleness)}
    ratios = [late["wall"] / sync["wall"] for sync, late in zip(*sides.values(), strict=True)]
    figures = {
        "ratios": ratios,
        "ratio": statistics.median(ratios),
        "rewards": {str(staleness): triple_of([row["reward"] for row in rows]) for staleness, rows in sides.items()},
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }
    result = {**figures, "trainings": found}
    print(json.dumps(result) if options.json else f"\n{json.dumps(figures)}")
    return result


def _words(row: dict[str, Any]) -> str:
    return (
        f"staleness {row['staleness']}  seed {row['seed']}  wall {row['wall']:6.1f} s  playing {row['play']:6.1f} s  "
        f"learning {row['learn']:6.1f} s  mean age {row['age']:.2f}  reward {row['reward']:.3f}\n"
        + "    "
        + "  ".join(f"{name} {seconds:.1f} s" for name, seconds in row["shares"].items())
    )


if __name__ == "__main__":
    main()
