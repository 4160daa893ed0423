"""Trains on `budget` with samples of older versions: corrected by importance weights, not corrected, and with none.

How old samples are depends on how fast policy and learner are. The mean age is printed.

    python tests/benchmarks/staleness.py                                  # 3 seeds of 30 updates
    python tests/benchmarks/staleness.py --updates 6 --seeds 2 --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlap import LEARNER, train

from agentfw.runs import learning
from agentfw.statistics import bootstrap

_CAP = learning.IMPORTANCE_CAP
ARMS: dict[str, tuple[int, float | None]] = {
    "newest version only": (0, _CAP),
    "up to {} old, corrected": (2, _CAP),
    "up to {} old, not corrected": (2, None),
}
"""Staleness and maximum importance weight of each side."""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--evaluation", type=int, default=100, help="tasks of an evaluation")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            for name, (staleness, cap) in ARMS.items():
                learning.IMPORTANCE_CAP = cap
                found[name].append(_train(Path(folder), options, seed, staleness))
                if not options.json:
                    row = found[name][-1]
                    curve = "  ".join(f"{number}: {reward:.3f}" for number, reward in row["evaluations"].items())
                    print(f"{name.format(staleness):28}  seed {seed}  mean age {row['age']:.2f}  {curve}", flush=True)
    learning.IMPORTANCE_CAP = _CAP
    figures = {name.format(ARMS[name][0]): _figures(rows) for name, rows in found.items()}
    print(json.dumps(figures) if options.json else "\n" + "\n".join(map(str, figures.items())))
    return figures


def _train(root: Path, options: argparse.Namespace, seed: int, staleness: int) -> dict[str, Any]:
    return train(
        root,
        seed=seed,
        staleness=staleness,
        updates=options.updates,
        learner={"name": "lora", "settings": {**LEARNER, "learning_rate": options.rate}},
        evaluation={"every": max(1, options.updates // 5), "tasks": options.evaluation},
    )


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean reward of each evaluation over the seeds, with its interval."""
    curve = {}
    for number in rows[0]["evaluations"]:
        interval = bootstrap([row["evaluations"][number] for row in rows])
        curve[number] = [interval.estimate, interval.low, interval.high] if len(rows) > 1 else [interval.estimate]
    return {"age": statistics.fmean(row["age"] for row in rows), "evaluations": curve}


if __name__ == "__main__":
    main()
