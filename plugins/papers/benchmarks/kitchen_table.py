"""Tutoring with cooking, one rule under each interface, with one dish and with several; for docs/results/kitchen.md.

    python plugins/papers/benchmarks/kitchen_table.py
    python plugins/papers/benchmarks/kitchen_table.py --variant multi --json

Every interface meets the same kitchens, so differences are taken kitchen by kitchen. With one dish: every family of
dishes with every length of problem. With several: every case with 2 to 4 dishes, 2 to 4 problems and 1 or 2 burners.
The paper's text has lost its numbers of these cells, so the sweep is ours. It has kept the order of its figures, which
stands below each table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from math import nan
from typing import Any

from agentfw.interfaces import parse_interface
from agentfw.runs import in_processes, usual_processes
from agentfw_benchmarks import Figure, Options, Stopwatch, difference_of, mean_of, print_markdown, shown, tell
from agentfw_papers.tables.table_training import play
from agentfw_papers.worlds.kitchen.environment import Kitchen, KitchenSettings
from agentfw_papers.worlds.kitchen.kitchen_settings import CASES, DISHES, LESSONS
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController, KitchenControllerSettings

PLAYERS = {
    "step_loop": ("step_loop", False),
    "step_loop, bounded": ("step_loop", True),
    "polling:40": ("polling:40", False),  # as in the paper
    "reflex": ("reflex", False),
    "event_driven": ("event_driven", False),
}
"""The interface, and whether the rule tutors only up to the next signal that it expects; the paper has no such loop."""
FIGURES = ("utility", "dishes", "critical", "soft", "problems")
COLUMNS = {
    "one": ("utility", "difference", "dishes"),
    "multi": ("utility", "difference", "critical", "soft", "problems"),
}
STRUCTURES = {"one": 40, "multi": 12}
"""Kitchens a cell: 16 cells with one dish, 54 with several."""
PAPER = {
    "one": "utility: event-driven > reflex and polling, by little; the step loop far below",
    "multi": "utility and critical dishes: event-driven > reflex, by little > polling > the step loop; "
    "soft dishes fare well under polling",
}


Cell = tuple[dict[str, Any], str, int, int]
"""The settings of a cell, the player, the number of kitchens and their seed."""


def measured(
    variant: str, structures: int, *, seed: int = 42, jobs: int | None = None
) -> tuple[int, list[dict[str, Any]]]:
    """Play `structures` kitchens of each cell under each interface. Returns the number of kitchens, and the rows."""
    cells = list(_cells(variant))
    # The cell's number is part of its seed: no two cells share a kitchen.
    plays: list[Cell] = [
        (settings, player, structures, seed + 1000 * number)
        for number, (_, settings) in enumerate(cells)
        for player in PLAYERS
    ]
    found = in_processes(_play, plays, jobs or usual_processes(len(plays)))
    families = [family for family, _ in cells for _ in PLAYERS]
    rows = []
    for family in ["", *dict.fromkeys(families)]:  # first all of them
        played: dict[str, list[dict[str, float]]] = {}
        for (_, player, *_), own, kitchens in zip(plays, families, found, strict=True):
            if family in ("", own):
                played.setdefault(player, []).extend(kitchens)
        rows += [{"family": family, "player": player, **_figures(player, played)} for player in PLAYERS]
    return len(cells) * structures, rows


def _cells(variant: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if variant == "one":
        for dish, lesson in product(DISHES, LESSONS):
            yield dish, {"variant": "one", "dish": dish, "lesson": lesson}
    else:
        for case, dishes, problems, burners in product(CASES, (2, 3, 4), (2, 3, 4), (1, 2)):
            yield case, {"case": case, "dishes": dishes, "problems": problems, "burners": burners}


def _figures(player: str, played: dict[str, list[dict[str, float]]]) -> dict[str, Figure]:
    columns = {name: [one.get(name, nan) for one in played[player]] for name in FIGURES}
    figures = {name: mean_of(values) for name, values in columns.items() if any(value == value for value in values)}
    if player != "event_driven":
        best = [one["utility"] for one in played["event_driven"]]
        figures["difference"] = difference_of(columns["utility"], best)
    return figures


def _play(cell: Cell) -> list[dict[str, float]]:
    given, player, structures, seed = cell
    settings = KitchenSettings.model_validate(given)
    interface, bounded = PLAYERS[player]
    policy = KitchenController(KitchenControllerSettings(bounded=bounded))
    tasks = Kitchen(settings).tasks(structures, seed, "test")
    episodes = play(lambda: Kitchen(settings), policy, tasks, parse_interface(interface))
    return [{**episode.outcome, "utility": episode.utility} for episode in episodes]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    tables, watch = [], Stopwatch()
    for variant in options.variant or ["one", "multi"]:
        structures = options.structures or STRUCTURES[variant]
        kitchens, rows = measured(variant, structures, seed=options.seed, jobs=options.jobs)
        tables.append({"variant": variant, "kitchens": kitchens, "rows": rows})
    return {"seed": options.seed, **watch.took(), "tables": tables}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, seed=42)
    parser.add_argument("--variant", choices=("one", "multi"), action="append")
    parser.add_argument("--structures", type=int, help="kitchens a cell; 40 with one dish and 12 with several")
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


def show(result: dict[str, Any]) -> None:
    print(
        f"seed {result['seed']}; means and 95% intervals; difference: in utility, to event_driven in the same "
        f"kitchens; {result['seconds']:.0f} s, {result['cpu_seconds']:.0f} s of CPU time"
    )
    for table in result["tables"]:
        variant = table["variant"]
        whole = [row for row in table["rows"] if not row["family"]]
        families = [row for row in table["rows"] if row["family"]]
        print(f"\n{variant}: {table['kitchens']} kitchens")
        _print(whole, COLUMNS[variant])
        print(f"(the paper's order: {PAPER[variant]})\n")
        _print(families, COLUMNS[variant], "family")


def _print(rows: Sequence[dict[str, Any]], figures: Sequence[str], *first: str) -> None:
    table = []
    for row in rows:
        cells = [shown(row[name]) if name in row else "" for name in figures]
        table.append([*(row[name] for name in first), row["player"], *cells])
    print_markdown([*first, "interface", *figures], table)


if __name__ == "__main__":
    main()
