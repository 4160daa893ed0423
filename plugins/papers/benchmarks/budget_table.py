"""Training to be right in time beside training to be right, as a table; for docs/results/budget.md.

    python tests/benchmarks/budget_table.py --work FOLDER
    python tests/benchmarks/budget_table.py --work FOLDER --seeds 7 8 9 --jobs 2 --json

Three variants of `agentfw train budget` from the model tiny-sums, which differ in two things and in nothing else: what
is rewarded, and how long an answer may be while it learns. All of one seed learn from the same problems by GRPO, and
each is measured, as is tiny-sums itself, on the same problems of the split `test`, with room for answers far longer
than any budget.
What is in FOLDER is not done again: a command that was broken off goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentfw import Host, HostOptions, Run
from agentfw.runs import RunFolder, parse_spec, read_spec
from agentfw.statistics import Interval, bootstrap, bootstrap_ratio, paired_difference
from agentfw_papers.worlds.budget.environment import BudgetSettings

BASE = "tiny-sums"
VARIANTS = {"budgeted": ("utility", 1), "correct, short cap": ("correct", 1), "correct, long cap": ("correct", 2)}
"""What is rewarded, and the cap, in the largest budget: as in the paper, that and twice that."""
ROOM = 4
"""How long an answer may be when it is measured, in the largest budget: as in the paper."""
FIGURES = ("budgeted", "correct", "tokens")
PAPER = {
    ("budgeted", "first"): {"budgeted": 0.733, "correct": 0.765, "tokens": 421},
    ("budgeted", "last"): {"budgeted": 0.784, "tokens": 1409},
    ("correct, short cap", "first"): {"budgeted": 0.284, "correct": 0.786, "tokens": 1892},
    ("correct, short cap", "last"): {"budgeted": 0.795, "tokens": 2413},
    ("correct, long cap", "first"): {"budgeted": 0.037, "correct": 0.782, "tokens": 5120},
    ("correct, long cap", "last"): {"budgeted": 0.669, "tokens": 5599},
    (BASE, "first"): {"budgeted": 0.000, "correct": 0.407, "tokens": 7554},
    (BASE, "last"): {"budgeted": 0.228, "tokens": 8977},
}
"""Its table 5: Qwen3-8B and what was trained from it, under the budgets of 1000 and 8000 tokens."""

Problem = dict[str, float]
"""What came of one problem: the outcome of its episode."""


def spec_of(variant: str, seed: int, options: argparse.Namespace, host: Host) -> dict[str, Any]:
    """The spec that ships, with what a variant is, and its seed."""
    reward, caps = VARIANTS[variant]
    largest = max(BudgetSettings().budgets)
    spec = read_spec(Path(host.find_spec("train-budget").path))
    spec |= {"rewards": [reward], "seed": seed, "updates": options.updates}
    spec["learner"]["settings"] |= {"decay": options.updates}
    spec["sampling"] |= {"max_tokens": caps * largest}
    spec["evaluation"] |= {"every": options.updates, "tasks": options.problems, "split": options.split}
    spec["evaluation"]["sampling"] |= {"max_tokens": ROOM * largest}
    return spec


def train(variant: str, seed: int, options: argparse.Namespace) -> None:
    """One training, from its beginning or from where it was broken off."""
    import torch

    torch.set_num_threads(1)
    host = Host.load(HostOptions())
    root = folder_of(variant, seed, options)
    found = list(root.glob("*/run.json"))
    if found:
        training = Run.open(RunFolder.open(found[0].parent), host)
    else:
        training = Run.create(parse_spec(spec_of(variant, seed, options, host)), host, root)
    asyncio.run(training.execute())


def folder_of(variant: str, seed: int, options: argparse.Namespace) -> Path:
    size = f"{options.updates} updates, {options.problems} of {options.split}"
    return Path(options.work) / size / f"{variant}, seed {seed}"


def problems_of(variant: str, seed: int, update: int, options: argparse.Namespace) -> list[Problem]:
    """What was measured after so many updates, problem by problem."""
    (about,) = folder_of(variant, seed, options).glob("*/run.json")
    folder = RunFolder.open(about.parent)
    return [record["outcome"] for record in folder.stages()[update]]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    # Products this small are slower on several cores than on one, and there is one training a core.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    jobs = [(variant, seed) for seed in options.seeds for variant in VARIANTS]
    if options.jobs == 1:
        for variant, seed in jobs:
            train(variant, seed, options)
    else:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for each in [pool.submit(train, variant, seed, options) for variant, seed in jobs]:
                each.result()
    seconds = time.perf_counter() - began
    played = {BASE: [problems_of("budgeted", seed, 0, options) for seed in options.seeds]}
    for variant in VARIANTS:
        played[variant] = [problems_of(variant, seed, options.updates, options) for seed in options.seeds]
    chosen = {"updates": options.updates, "problems": options.problems, "split": options.split, "seeds": options.seeds}
    return {**chosen, "seconds": round(seconds, 1), "rows": rows(played), "against": against(played)}


def rows(played: Mapping[str, Sequence[Sequence[Problem]]]) -> list[dict[str, Any]]:
    found = []
    for budget in (*BudgetSettings().budgets, None):
        for variant, seeds in played.items():
            row: dict[str, Any] = {"budget": budget, "variant": variant}
            for name in FIGURES:
                several = [values_of(problems, name, budget) for problems in seeds]
                row[name] = {**_bounds(bootstrap(_pooled(several))), "seeds": [_mean(values) for values in several]}
            found.append(row)
    return found


def against(played: Mapping[str, Sequence[Sequence[Problem]]]) -> list[dict[str, Any]]:
    """The budgeted reward beside correctness alone, on the same problems."""
    first, *others = VARIANTS
    tightest = min(BudgetSettings().budgets)
    found = []
    for other in others:
        for budget in (tightest, None):
            ours, theirs = (
                {name: _pooled([values_of(one, name, budget) for one in played[variant]]) for name in FIGURES}
                for variant in (first, other)
            )
            row: dict[str, Any] = {"budget": budget, "against": other}
            if sum(theirs["budgeted"]):
                row["times budgeted"] = _bounds(bootstrap_ratio(ours["budgeted"], theirs["budgeted"]))
            row["accuracy difference"] = _bounds(paired_difference(ours["correct"], theirs["correct"]).difference)
            found.append(row)
    return found


def values_of(problems: Sequence[Problem], name: str, budget: int | None) -> list[float]:
    """A figure of each problem, in order: of those with this budget, or of all."""
    return [one[name] for one in problems if budget is None or f"{name}@{budget}" in one]


def _pooled(several: Sequence[Sequence[float]]) -> list[float]:
    """Of all seeds, problem by problem: the variants of a seed have the same."""
    return [value for values in several for value in values]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _bounds(one: Interval) -> dict[str, float]:
    return {"mean": one.estimate, "low": one.low, "high": one.high}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", required=True, help="a folder for the trainings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9], help="of the trainings")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--problems", type=int, default=1000, help="to measure on")
    parser.add_argument("--split", choices=("validation", "test"), default="test")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at once")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _tell(result)
    return result


def _tell(result: dict[str, Any]) -> None:
    seeds = ", ".join(map(str, result["seeds"]))
    print(
        f"{result['problems']} problems of the split {result['split']} for each seed, {result['updates']} updates, "
        f"training seeds {seeds}; means and 95% intervals over problems, by seed in braces; {result['seconds']:.0f} s\n"
    )
    print("| budget | trained for | budgeted success | accuracy | tokens |\n| --- | --- | --- | --- | --- |")
    places = dict(zip((1, len(BudgetSettings().budgets)), ("first", "last"), strict=True))
    for place, row in enumerate(result["rows"]):
        number = place // (len(VARIANTS) + 1) + 1
        paper = PAPER.get((row["variant"], places.get(number, "")), {})
        cells = [_cell(row[name], 1 if name == "tokens" else 3, paper.get(name)) for name in FIGURES]
        print("| " + " | ".join([str(row["budget"] or "all"), row["variant"], *cells]) + " |")
    print("\n| budget | against | budgeted success, times | accuracy, difference |\n| --- | --- | --- | --- |")
    for row in result["against"]:
        times = _cell(row["times budgeted"], 2) if "times budgeted" in row else "none there"
        print(f"| {row['budget'] or 'all'} | {row['against']} | {times} | {_cell(row['accuracy difference'], 3)} |")


def _cell(figure: dict[str, Any], decimals: int, paper: float | None = None) -> str:
    text = f"{figure['mean']:.{decimals}f} [{figure['low']:.{decimals}f}, {figure['high']:.{decimals}f}]"
    if len(figure.get("seeds", ())) > 1:
        text += " {" + ", ".join(f"{value:.{decimals}f}" for value in figure["seeds"]) + "}"
    return text if paper is None else f"{text} ({paper:g})"


if __name__ == "__main__":
    main()
