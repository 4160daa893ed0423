"""The merchant world in figures: reference planners, PARPO on the linear planner, and what the memory adds.

    python plugins/papers/benchmarks/merchant_table.py --work FOLDER
    python plugins/papers/benchmarks/merchant_table.py --work FOLDER --rows preference model --json

Rows: simple planners on test tasks (`references`); `agentfw train merchant` before and after, seed by seed, on held-out
tasks (`trainings`), the same with the preference model as the only personal reward (`preference`, extra `rewardmodels`)
and with the small language model tiny-merchant (`model`, extra `train`); and `agentfw run merchant` on test merchants,
with the skill graph and without, paired by merchant (`memory`).
What is in FOLDER is not done again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host
from agentfw.runs import RunFolder
from agentfw_benchmarks import Options, difference_of, print_markdown, shown, tell
from agentfw_benchmarks.runs import outcomes_of_references, played, spec_named
from agentfw_papers.worlds.merchant.environment import MerchantMarket

TRAININGS = ("trainings", "preference", "model")
ROWS = ("references", *TRAININGS, "memory")
FIGURES = ("score", "profile_match", "authenticity", "logic", "completion", "depth", "steps")


def references(count: int) -> dict[str, dict[str, float]]:
    env = MerchantMarket()
    found = outcomes_of_references(env, env.tasks(count, 7, "test"))
    return {name: {one: fmean(row[one] for row in rows) for one in FIGURES} for name, rows in found.items()}


def trainings(row: str, options: argparse.Namespace, host: Host) -> list[dict[str, Any]]:
    """A training in each seed, and what the held-out tasks gained."""
    spec = spec_named(host, "train-merchant-tiny" if row == "model" else "train-merchant")
    if row == "preference":
        settings = {"model": str(options.work / "preferences")}
        spec["rewards"] = ["merchant_base", {"name": "merchant_preference", "settings": settings}]
    last = options.updates
    spec |= {"updates": last, "evaluation": {**spec["evaluation"], "every": last, "tasks": options.tasks}}
    found: list[dict[str, Any]] = []
    for seed in options.seeds:
        folder = played({**spec, "seed": seed}, host, options.work / f"{row}-{seed}")
        found += [
            {"rewards": row, "seed": seed, "figure": figure} | gain(folder, last, figure)
            for figure in ("visible_score", "score", "profile_match")
        ]
    return found


def gain(folder: RunFolder, updates: int, figure: str) -> dict[str, Any]:
    stages = folder.stages()
    before, after = ([record["outcome"][figure] for record in stages[update]] for update in (0, updates))
    return {"before": fmean(before), "after": fmean(after), "difference": difference_of(after, before)}


def matches(seed: int, memory: bool, options: argparse.Namespace, host: Host) -> dict[str, float]:
    """The mean profile match of each test merchant after their first day, with the planner that ships."""
    spec = spec_named(host, "merchant")
    spec["environment"]["settings"] |= {"test_merchants": options.merchants}
    spec |= {"episodes": options.days * options.merchants, "concurrency": options.merchants, "seed": seed}
    spec |= {"sampling": {"temperature": 0.0}, "memories": spec["memories"] if memory else []}
    run = played(spec, host, options.work / f"memory-{seed}-{memory}")
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
        means = {"with": fmean(with_it.values()), "without": fmean(without.values())}
        result["memory"].append({"seed": seed, **means, "difference": difference_of(with_it, without)})
    return {**result, "seconds": round(time.perf_counter() - began, 1)}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path, "a folder for the runs"),
        seeds=[7, 8, 9],
        updates=24,
        tasks=(192, "to evaluate on"),
        merchants=(96, "of the split test"),
        days=5,
        references=(960, "tasks of the reference planners"),
    )
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["references", "trainings", "memory"])
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


def show(result: Mapping[str, Any]) -> None:
    if result["references"]:
        rows = [[name, *(f"{one[figure]:.3f}" for figure in FIGURES)] for name, one in result["references"].items()]
        print_markdown(["planner", *FIGURES], rows)
    if result["trainings"]:
        print()
        rows = []
        for row in result["trainings"]:
            means = [f"{row['before']:.3f}", f"{row['after']:.3f}"]
            rows.append([row["rewards"], row["seed"], row["figure"], *means, shown(row["difference"], "+.3f")])
        print_markdown(["rewards", "seed", "figure", "before", "after", "difference"], rows)
    if result["memory"]:
        print("\nProfile match of test merchants, with skillgraph and without:\n")
        rows = []
        for row in result["memory"]:
            means = [f"{row['with']:.2f}", f"{row['without']:.2f}"]
            rows.append([row["seed"], *means, shown(row["difference"], "+.2f"), f"{row['difference']['p']:.3f}"])
        print_markdown(["seed", "with", "without", "difference", "p"], rows)
    print(f"\n{result['seconds']} s")


if __name__ == "__main__":
    main()
