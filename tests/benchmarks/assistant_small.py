"""The small language model in the world of the assistant: as it ships, and before and after a training.

    python tests/benchmarks/assistant_small.py --rows runs
    python tests/benchmarks/assistant_small.py --rows training --seeds 1 2 3 --home FOLDER    # goes on where it was

`runs` plays the specs `assistant` and `tiny-assistant`, each with and without a skill graph. `training` is
`agentfw train tiny-assistant` with hard requests; the same requests of test users are played before and after.
Differences are paired by user, with bootstrap intervals at 95%. Times are CPU seconds.

Required: the four runs take at most 90 seconds. The mark for procedure is higher after training, and the interval
excludes 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host, HostOptions
from agentfw.runs import RunFolder, parse_spec, read_spec
from agentfw.runs.run import Run
from agentfw.statistics import bootstrap

FIGURES = ("judge", "procedure", "proactive", "visible_personal", "satisfaction")
MOST_SECONDS = 90.0


def play(values: Mapping[str, Any], host: Host, home: Path) -> tuple[RunFolder, float]:
    """A run or training, continued if it is there already, and the CPU seconds that it took now."""
    began = time.process_time()
    known = sorted(path.parent for path in home.glob("*/run.json"))
    run = Run.open(RunFolder.open(known[0]), host) if known else Run.create(parse_spec(values), host, home)
    asyncio.run(run.execute())
    return run.folder, time.process_time() - began


def of_spec(host: Host, name: str, **more: Any) -> dict[str, Any]:
    return {**read_spec(Path(host.find_spec(name).path)), **more}


def runs(host: Host, home: Path, episodes: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    seconds = 0.0
    for name in ("assistant", "tiny-assistant"):
        for memory in (True, False):
            title = f"{name}, {'skillgraph' if memory else 'no memory'}"
            more: dict[str, Any] = {} if memory else {"memories": []}
            folder, took = play(of_spec(host, name, episodes=episodes, **more), host, home / title)
            outcomes = [record["outcome"] for record in folder.metrics()]
            rows[title] = {figure: _interval([one[figure] for one in outcomes]) for figure in FIGURES}
            seconds += took
    return {"rows": rows, "seconds": seconds, "met": seconds <= MOST_SECONDS}


def training(host: Host, home: Path, seeds: Sequence[int], updates: int, tasks: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    gains: list[list[dict[str, float]]] = []
    for seed in seeds:
        values = of_spec(host, "train-tiny-assistant", seed=seed, updates=updates)
        values["environment"] = {"name": "assistant", "settings": {"style": "card", "difficulty": "hard"}}
        values["evaluation"] |= {"every": updates, "tasks": tasks}
        folder, seconds = play(values, host, home / str(seed))
        stages = folder.stages()
        before, after = ([one["outcome"] for one in stages[update]] for update in (min(stages), max(stages)))
        for stage, outcomes in (("before", before), ("after", after)):
            rows[f"{seed}, {stage}"] = {figure: _interval([one[figure] for one in outcomes]) for figure in FIGURES}
        gains.append(
            [
                {figure: late[figure] - early[figure] for figure in FIGURES}
                for early, late in zip(before, after, strict=True)
            ]
        )
        rows[f"{seed}, after"]["seconds"] = seconds
    # All seeds are measured on the same users, so each user counts with the mean over seeds.
    of_users = {
        figure: [fmean(gain[figure] for gain in some) for some in zip(*gains, strict=True)] for figure in FIGURES
    }
    found = {figure: _interval(values) for figure, values in of_users.items()}
    return {"rows": rows, "gain": found, "met": found["procedure"][1] > 0}


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
    found = bootstrap(values)
    return found.estimate, found.low, found.high


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=("runs", "training"), default=["runs", "training"])
    parser.add_argument("--episodes", type=int, default=480, help="requests of each run")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=12, help="updates of a training")
    parser.add_argument("--tasks", type=int, default=96, help="requests before and after a training")
    parser.add_argument("--home", type=Path, help="keep the run folders here, and go on with those that are there")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    host = Host.load(HostOptions(disabled=("all",)))
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        home = given.home or Path(scratch)
        if "runs" in given.rows:
            result["runs"] = runs(host, home / "runs", given.episodes)
        if "training" in given.rows:
            result["training"] = training(host, home / "training", given.seeds, given.updates, given.tasks)
    print(json.dumps(result) if given.json else "\n\n".join(_table(name, one) for name, one in result.items()))
    return result


def _table(name: str, found: Mapping[str, Any]) -> str:
    rows = {**found["rows"], **({"gain": found["gain"]} if "gain" in found else {})}
    lines = [f"| {name} | {' | '.join(FIGURES)} |", f"|{' --- |' * (len(FIGURES) + 1)}"]
    for title, row in rows.items():
        cells = ["{:.3f} [{:.3f}, {:.3f}]".format(*row[figure]) for figure in FIGURES]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    seconds = found.get("seconds", 0.0) + sum(row.get("seconds", 0.0) for row in found["rows"].values())
    return "\n".join([*lines, f"{seconds:.0f} s of CPU; required: {'met' if found['met'] else 'not met'}"])


if __name__ == "__main__":
    main()
