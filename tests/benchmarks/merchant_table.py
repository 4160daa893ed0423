"""The merchant world in figures: reference planners, PARPO on the linear planner, and what the memory adds.

    python tests/benchmarks/merchant_table.py --work FOLDER
    python tests/benchmarks/merchant_table.py --work FOLDER --preference --json

Rows: simple planners on test tasks; `agentfw train merchant` before and after, seed by seed, on held-out tasks; and
`agentfw run merchant` on test merchants, with the skill graph and without, paired by merchant. `--preference` trains
once more with a fitted preference model as personal reward (extra `rewardmodels`).
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
from agentfw_plugins.worlds.merchant.environment import MerchantMarket
from agentfw_plugins.worlds.merchant.logs import write_logs
from agentfw_plugins.worlds.merchant.merchant_settings import MerchantSettings

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


def training(seed: int, rewards: Sequence[Any], options: argparse.Namespace, host: Host, name: str) -> RunFolder:
    spec = read_spec(Path(host.find_spec("train-merchant").path))
    spec |= {"seed": seed, "updates": options.updates, "rewards": list(rewards)}
    spec["evaluation"] = {"every": options.updates, "tasks": options.tasks}
    return played(Path(options.work) / f"{name}-{seed}", spec, host)


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


def preference_reward(options: argparse.Namespace) -> list[Any]:
    from agentfw_rewardmodels import PreferenceModel
    from agentfw_rewardmodels import PreferenceSettings as FitSettings

    home = Path(options.work) / "preferences"
    if not home.exists():
        logs = Path(options.work) / "logs"
        write_logs(logs, MerchantSettings())
        model = PreferenceModel.fit(
            logs / "interactions.csv",
            items=logs / "items.csv",
            profiles=logs / "profiles.csv",
            settings=FitSettings(dimensions=32, epochs=100),
        )
        model.save(home)
    return ["merchant_base", {"name": "preference", "settings": {"model": str(home), "text": "effects"}}]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began, host = time.perf_counter(), Host.load()
    result: dict[str, Any] = {"references": references(options.references), "trainings": [], "memory": []}
    rewards = {"stated": ["merchant_base", "merchant_personal"]}
    if options.preference:
        rewards["preference"] = preference_reward(options)
    for name, chosen in rewards.items():
        for seed in options.seeds:
            folder = training(seed, chosen, options, host, name)
            for figure in ("visible_score", "score", "profile_match"):
                row = {"rewards": name, "seed": seed, "figure": figure}
                result["trainings"].append(row | gain(folder, options.updates, figure))
    for seed in options.seeds:
        with_it, without = (matches(seed, memory, options, host) for memory in (True, False))
        difference = paired_difference(with_it, without)
        row = {"seed": seed, "with": fmean(with_it.values()), "without": fmean(without.values())}
        result["memory"].append(row | _bounds(difference.difference) | {"p": difference.p_value})
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
    parser.add_argument("--preference", action="store_true", help="also train with a preference model")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _tell(result)
    return result


def _tell(result: Mapping[str, Any]) -> None:
    print("| planner | " + " | ".join(FIGURES) + " |\n| --- |" + " --- |" * len(FIGURES))
    for name, figures in result["references"].items():
        print(f"| {name} | " + " | ".join(f"{figures[one]:.3f}" for one in FIGURES) + " |")
    print("\n| rewards | seed | figure | before | after | difference |\n| --- | --- | --- | --- | --- | --- |")
    for row in result["trainings"]:
        print(
            f"| {row['rewards']} | {row['seed']} | {row['figure']} | {row['before']:.3f} | {row['after']:.3f} | "
            f"{row['mean']:+.3f} [{row['low']:.3f}, {row['high']:.3f}] |"
        )
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
