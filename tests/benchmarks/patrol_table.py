"""When to leave what one is doing: a learned policy on the timeline beside loops and patches.

The tables of docs/results/patrol.md:

    python tests/benchmarks/patrol_table.py
    python tests/benchmarks/patrol_table.py --depth 2 --pictures docs/pictures --json

The paper's figures stand beside ours where its text still has them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_plugins.engagement.patrol_table import measure_patrol

FIGURES = ("return", "difference", "resolved", "expired", "ticks", "cost")
PAPER = {
    (1, "learned"): {"return": "896.6", "resolved": "90.9%", "expired": "8.0%", "ticks": "10.9"},
    (1, "loop"): {"resolved": "51.5%", "expired": "47.1%"},
    (2, "learned"): {"return": "175.1", "resolved": "62.8%", "expired": "36.5%"},
    (3, "learned"): {"return": "143.3", "resolved": "62.4%", "expired": "36.8%"},
}
"""By depth and controller."""


def measure(
    depths: Sequence[int], training: int, episodes: int, seed: int, jobs: int | None, pictures: Path | None
) -> dict[str, Any]:
    rows = []
    began, worked = time.perf_counter(), _worked()
    for depth in depths:
        table = measure_patrol(depth, training=training, episodes=episodes, seed=seed, processes=jobs)
        for row in table.rows:
            figures: dict[str, Any] = {
                name: {"mean": one.estimate, "low": one.low, "high": one.high} for name, one in row.figures.items()
            }
            if row.difference is not None:
                gap = row.difference.difference
                figures["difference"] = {"mean": gap.estimate, "low": gap.low, "high": gap.high}
            rows.append({"depth": depth, "controller": row.controller, **figures})
        if pictures is not None:
            (pictures / f"patrol-{depth}.svg").write_text(table.picture().to_svg(), "utf-8")
    took = {"seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(_worked() - worked, 1)}
    return {"training": training, "episodes": episodes, "seed": seed, **took, "rows": rows}


def _worked() -> float:
    """Seconds of CPU time, of this process and of its workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--depth", type=int, choices=(1, 2, 3), action="append")
    parser.add_argument("--training", type=int, default=4000)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    depths = options.depth or [1, 2, 3]
    result = measure(depths, options.training, options.episodes, options.seed, options.jobs, options.pictures)
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        "means and 95% intervals, the paper's figures in brackets; difference: in return, to the learned one on the "
        f"same tasks; {result['seconds']:.0f} s, {result['cpu_seconds']:.0f} s of CPU time"
    )
    print("| depth | controller | " + " | ".join(FIGURES) + " |")
    print("| --- | --- |" + " --- |" * len(FIGURES))
    for row in result["rows"]:
        paper = PAPER.get((row["depth"], row["controller"]), {})
        cells = [_cell(name, row[name], paper.get(name)) if name in row else "" for name in FIGURES]
        print(f"| {row['depth']} | {row['controller']} | " + " | ".join(cells) + " |")
    return result


def _cell(name: str, figure: dict[str, float], paper: str | None) -> str:
    shape = ".1%" if name in ("resolved", "expired") else ".1f"
    text = f"{figure['mean']:{shape}} [{figure['low']:{shape}}, {figure['high']:{shape}}]"
    return text if paper is None else f"{text} ({paper})"


if __name__ == "__main__":
    main()
