"""Training to be right in time beside training to be right, as a table; for docs/results/budget.md.

    python plugins/papers/benchmarks/budget_table.py --work FOLDER

Three variants of `agentfw train budget` from the model tiny-sums, which differ in two things and in nothing else: what
is rewarded, and how long an answer may be while it learns. All of one seed learn from the same problems by GRPO, and
each is measured, as is tiny-sums itself, on the same problems of the split `test`, with room for answers far longer
than any budget.
What is in FOLDER is not done again: a command that was broken off goes on.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentfw import Host
from agentfw.report.statistics import bootstrap_ratio
from agentfw.runs import in_processes
from agentfw_benchmarks import Options, beside, bounds_of, difference_of, mean_of, print_markdown, shown, tell
from agentfw_benchmarks.runs import runs_below, spec_named, train
from agentfw_papers.worlds.budget.environment import BudgetSettings

BASE = "tiny-sums"
VARIANTS = {"budgeted": ("utility", 1), "correct, short cap": ("correct", 1), "correct, long cap": ("correct", 2)}
"""What is rewarded, and the cap, in the largest budget: as in the paper, that and twice that."""
ROOM = 4
"""How long an answer may be when it is measured, in the largest budget: as in the paper."""
FIGURES, SHAPES = ("budgeted", "correct", "tokens"), {"tokens": ".1f"}
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
    spec = spec_named(host, "train-budget", rewards=[reward], seed=seed, updates=options.updates)
    spec["learner"]["settings"] |= {"decay": options.updates}
    spec["sampling"] |= {"max_tokens": caps * largest}
    spec["evaluation"] |= {"every": options.updates, "tasks": options.problems, "split": "test"}
    spec["evaluation"]["sampling"] |= {"max_tokens": ROOM * largest}
    return spec


def folder_of(variant: str, seed: int, options: argparse.Namespace) -> Path:
    size = f"{options.updates} updates, {options.problems} problems"
    return Path(options.work) / size / f"{variant}, seed {seed}"


def problems_of(variant: str, seed: int, update: int, options: argparse.Namespace) -> list[Problem]:
    """What was measured after so many updates, problem by problem."""
    (folder,) = runs_below(folder_of(variant, seed, options))
    return [record["outcome"] for record in folder.stages()[update]]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    # Products this small are slower on several cores than on one, and there is one training a core.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    jobs = [(variant, seed, options) for seed in options.seeds for variant in VARIANTS]
    in_processes(partial(train, spec_of=spec_of, folder_of=folder_of), jobs, options.jobs)
    seconds = time.perf_counter() - began
    outcomes = {BASE: [problems_of("budgeted", seed, 0, options) for seed in options.seeds]}
    for variant in VARIANTS:
        outcomes[variant] = [problems_of(variant, seed, options.updates, options) for seed in options.seeds]
    chosen = {"updates": options.updates, "problems": options.problems, "seeds": options.seeds}
    return {**chosen, "seconds": round(seconds, 1), "rows": rows(outcomes), "against": against(outcomes)}


def rows(played: Mapping[str, Sequence[Sequence[Problem]]]) -> list[dict[str, Any]]:
    found = []
    for budget in (*BudgetSettings().budgets, None):
        for variant, seeds in played.items():
            row: dict[str, Any] = {"budget": budget, "variant": variant}
            for name in FIGURES:
                row[name] = mean_of(_pooled(seeds, name, budget))
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
                {name: _pooled(played[variant], name, budget) for name in FIGURES} for variant in (first, other)
            )
            row: dict[str, Any] = {"budget": budget, "against": other}
            if sum(theirs["budgeted"]):
                row["times budgeted"] = bounds_of(bootstrap_ratio(ours["budgeted"], theirs["budgeted"]))
            row["accuracy difference"] = difference_of(ours["correct"], theirs["correct"])
            found.append(row)
    return found


def _pooled(seeds: Sequence[Sequence[Problem]], name: str, budget: int | None) -> list[float]:
    """A figure of the problems with this budget, or of all. The variants of a seed have the same, in the same order."""
    return [one[name] for problems in seeds for one in problems if budget is None or f"{name}@{budget}" in one]


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "a folder for the trainings"),
        seeds=([7, 8, 9], "of the trainings"),
        updates=60,
        problems=(1000, "to measure on"),
        jobs=(os.cpu_count() or 1, "trainings at once"),
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['problems']} problems of the split test for each seed, {result['updates']} updates, "
        f"training seeds {result['seeds']}; means and 95% intervals over problems; {result['seconds']:.0f} s\n"
    )
    places = {min(BudgetSettings().budgets): "first", max(BudgetSettings().budgets): "last"}
    table = []
    for row in result["rows"]:
        paper = PAPER.get((row["variant"], places.get(row["budget"], "")), {})
        cells = [beside(shown(row[name], SHAPES.get(name, ".3f")), paper.get(name)) for name in FIGURES]
        table.append([row["budget"] or "all", row["variant"], *cells])
    print_markdown(["budget", "trained for", "budgeted success", "accuracy", "tokens"], table)
    print()
    table = []
    for row in result["against"]:
        times = shown(row["times budgeted"], ".2f") if "times budgeted" in row else "none there"
        table.append([row["budget"] or "all", row["against"], times, shown(row["accuracy difference"])])
    print_markdown(["budget", "against", "budgeted success, times", "accuracy, difference"], table)


if __name__ == "__main__":
    main()
