"""Trains on `budget` with samples of older versions: corrected by importance weights, not corrected, and with none.

How old samples are depends on how fast policy and learner are. The mean age is printed.

    python plugins/papers/benchmarks/staleness.py             # 3 seeds of 30 updates
    python plugins/papers/benchmarks/staleness.py --updates 6 --seeds 2 --json
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlap import train

from agentfw.runs.learning import update
from agentfw_benchmarks import Options, triple_of

_CAP = update.IMPORTANCE_CAP
ARMS: dict[str, tuple[int, float | None]] = {
    "newest version only": (0, _CAP),
    "up to {} old, corrected": (2, _CAP),
    "up to {} old, not corrected": (2, None),
}
"""Staleness and maximum importance weight of each side."""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        updates=30,
        seeds=3,
        rate=(5e-4, "learning rate"),
        evaluation=(100, "tasks of an evaluation"),
    ).parse_args(arguments)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            for name, (staleness, cap) in ARMS.items():
                update.IMPORTANCE_CAP = cap
                every = max(1, options.updates // 5)
                row = train(Path(folder), options, seed, staleness, every, learning_rate=options.rate)
                found[name].append(row)
                if not options.json:
                    curve = "  ".join(f"{number}: {reward:.3f}" for number, reward in row["evaluations"].items())
                    print(f"{name.format(staleness):28}  seed {seed}  mean age {row['age']:.2f}  {curve}", flush=True)
    update.IMPORTANCE_CAP = _CAP
    figures = {name.format(ARMS[name][0]): _figures(rows) for name, rows in found.items()}
    print(json.dumps(figures) if options.json else "\n" + "\n".join(map(str, figures.items())))
    return figures


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean reward of each evaluation over the seeds, with its interval."""
    curve = {number: triple_of([row["evaluations"][number] for row in rows]) for number in rows[0]["evaluations"]}
    return {"age": statistics.fmean(row["age"] for row in rows), "evaluations": curve}


if __name__ == "__main__":
    main()
