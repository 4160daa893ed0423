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
from dataclasses import dataclass
from itertools import product
from math import floor, nan
from typing import Any

from agentfw import Episode
from agentfw.interfaces import parse_interface
from agentfw.report.statistics import Interval, PairedDifference, bootstrap, paired_difference
from agentfw.runs import in_processes, usual_processes
from agentfw.timeline import Time
from agentfw_benchmarks import Options, Stopwatch, bounds_of, print_markdown, shown, tell
from agentfw_papers.tables.table_training import play
from agentfw_papers.worlds.kitchen.environment import Kitchen, KitchenSettings
from agentfw_papers.worlds.kitchen.kitchen_settings import CASES, DISHES, LESSONS
from agentfw_papers.worlds.kitchen.observations import SIGNALS
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController, KitchenControllerSettings

POLLING = 40
"""Ticks from poll to poll, as in the paper."""
PLAYERS = {
    "step_loop": ("step_loop", False),
    "step_loop, bounded": ("step_loop", True),
    f"polling:{POLLING}": (f"polling:{POLLING}", False),
    "reflex": ("reflex", False),
    "event_driven": ("event_driven", False),
}
"""The interface, and whether the rule tutors only up to the next signal that it expects; the paper has no such loop."""
FIGURES = (
    *("utility", "charged", "dishes", "critical", "soft", "problems", "elapsed"),
    *("seen", "delay", "switches", "stretches", "interrupted", "resumed", "restarted"),
)
"""`charged` is the utility with each poll of the interface paid for like a check; `seen` is how long after a signal the
agent is shown it, `delay` how long after it the dish is finished."""
STRUCTURES = {"one": 40, "multi": 12}
"""Kitchens a cell: 16 cells with one dish, 54 with several."""
COLUMNS = {
    "one": ("utility", "difference", "charged", "dishes", "seen", "delay", "switches"),
    "multi": ("utility", "difference", "charged", "critical", "soft", "problems", "seen", "delay", "switches"),
}
BY_FAMILY = {"one": ("utility", "difference", "dishes"), "multi": ("utility", "difference", "critical", "soft")}
CONTINUITY = ("stretches", "interrupted", "resumed", "restarted")
DECIMALS = {"seen": 1, "delay": 1, "problems": 2, "switches": 2, "stretches": 2, "interrupted": 2, "resumed": 2}
PAPER = {
    "one": "utility: event-driven > reflex and polling, by little; the step loop far below",
    "multi": "utility and critical dishes: event-driven > reflex, by little > polling > the step loop; "
    "soft dishes fare well under polling",
}


@dataclass(frozen=True, slots=True)
class KitchenRow:
    """One player in the kitchens of a family, or in all of them."""

    family: str
    """Empty for all of them."""
    player: str
    figures: dict[str, Interval]
    difference: PairedDifference | None
    """Of the utility to the event-driven player's, kitchen by kitchen."""


@dataclass(frozen=True, slots=True)
class KitchenTable:
    """Result of the experiment."""

    variant: str
    kitchens: int
    seed: int
    rows: list[KitchenRow]


@dataclass(frozen=True, slots=True)
class _Job:
    """One player in the kitchens of one cell."""

    settings: dict[str, Any]
    family: str
    player: str
    structures: int
    seed: int


def measure_kitchen(
    variant: str, *, structures: int, seed: int = 42, split: str = "test", processes: int | None = None
) -> KitchenTable:
    """Play `structures` kitchens of each cell under each interface."""
    cells = list(_cells(variant))
    # The cell's number is part of its seed: no two cells share a kitchen.
    jobs = [
        _Job({**settings, "split": split}, family, player, structures, seed + 1000 * number)
        for number, (family, settings) in enumerate(cells)
        for player in PLAYERS
    ]
    found = in_processes(_play, jobs, processes or usual_processes(len(jobs)))
    rows = []
    for family in ["", *dict.fromkeys(family for family, _ in cells)]:
        played: dict[str, list[dict[str, float]]] = {}
        for job, kitchens in zip(jobs, found, strict=True):
            if family in ("", job.family):
                played.setdefault(job.player, []).extend(kitchens)
        rows += [_row(family, player, played) for player in PLAYERS]
    return KitchenTable(variant, len(cells) * structures, seed, rows)


def _cells(variant: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if variant == "one":
        for dish, lesson in product(DISHES, LESSONS):
            yield dish, {"variant": "one", "dish": dish, "lesson": lesson}
    else:
        for case, dishes, problems, burners in product(CASES, (2, 3, 4), (2, 3, 4), (1, 2)):
            yield case, {"case": case, "dishes": dishes, "problems": problems, "burners": burners}


def _row(family: str, player: str, played: dict[str, list[dict[str, float]]]) -> KitchenRow:
    kitchens = played[player]
    columns = {name: [one.get(name, nan) for one in kitchens] for name in FIGURES}
    figures = {name: bootstrap(values) for name, values in columns.items() if any(value == value for value in values)}
    best = played["event_driven"]
    difference = (
        paired_difference(columns["utility"], [one["utility"] for one in best]) if player != "event_driven" else None
    )
    return KitchenRow(family, player, figures, difference)


def _play(job: _Job) -> list[dict[str, float]]:
    split = str(job.settings["split"])
    settings = KitchenSettings.model_validate({key: value for key, value in job.settings.items() if key != "split"})
    interface, bounded = PLAYERS[job.player]
    policy = KitchenController(KitchenControllerSettings(bounded=bounded))
    tasks = Kitchen(settings).tasks(job.structures, job.seed, split)
    found = []
    for episode in play(lambda: Kitchen(settings), policy, tasks, parse_interface(interface)):
        seen = sight_delays(episode)
        charged = polls(episode, POLLING) * settings.check_cost if interface.startswith("polling") else 0.0
        found.append(
            {
                **episode.outcome,
                "utility": episode.utility,
                "charged": episode.utility - charged,
                "seen": sum(seen) / len(seen) if seen else nan,
            }
        )
    return found


def sight_delays(episode: Episode) -> list[Time]:
    """How long after each signal the agent was shown it; until the end where it never was."""
    waiting: dict[int, Time] = {}
    found: list[Time] = []
    for number, event in enumerate(episode.events):
        if event.seat:
            continue
        if event.kind == "observation" and event.name in SIGNALS:
            waiting[number] = event.time
        elif event.kind == "seen":
            found += [event.time - waiting.pop(one) for one in event.data["events"] if one in waiting]
    return [*found, *(episode.ended - time for time in waiting.values())]


def polls(episode: Episode, every: Time) -> int:
    """How often somebody who looks every so many ticks looks while the tutor explains."""
    count, began = 0, 0.0
    for event in episode.events:
        # The tutor's own seat: it explains from the moment at which it begins to speak.
        if event.kind == "work" and event.seat.rpartition("/")[2] == "tutor":
            if event.data["state"] == "started":
                began = event.time
            else:
                count += floor(event.time / every) - floor(began / every)
    return count


def measure(options: argparse.Namespace) -> dict[str, Any]:
    tables, watch = [], Stopwatch()
    for variant in options.variant or ["one", "multi"]:
        structures = options.structures or STRUCTURES[variant]
        table = measure_kitchen(variant, structures=structures, seed=options.seed, processes=options.jobs)
        tables.append({"variant": variant, "kitchens": table.kitchens, "rows": _rows(table)})
    return {"seed": options.seed, **watch.took(), "tables": tables}


def _rows(table: KitchenTable) -> list[dict[str, Any]]:
    rows = []
    for row in table.rows:
        found: dict[str, Any] = {name: bounds_of(one) for name, one in row.figures.items()}
        if row.difference is not None:
            found["difference"] = {**bounds_of(row.difference.difference), "p": row.difference.p_value}
        rows.append({"family": row.family, "player": row.player, **found})
    return rows


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
        _print(families, BY_FAMILY[variant], "family")
        print()
        _print(whole, CONTINUITY)


def _print(rows: Sequence[dict[str, Any]], figures: Sequence[str], *first: str) -> None:
    table = []
    for row in rows:
        cells = [shown(row[name], f".{DECIMALS.get(name, 3)}f") if name in row else "" for name in figures]
        table.append([*(row[name] for name in first), row["player"], *cells])
    print_markdown([*first, "interface", *figures], table)


if __name__ == "__main__":
    main()
