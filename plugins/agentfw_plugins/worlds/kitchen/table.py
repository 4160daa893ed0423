"""The kitchen experiment: one rule, one and several dishes, and only when it hears of signals differs.

The one rule: every interface meets the same kitchens, cell by cell and seed by seed; so differences are taken kitchen
by kitchen.

    table = measure_kitchen("multi", structures=6)
    table.rows[0].figures["utility"]

One dish: every family of dishes with every length of problem. Several dishes: every case with 2 to 4 dishes, 2 to 4
problems and 1 or 2 burners. The paper's numbers of these cells are lost, and the sweep is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import nan
from typing import Any

from agentfw.interfaces import parse_interface
from agentfw.report import Bar, Canvas, bar_chart
from agentfw.runs.workers import in_processes, usual_processes
from agentfw.statistics import Interval, PairedDifference, bootstrap, paired_difference
from agentfw_plugins.learners.table_training import play

from .environment import Kitchen
from .kitchen_settings import CASES, DISHES, LESSONS, KitchenSettings
from .metrics import polls, sight_delays
from .rule_policy import KitchenController, KitchenControllerSettings

__all__ = ["FIGURES", "PLAYERS", "POLLING", "KitchenRow", "KitchenTable", "measure_kitchen"]

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
    "utility",
    "charged",
    "dishes",
    "critical",
    "soft",
    "problems",
    "elapsed",
    "seen",
    "delay",
    "switches",
    "stretches",
    "interrupted",
    "resumed",
    "restarted",
)
"""`charged` is the utility with each poll of the interface paid for like a check; `seen` is how long after a signal the
agent is shown it, `delay` how long after it the dish is finished."""


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
    """What came of the experiment."""

    variant: str
    kitchens: int
    seed: int
    rows: list[KitchenRow]

    def picture(self, *, width: float = 880) -> Canvas:
        """The utility of each player in all kitchens."""
        bars = [
            Bar(row.player.replace("_", " ").replace(":", " every "), one.estimate, one.low, one.high)
            for row in self.rows
            if not row.family
            for one in [row.figures["utility"]]
        ]
        dishes = "one dish" if self.variant == "one" else "several dishes"
        note = f"mean utility of {self.kitchens} kitchens; lines: 95% intervals"
        return bar_chart(bars, title=f"Tutoring while cooking: {dishes}", x_label=note, width=width)


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
