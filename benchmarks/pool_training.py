"""The same training in one process, with a pool and workers on this machine, and with both on Ray.

    python benchmarks/pool_training.py
    python benchmarks/pool_training.py --engine local --json

Two replicas of the policy, two processes of the learner. Required: the same episodes, the same figures of every update
except times, and the same bytes of every version. Without Ray its row is left out, which is told.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kill_train

from agentfw_benchmarks import Options, tell

ENGINES = ("local", "ray")


def measure(engines: Sequence[str]) -> dict[str, Any]:
    kill_train.CASES["one process"] = (*kill_train.CASES["language model"], "--set", "learner.tokens=64")
    kill_train.MODEL["one process"] = kill_train.MODEL["language model"]
    for engine in engines:
        kill_train.CASES[engine] = (*kill_train.CASES["pool"], "--set", f"engine={engine}")
        kill_train.MODEL[engine] = kill_train.MODEL["pool"]
    left: dict[str, dict[str, str]] = {}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for case in ("one process", *engines):
            if case == "ray" and importlib.util.find_spec("ray") is None:
                rows.append({"training": case, "skipped": "Ray isn't installed: pip install 'agentfw[ray]'"})
                continue
            began = time.perf_counter()
            left[case] = kill_train.Laboratory(case, Path(name) / case).finish()
            different = list(kill_train.differences(left[case], left["one process"]))
            seconds = round(time.perf_counter() - began, 1)
            rows.append({"training": case, "records": len(left[case]), "different": different, "seconds": seconds})
    return {"trainings": rows}


def show(result: dict[str, Any]) -> None:
    for row in result["trainings"]:
        if "skipped" in row:
            print(f"{row['training']:12} skipped: {row['skipped']}")
        else:
            verdict = f"DIFFERENT {row['different'][:5]}" if row["different"] else "equal"
            print(f"{row['training']:12} {row['records']} records and files, {verdict}, {row['seconds']} s")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args(arguments)
    return tell(measure(options.engine or ENGINES), options.json, show)


if __name__ == "__main__":
    main()
