"""The patrol experiment: a learned policy that hears of alarms at once, beside loops and hand-written patches.

The one rule: all controllers patrol the same tasks with the same primitives. They differ in when they hear of an alarm
and in how they decide.

    agentfw engagement patrol --depth 2
    python tests/benchmarks/patrol_table.py          (all three depths, as in the docs)
"""

from __future__ import annotations

from dataclasses import dataclass

from agentfw.episode import Intervention
from agentfw.interfaces import EventDriven, Interface, StepLoop
from agentfw.policy import Policy
from agentfw.report import Bar, Canvas, bar_chart
from agentfw.runs.workers import in_processes, usual_processes
from agentfw.statistics import Interval, PairedDifference, bootstrap, bootstrap_ratio, paired_difference
from agentfw_plugins.worlds.patrol.environment import Patrol, PatrolSettings

from ..learners.table_training import play, train
from ..policies.qtable import QTablePolicy
from ..policies.value_table import Table
from ..worlds.patrol.rule_policy import ControllerSettings, PatrolController

__all__ = ["CONTROLLERS", "PatrolRow", "PatrolTable", "measure_patrol"]

CONTROLLERS = ("learned", "patchpro", "patch", "loop", "greedy", "greedy loop")
"""`learned`, the patches and `greedy` hear of alarms at once; the loops, between two pieces of work. `loop` responds to
every alarm that is still active then; `greedy` and `greedy loop` to those that can be reached."""

_PATCHES = ("patchpro", "patch")
_CHOICES = [None, Intervention("respond")]


@dataclass(frozen=True, slots=True)
class PatrolRow:
    """One controller."""

    controller: str
    figures: dict[str, Interval]
    difference: PairedDifference | None
    """Of the return to the learned controller's, task by task."""


@dataclass(frozen=True, slots=True)
class PatrolTable:
    """What came of the experiment."""

    depth: int
    training: int
    episodes: int
    seed: int
    rows: list[PatrolRow]
    table: Table

    def picture(self, *, width: float = 880) -> Canvas:
        """The return of each controller."""
        bars = [
            Bar(row.controller, row.figures["return"].estimate, row.figures["return"].low, row.figures["return"].high)
            for row in self.rows
        ]
        level = "in one piece" if self.depth == 1 else f"in {self.depth} phases"
        note = f"mean return of {self.episodes} episodes; lines: 95% intervals"
        return bar_chart(bars, title=f"A patrol that handles checkpoints {level}", x_label=note, width=width)


def measure_patrol(
    depth: int = 1, *, training: int = 4000, episodes: int = 1000, seed: int = 42, processes: int | None = None
) -> PatrolTable:
    """Train the learned controller, and play all of them."""
    names = [name for name in CONTROLLERS if depth > 1 or name not in _PATCHES]
    jobs = [(depth, name, training, episodes, seed) for name in names]
    found = in_processes(_play, jobs, processes or usual_processes(len(jobs)))
    first = found[0].returns
    rows = [
        PatrolRow(name, _figures(one), None if name == names[0] else paired_difference(one.returns, first))
        for name, one in zip(names, found, strict=True)
    ]
    assert found[0].table is not None
    return PatrolTable(depth, training, episodes, seed, rows, found[0].table)


@dataclass(frozen=True, slots=True)
class _Played:
    """One controller's episodes, figure by figure."""

    returns: list[float]
    outcomes: dict[str, list[float]]
    table: Table | None


def _figures(one: _Played) -> dict[str, Interval]:
    alarms, resolved, expired = (one.outcomes[name] for name in ("alarms", "resolved", "expired"))
    over = [sum(pair) for pair in zip(resolved, expired, strict=True)]
    return {
        "return": bootstrap(one.returns),
        # Ratios of the totals, as in the paper: an episode with few alarms weighs little.
        "resolved": bootstrap_ratio(resolved, alarms),
        "expired": bootstrap_ratio(expired, alarms),
        "ticks": bootstrap_ratio(one.outcomes["active"], over),
        "cost": bootstrap(one.outcomes["cost"]),
        "handled": bootstrap(one.outcomes["handled"]),
    }


def _play(job: tuple[int, str, int, int, int]) -> _Played:
    depth, name, training, count, seed = job
    settings = PatrolSettings.model_validate({"depth": depth})
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
