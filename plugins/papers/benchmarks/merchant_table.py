"""The merchant world in figures: reference planners, PARPO on the linear planner, and what the memory adds.

    python tests/benchmarks/merchant_table.py --work FOLDER
    python tests/benchmarks/merchant_table.py --work FOLDER --rows preference model --json

Rows: simple planners on test tasks (`references`); `agentfw train merchant` before and after, seed by seed, on held-out
tasks (`trainings`), the same with the preference model as the only personal reward (`preference`, extra `rewardmodels`)
and with the small language model tiny-merchant (`model`, extra `train`); and `agentfw run merchant` on test merchants,
with the skill graph and without, paired by merchant (`memory`).
What is in FOLDER is not done again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host, Run
from agentfw.runs import RunFolder, parse_spec, read_spec
from agentfw.statistics import Interval, paired_difference
from agentfw_papers.worlds.merchant.environment import MerchantMarket

TRAININGS = ("trainings", "preference", "model")
ROWS = ("references", *TRAININGS, "memory")
FIGURES = ("score", "profile_match", "authenticity", "logic", "completion", "depth", "steps")


def references(count: int) -> dict[str, dict[str, float]]:
    env = MerchantMarket()
    found: dict[str, list[Mapping[str, float]]] = {}
    for task in env.tasks(count, 7, "test"):
        for name, figures in env.references(task).items():
            found.setdefault(name, []).append(figures)
    return {name: {one: fmean(row[one] for row in rows) for one in FIGURES} for name, rows in found.items()}


def played(folder: Path, spec: Mapping[str, Any], host: Host) -> RunFolder:
    """A run or training with this spec, played unless it is there."""
    for about in folder.glob("*/run.json"):
        return RunFolder.open(about.parent)
    run = Run.create(parse_spec(dict(spec)), host, folder)
    asyncio.run(run.execute())
    return run.folder


def trainings(row: str, options: argparse.Namespace, host: Host) -> list[dict[str, Any]]:
    """A training in each seed, and what the held-out tasks gained."""
    spec = read_spec(Path(host.find_spec("train-merchant-tiny" if row == "model" else "train-merchant").path))
    if row == "preference":
        settings = {"model": str(Path(options.work) / "preferences")}
        spec["rewards"] = ["merchant_base", {"name": "merchant_preference", "settings": settings}]
    last = options.updates
    spec |= {"updates": last, "evaluation": {**spec["evaluation"], "every": last, "tasks": options.tasks}}
    found: list[dict[str, Any]] = []
    for seed in options.seeds:
        folder = played(Path(options.work) / f"{row}-{seed}", {**spec, "seed": seed}, host)
        found += [
            {"rewards": row, "seed": seed, "figure": figure} | gain(folder, last, figure)
            for figure in ("visible_score", "score", "profile_match")
        ]
    return found


def gain(folder: RunFolder, updates: int, figure: str) -> dict[str, Any]:
    stages = folder.stages()
    before, after = ([record["outcome"][figure] for record in stages[update]] for update in (0, updates))
    found = paired_difference(after, before)
    return {"before": fmean(before), "after": fmean(after), **_bounds(found.difference)}


def matches(seed: int, memory: bool, options: argparse.Namespace, host: Host) -> dict[str, float]:
    """The mean profile match of each test merchant after their first day, with the planner that ships."""
    spec = read_spec(Path(host.find_spec("merchant").path))
    spec["environment"]["settings"] |= {"test_merchants": options.merchants}
    spec |= {"episodes": options.days * options.merchants, "concurrency": options.merchants, "seed": seed}
    spec |= {"sampling": {"temperature": 0.0}, "memories": spec["memories"] if memory else []}
    run = played(Path(options.work) / f"memory-{seed}-{memory}", spec, host)
    found: dict[str, list[float]] = {}
    for episode in run.episodes():
        if episode.task.index >= options.merchants:
            found.setdefault(episode.task.user, []).append(episode.outcome["profile_match"])
    return {user: fmean(values) for user, values in found.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began, host = time.perf_counter(), Host.load()
    result: dict[str, Any] = {"references": {}, "trainings": [], "memory": []}
    if "references" in options.rows:
        result["references"] = references(options.references)
    for row in TRAININGS:
        if row in options.rows:
            result["trainings"] += trainings(row, options, host)
    for seed in options.seeds if "memory" in options.rows else ():
        with_it, without = (matches(seed, memory, options, host) for memory in (True, False))
        difference = paired_difference(with_it, without)
        row_of_seed = {"seed": seed, "with": fmean(with_it.values()), "without": fmean(without.values())}
        result["memory"].append(row_of_seed | _bounds(difference.difference) | {"p": difference.p_value})
    return {**result, "seconds": round(time.perf_counter() - began, 1)}


def _bounds(one: Interval) -> dict[str, float]:
    return {"mean": one.estimate, "low": one.low, "high": one.high}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", required=True, help="a folder for the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--tasks", type=int, default=192, help="to evaluate on")
    parser.add_argument("--merchants", type=int, default=96, help="of the split test")
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--references", type=int, default=960, help="tasks of the reference planners")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["references", "trainings", "memory"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _tell(result)
    return result


def _tell(result: Mapping[str, Any]) -> None:
    if result["references"]:
        print("| planner | " + " | ".join(FIGURES) + " |\n| --- |" + " --- |" * len(FIGURES))
    for name, figures in result["references"].items():
        print(f"| {name} | " + " | ".join(f"{figures[one]:.3f}" for one in FIGURES) + " |")
    if result["trainings"]:
        print("\n| rewards | seed | figure | before | after | difference |\n| --- | --- | --- | --- | --- | --- |")
    for row in result["trainings"]:
        print(
            f"| {row['rewards']} | {row['seed']} | {row['figure']} | {row['before']:.3f} | {row['after']:.3f} | "
            f"{row['mean']:+.3f} [{row['low']:.3f}, {row['high']:.3f}] |"
        )
    if result["memory"]:
        print("\nProfile match of test merchants, with skillgraph and without:\n")
        print("| seed | with | without | difference | p |\n| --- | --- | --- | --- | --- |")
    for row in result["memory"]:
        print(
            f"| {row['seed']} | {row['with']:.2f} | {row['without']:.2f} | "
            f"{row['mean']:+.2f} [{row['low']:.2f}, {row['high']:.2f}] | {row['p']:.3f} |"
        )
    print(f"\n{result['seconds']} s")


if __name__ == "__main__":
    main()
