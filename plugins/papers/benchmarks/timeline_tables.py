"""The worlds with explicit time, for their pages in docs/results/: how long to think, when to leave a task, two seats.

    python plugins/papers/benchmarks/timeline_tables.py deliberation --setting chain --tables tables
    python plugins/papers/benchmarks/timeline_tables.py patrol --depth 2 --tables tables
    python plugins/papers/benchmarks/timeline_tables.py patrol --modules
    python plugins/papers/benchmarks/timeline_tables.py kitchen --variant multi

The paper's figures stand beside ours where its text still has them.

`deliberation`: two tables learn from the same tasks, one in a world where thinking takes time and one where it doesn't.
Each is then played in both worlds, on the same other tasks.

`patrol`: all controllers patrol the same tasks with the same primitives. They differ in when they hear of an alarm and
in how they decide. With `--modules`, walking and handling are a module with an engagement of its own; no figure may
change.

`kitchen`: one rule under each interface meets the same kitchens, so differences are taken kitchen by kitchen. With one
dish: every family of dishes with every length of problem. With several: every case with 2 to 4 dishes, 2 to 4 problems
and 1 or 2 burners. The sweep is ours: the paper's text has kept only the order of its figures, below each table.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from itertools import product
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from agentfw import Interface, Intervention, Policy
from agentfw.interfaces import EventDriven, StepLoop, parse_interface
from agentfw.report.statistics import bootstrap_ratio, paired_difference
from agentfw.runs import in_processes
from agentfw_benchmarks import (
    Figure,
    Options,
    Stopwatch,
    beside,
    bounds_of,
    difference_of,
    mean_of,
    print_markdown,
    shown,
    tell,
)
from agentfw_papers.tables.table_training import play, train
from agentfw_papers.tables.value_table import QTablePolicy, Table
from agentfw_papers.worlds.deliberation.environment import Deliberation, DeliberationSettings
from agentfw_papers.worlds.kitchen.environment import Kitchen, KitchenSettings
from agentfw_papers.worlds.kitchen.kitchen_settings import CASES, DISHES, LESSONS
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController, KitchenControllerSettings
from agentfw_papers.worlds.patrol.environment import Patrol, PatrolSettings
from agentfw_papers.worlds.patrol.rule_policy import ControllerSettings, PatrolController

# How long to think

THINKING = ("return", "success", "timeout", "deepest")
WORLDS = ("event", "step")
"""With a clock, and without one."""

_MODES = [Intervention("think", {"mode": mode}) for mode in range(1, 6)]
PAPER_ON_THINKING = {
    ("single", "event", "event"): {"return": "+0.800", "success": "46.7%", "timeout": "0.0%", "deepest": "21.2%"},
    ("single", "step", "event"): {"return": "negative", "timeout": "79.0%"},
    ("chain", "event", "event"): {"return": "+10.07", "success": "50.1%", "timeout": "3.7%"},
    ("chain", "step", "event"): {"return": "-14.98", "timeout": "88.9%"},
}
"""By setting, how it was trained, and in which world it was played."""


def deliberation(
    setting: str, *, training: int, episodes: int, seed: int, jobs: int
) -> tuple[list[dict[str, Any]], dict[str, Table]]:
    """Train both tables and play each in both worlds."""
    trainings = [(setting, world, training, seed) for world in WORLDS]
    records = dict(zip(WORLDS, in_processes(_learn_to_think, trainings, jobs), strict=True))
    plays = [(setting, trained, played, records[trained], episodes, seed) for trained in WORLDS for played in WORLDS]
    rows = []
    for (_, trained, played, *_), figures in zip(plays, in_processes(_think, plays, jobs), strict=True):
        means = {name: mean_of(values) for name, values in zip(THINKING, figures, strict=True)}
        rows.append({"setting": setting, "trained": trained, "played": played, **means})
    return rows, {world: Table.from_record(record) for world, record in records.items()}


def _settings(setting: str, world: str) -> DeliberationSettings:
    return DeliberationSettings.model_validate({"setting": setting, "instant": world == "step"})


def _learn_to_think(job: tuple[str, str, int, int]) -> dict[str, Any]:
    setting, world, episodes, seed = job
    settings = _settings(setting, world)
    return train(lambda: Deliberation(settings), _MODES, episodes=episodes, seed=seed).to_record()


def _think(job: tuple[str, str, str, dict[str, Any], int, int]) -> list[list[float]]:
    """The figures, each over all episodes."""
    setting, _, world, record, count, seed = job
    settings = _settings(setting, world)
    tasks = Deliberation(settings).tasks(count, seed, "test")
    played = list(play(lambda: Deliberation(settings), QTablePolicy.of(Table.from_record(record)), tasks))
    outcomes = ([episode.outcome[name] for episode in played] for name in THINKING[1:])
    return [[episode.utility for episode in played], *outcomes]


# When to leave what one is doing

CONTROLLERS = ("learned", "patchpro", "patch", "loop", "greedy", "greedy loop")
"""`learned`, the patches and `greedy` hear of alarms at once; the loops, between two pieces of work. `loop` responds to
every alarm that is still active then; `greedy` and `greedy loop` to those that can be reached."""

_PATCHES = ("patchpro", "patch")
_CHOICES = [None, Intervention("respond")]
PATROLLED = ("return", "difference", "resolved")
PAPER_ON_PATROLS = {
    (1, "learned"): {"return": "896.6", "resolved": "90.9%"},
    (1, "loop"): {"resolved": "51.5%"},
    (2, "learned"): {"return": "175.1", "resolved": "62.8%"},
    (3, "learned"): {"return": "143.3", "resolved": "62.4%"},
}
"""By depth and controller."""


def patrol(
    depth: int, *, training: int, episodes: int, seed: int, modules: bool, jobs: int
) -> tuple[list[dict[str, Any]], Table]:
    """Train the learned controller, and play all of them."""
    names = [name for name in CONTROLLERS if depth > 1 or name not in _PATCHES]
    settings = PatrolSettings.model_validate({"depth": depth, "modules": modules})
    plays = [(settings, name, training, episodes, seed) for name in names]
    found = in_processes(_patrol, plays, jobs)
    rows: list[dict[str, Any]] = []
    for name, one in zip(names, found, strict=True):
        # A ratio of the totals, as in the paper: an episode with few alarms weighs little.
        resolved = bounds_of(bootstrap_ratio(one.resolved, one.alarms))
        rows.append({"depth": depth, "controller": name, "return": mean_of(one.returns), "resolved": resolved})
        if name != names[0]:
            rows[-1]["difference"] = bounds_of(paired_difference(one.returns, found[0].returns).difference)
    assert found[0].table is not None
    return rows, found[0].table


class _Patrolled(NamedTuple):
    """One controller's episodes, figure by figure."""

    returns: list[float]
    resolved: list[float]
    alarms: list[float]
    table: Table | None


def _patrol(job: tuple[PatrolSettings, str, int, int, int]) -> _Patrolled:
    settings, name, training, count, seed = job
    table = train(lambda: Patrol(settings), _CHOICES, episodes=training, seed=seed) if name == "learned" else None
    interface: Interface = StepLoop() if name.endswith("loop") else EventDriven()
    policy: Policy
    if table is not None:
        policy = QTablePolicy.of(table)
    else:
        policy = PatrolController(ControllerSettings.model_validate({"controller": name.removesuffix(" loop")}))
    played = list(play(lambda: Patrol(settings), policy, Patrol(settings).tasks(count, seed, "test"), interface))
    resolved, alarms = ([one.outcome[figure] for one in played] for figure in ("resolved", "alarms"))
    return _Patrolled([one.utility for one in played], resolved, alarms, table)


# A stove and a pupil on one clock

PLAYERS = {
    "step_loop": ("step_loop", False),
    "step_loop, bounded": ("step_loop", True),
    "polling:40": ("polling:40", False),  # as in the paper
    "reflex": ("reflex", False),
    "event_driven": ("event_driven", False),
}
"""The interface, and whether the rule tutors only up to the next signal that it expects; the paper has no such loop."""
COOKED = ("utility", "dishes", "critical")
COLUMNS = {"one": ("utility", "difference", "dishes"), "multi": ("utility", "difference", "critical")}
STRUCTURES = {"one": 40, "multi": 12}
"""Kitchens a cell: 16 cells with one dish, 54 with several."""
PAPER_ON_KITCHENS = {
    "one": "utility: event-driven > reflex and polling, by little; the step loop far below",
    "multi": "utility and critical dishes: event-driven > reflex, by little > polling > the step loop",
}


Cell = tuple[dict[str, Any], str, int, int]
"""The settings of a cell, the player, the number of kitchens and their seed."""


def kitchen(variant: str, structures: int, *, seed: int, jobs: int) -> tuple[int, list[dict[str, Any]]]:
    """Play `structures` kitchens of each cell under each interface. Returns the number of kitchens, and the rows."""
    cells = list(_cells(variant))
    # The cell's number is part of its seed: no two cells share a kitchen.
    plays: list[Cell] = [
        (settings, player, structures, seed + 1000 * number)
        for number, (_, settings) in enumerate(cells)
        for player in PLAYERS
    ]
    found = in_processes(_cook, plays, jobs)
    families = [family for family, _ in cells for _ in PLAYERS]
    rows = []
    for family in ["", *dict.fromkeys(families)]:  # first all of them
        played: dict[str, list[dict[str, float]]] = {}
        for (_, player, *_), own, kitchens in zip(plays, families, found, strict=True):
            if family in ("", own):
                played.setdefault(player, []).extend(kitchens)
        rows += [{"family": family, "player": player, **_figures_of_kitchens(player, played)} for player in PLAYERS]
    return len(cells) * structures, rows


def _cells(variant: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if variant == "one":
        for dish, lesson in product(DISHES, LESSONS):
            yield dish, {"variant": "one", "dish": dish, "lesson": lesson}
    else:
        for case, dishes, problems, burners in product(CASES, (2, 3, 4), (2, 3, 4), (1, 2)):
            yield case, {"case": case, "dishes": dishes, "problems": problems, "burners": burners}


def _figures_of_kitchens(player: str, played: dict[str, list[dict[str, float]]]) -> dict[str, Figure]:
    columns = {name: [one.get(name, nan) for one in played[player]] for name in COOKED}
    figures = {name: mean_of(values) for name, values in columns.items() if any(value == value for value in values)}
    if player != "event_driven":
        best = [one["utility"] for one in played["event_driven"]]
        figures["difference"] = difference_of(columns["utility"], best)
    return figures


def _cook(cell: Cell) -> list[dict[str, float]]:
    given, player, structures, seed = cell
    settings = KitchenSettings.model_validate(given)
    interface, bounded = PLAYERS[player]
    policy = KitchenController(KitchenControllerSettings(bounded=bounded))
    tasks = Kitchen(settings).tasks(structures, seed, "test")
    episodes = play(lambda: Kitchen(settings), policy, tasks, parse_interface(interface))
    return [{**episode.outcome, "utility": episode.utility} for episode in episodes]


# The command

TRAINED = {"deliberation": (20_000, 3000), "patrol": (4000, 1000)}
"""Episodes to learn from and to measure on."""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    watch, rows = Stopwatch(), list[dict[str, Any]]()
    if options.world == "kitchen":
        tables = []
        for variant in options.variant or ["one", "multi"]:
            kitchens = options.structures or STRUCTURES[variant]
            count, rows = kitchen(variant, kitchens, seed=options.seed, jobs=options.jobs)
            tables.append({"variant": variant, "kitchens": count, "rows": rows})
        return {"seed": options.seed, **watch.took(), "tables": tables}
    training, episodes = TRAINED[options.world]
    size = {"training": options.training or training, "episodes": options.episodes or episodes, "seed": options.seed}
    learned: dict[str, Table] = {}
    if options.world == "deliberation":
        for setting in options.setting or ["single", "chain"]:
            found, known = deliberation(setting, **size, jobs=options.jobs)
            rows += found
            learned |= {f"deliberation-{setting}-{world}": table for world, table in known.items()}
    else:
        for depth in options.depth or [1, 2, 3]:
            found, learned[f"patrol-{depth}"] = patrol(depth, **size, modules=options.modules, jobs=options.jobs)
            rows += found
        size["modules"] = options.modules
    if options.tables is not None:
        options.tables.mkdir(parents=True, exist_ok=True)
        for name, table in learned.items():
            table.save(options.tables / f"{name}.json")
    return {**size, **watch.took(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    took = f"{result['seconds']:.0f} s, {result['cpu_seconds']:.0f} s of CPU time"
    if "tables" in result:
        print(f"seed {result['seed']}; means and 95% intervals; {took}; difference: in utility, to event_driven")
        for table in result["tables"]:
            columns = COLUMNS[table["variant"]]
            print(f"\n{table['variant']}: {table['kitchens']} kitchens; without a family: all of them")
            cooked = [
                [row["family"], row["player"], *(shown(row[name]) if name in row else "" for name in columns)]
                for row in table["rows"]
            ]
            print_markdown(["family", "interface", *columns], cooked)
            print(f"(the paper's order: {PAPER_ON_KITCHENS[table['variant']]})")
        return
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        f"means and 95% intervals, the paper's figures in brackets; {took}"
    )
    thinks = "setting" in result["rows"][0]
    names = ("setting", "trained", "played") if thinks else ("depth", "controller")
    figures = THINKING if thinks else PATROLLED
    paper: Any = PAPER_ON_THINKING if thinks else PAPER_ON_PATROLS
    shapes = {"return": "+.2f" if thinks else ".1f", "difference": ".1f"}
    table = []
    for row in result["rows"]:
        first = tuple(row[name] for name in names)
        cells = [shown(row[name], shapes.get(name, ".1%")) if name in row else "" for name in figures]
        table.append([*first, *map(beside, cells, map(paper.get(first, {}).get, figures))])
    print_markdown([*names, *figures], table)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        training=(0, "episodes to learn from; default: 20,000 to think, 4,000 to patrol"),
        episodes=(0, "episodes to measure on; default: 3,000 and 1,000"),
        structures=(0, "kitchens a cell; default: 40 with one dish, 12 with several"),
        seed=42,
        modules=(False, "patrol: with modules"),
        jobs=(os.cpu_count() or 1, "processes at once"),
    )
    parser.add_argument("world", choices=("deliberation", "patrol", "kitchen"))
    parser.add_argument("--setting", choices=("single", "chain"), action="append", help="of deliberation")
    parser.add_argument("--depth", type=int, choices=(1, 2, 3), action="append", help="of a patrol")
    parser.add_argument("--variant", choices=("one", "multi"), action="append", help="of the kitchen")
    parser.add_argument("--tables", type=Path, help="a folder for the tables")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
