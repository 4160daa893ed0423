"""How long to think, learned with a clock and without one: the tables and pictures of docs/results/deliberation.md.

    python tests/benchmarks/deliberation_table.py
    python tests/benchmarks/deliberation_table.py --setting chain --pictures docs/pictures --json

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

from agentfw_plugins.engagement.deliberation_table import FIGURES, measure_deliberation

PAPER = {
    ("single", "event", "event"): {"return": "+0.800", "success": "46.7%", "timeout": "0.0%", "deepest": "21.2%"},
    ("single", "step", "event"): {"return": "negative", "timeout": "79.0%"},
    ("chain", "event", "event"): {"return": "+10.07", "success": "50.1%", "timeout": "3.7%"},
    ("chain", "step", "event"): {"return": "-14.98", "timeout": "88.9%"},
}
"""By setting, how it was trained, and in which world it was played."""


def measure(
    settings: Sequence[str], training: int, episodes: int, seed: int, jobs: int | None, pictures: Path | None
) -> dict[str, Any]:
    rows = []
    began, worked = time.perf_counter(), _worked()
    for setting in settings:
        table = measure_deliberation(setting, training=training, episodes=episodes, seed=seed, processes=jobs)
        for row in table.rows:
            figures = {
                name: {"mean": one.estimate, "low": one.low, "high": one.high} for name, one in row.figures.items()
            }
            rows.append({"setting": setting, "trained": row.trained, "played": row.played, **figures})
        if pictures is not None:
            (pictures / f"deliberation-{setting}.svg").write_text(table.picture().to_svg(), "utf-8")
    took = {"seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(_worked() - worked, 1)}
    return {"training": training, "episodes": episodes, "seed": seed, **took, "rows": rows}


def _worked() -> float:
    """Seconds of CPU time, of this process and of its workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--setting", choices=("single", "chain"), action="append")
    parser.add_argument("--training", type=int, default=20_000)
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    settings = options.setting or ["single", "chain"]
    result = measure(settings, options.training, options.episodes, options.seed, options.jobs, options.pictures)
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        f"means and 95% intervals, the paper's figures in brackets; {result['seconds']:.0f} s, "
        f"{result['cpu_seconds']:.0f} s of CPU time"
    )
    print("| setting | trained | played | " + " | ".join(FIGURES) + " |")
    print("| --- | --- | --- |" + " --- |" * len(FIGURES))
    for row in result["rows"]:
        paper = PAPER.get((row["setting"], row["trained"], row["played"]), {})
        cells = [_cell(name, row[name], paper.get(name)) for name in FIGURES]
        print(f"| {row['setting']} | {row['trained']} | {row['played']} | " + " | ".join(cells) + " |")
    return result


def _cell(name: str, figure: dict[str, float], paper: str | None) -> str:
    if name == "return":
        text = f"{figure['mean']:+.2f} [{figure['low']:+.2f}, {figure['high']:+.2f}]"
    else:
        text = f"{figure['mean']:.1%} [{figure['low']:.1%}, {figure['high']:.1%}]"
    return text if paper is None else f"{text} ({paper})"


if __name__ == "__main__":
    main()
