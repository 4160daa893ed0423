"""When to leave what one is doing: a learned policy on the timeline beside loops and patches.

The tables of docs/results/patrol.md:

    python plugins/papers/benchmarks/patrol_table.py
    python plugins/papers/benchmarks/patrol_table.py --depth 2 --tables tables --json
    python plugins/papers/benchmarks/patrol_table.py --modules

All controllers patrol the same tasks with the same primitives. They differ in when they hear of an alarm and in how
they decide. The paper's figures stand beside ours where its text still has them.

With `--modules`, walking and handling are a module with an engagement of its own; no figure may change.

`--tables` saves the learned tables. A run follows one with:

    agentfw run patrol --set environment.depth=2 --policy qtable --set policy.table=tables/patrol-2.json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Interface, Intervention, Policy
from agentfw.interfaces import EventDriven, StepLoop
from agentfw.report.statistics import bootstrap_ratio, paired_difference
from agentfw.runs import in_processes, usual_processes
from agentfw_benchmarks import Figure, Options, Stopwatch, beside, bounds_of, mean_of, print_markdown, shown, tell
from agentfw_papers.tables.qtable import QTablePolicy
from agentfw_papers.tables.table_training import play, train
from agentfw_papers.tables.value_table import Table
from agentfw_papers.worlds.patrol.environment import Patrol, PatrolSettings
from agentfw_papers.worlds.patrol.rule_policy import ControllerSettings, PatrolController

CONTROLLERS = ("learned", "patchpro", "patch", "loop", "greedy", "greedy loop")
"""`learned`, the patches and `greedy` hear of alarms at once; the loops, between two pieces of work. `loop` responds to
every alarm that is still active then; `greedy` and `greedy loop` to those that can be reached."""

_PATCHES = ("patchpro", "patch")
_CHOICES = [None, Intervention("respond")]
FIGURES = ("return", "difference", "resolved", "expired")
PAPER = {
    (1, "learned"): {"return": "896.6", "resolved": "90.9%", "expired": "8.0%"},
    (1, "loop"): {"resolved": "51.5%", "expired": "47.1%"},
    (2, "learned"): {"return": "175.1", "resolved": "62.8%", "expired": "36.5%"},
    (3, "learned"): {"return": "143.3", "resolved": "62.4%", "expired": "36.8%"},
}
"""By depth and controller."""


def measured(
    depth: int, *, training: int, episodes: int, seed: int = 42, modules: bool = False, jobs: int | None = None
) -> tuple[list[dict[str, Any]], Table]:
    """Train the learned controller, and play all of them."""
    names = [name for name in CONTROLLERS if depth > 1 or name not in _PATCHES]
    settings = PatrolSettings.model_validate({"depth": depth, "modules": modules})
    plays = [(settings, name, training, episodes, seed) for name in names]
    found = in_processes(_play, plays, jobs or usual_processes(len(plays)))
    rows: list[dict[str, Any]] = []
    for name, one in zip(names, found, strict=True):
        rows.append({"depth": depth, "controller": name, **_figures(one)})
        if name != names[0]:
            rows[-1]["difference"] = bounds_of(paired_difference(one.returns, found[0].returns).difference)
    assert found[0].table is not None
    return rows, found[0].table


@dataclass(frozen=True, slots=True)
class _Played:
    """One controller's episodes, figure by figure."""

    returns: list[float]
    outcomes: dict[str, list[float]]
    table: Table | None


def _figures(one: _Played) -> dict[str, Figure]:
    # Ratios of the totals, as in the paper: an episode with few alarms weighs little.
    shares = {
        name: bounds_of(bootstrap_ratio(one.outcomes[name], one.outcomes["alarms"])) for name in ("resolved", "expired")
    }
    return {"return": mean_of(one.returns), **shares}


def _play(job: tuple[PatrolSettings, str, int, int, int]) -> _Played:
    settings, name, training, count, seed = job
    table = train(lambda: Patrol(settings), _CHOICES, episodes=training, seed=seed) if name == "learned" else None
    interface: Interface = StepLoop() if name.endswith("loop") else EventDriven()
    policy: Policy
    if table is not None:
        policy = QTablePolicy.of(table)
    else:
        policy = PatrolController(ControllerSettings.model_validate({"controller": name.removesuffix(" loop")}))
    returns: list[float] = []
    outcomes: dict[str, list[float]] = {}
    for episode in play(lambda: Patrol(settings), policy, Patrol(settings).tasks(count, seed, "test"), interface):
        returns.append(episode.utility)
        for key, value in episode.outcome.items():
            outcomes.setdefault(key, []).append(value)
    return _Played(returns, outcomes, table)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rows, watch = list[dict[str, Any]](), Stopwatch()
    size = {name: getattr(options, name) for name in ("training", "episodes", "seed", "modules")}
    for depth in options.depth or [1, 2, 3]:
        found, table = measured(depth, **size, jobs=options.jobs)
        rows += found
        if options.tables is not None:
            options.tables.mkdir(parents=True, exist_ok=True)
            table.save(options.tables / f"patrol-{depth}.json")
    return {**size, **watch.took(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        "means and 95% intervals, the paper's figures in brackets; difference: in return, to the learned one on the "
        f"same tasks; {result['seconds']:.0f} s, {result['cpu_seconds']:.0f} s of CPU time"
    )
    table = []
    for row in result["rows"]:
        paper = PAPER.get((row["depth"], row["controller"]), {})
        shapes = {name: ".1%" if name in ("resolved", "expired") else ".1f" for name in FIGURES}
        cells = [shown(row[name], shape) if name in row else "" for name, shape in shapes.items()]
        table.append([row["depth"], row["controller"], *map(beside, cells, map(paper.get, FIGURES))])
    print_markdown(["depth", "controller", *FIGURES], table)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, training=4000, episodes=1000, seed=42, modules=False)
    parser.add_argument("--depth", type=int, choices=(1, 2, 3), action="append")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--tables", type=Path, help="a folder for the learned tables")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
