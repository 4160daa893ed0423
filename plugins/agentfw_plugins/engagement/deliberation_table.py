"""The deliberation experiment: trained with and without a clock, played with and without one.

The one rule: both tables learn from the same tasks and are played on the same other tasks; only whether thinking takes
time differs.

    agentfw engagement deliberation --setting chain
    python tests/benchmarks/deliberation_table.py          (both settings, as in the docs)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentfw.episode import Episode, Intervention
from agentfw.report import Canvas, Series, line_chart
from agentfw.runs.workers import in_processes, usual_processes
from agentfw.statistics import Interval, bootstrap
from agentfw_plugins.worlds.deliberation.environment import Deliberation, DeliberationSettings

from ..learners.table_training import play, train
from ..policies.qtable import QTablePolicy
from ..policies.value_table import Table

__all__ = ["FIGURES", "DeliberationRow", "DeliberationTable", "measure_deliberation"]

FIGURES = ("return", "success", "timeout", "deepest")
WORLDS = ("event", "step")
"""With a clock, and without one."""

_MODES = [Intervention("think", {"mode": mode}) for mode in range(1, 6)]


@dataclass(frozen=True, slots=True)
class DeliberationRow:
    """One table in one world."""

    trained: str
    played: str
    figures: dict[str, Interval]


@dataclass(frozen=True, slots=True)
class DeliberationTable:
    """What came of the experiment."""

    setting: str
    training: int
    episodes: int
    seed: int
    rows: list[DeliberationRow]
    modes: dict[str, dict[str, list[int]]]
    """By how it was trained and by slack, how often each mode was chosen in the world with a clock."""
    tables: dict[str, Table]

    def picture(self, *, width: float = 880) -> Canvas:
        """Which mode is chosen on average, by slack."""
        series = []
        for trained, by_slack in self.modes.items():
            # "slack 3" is the fourth of the bins, whether or not the others were met.
            places = sorted((int(slack.removeprefix("slack ")) + 1, counts) for slack, counts in by_slack.items())
            chosen = [
                bootstrap([mode for mode, count in enumerate(counts, start=1) for _ in range(count)])
                for _, counts in places
            ]
            name = "trained with a clock" if trained == "event" else "trained without"
            means, low, high = ([getattr(one, key) for one in chosen] for key in ("estimate", "low", "high"))
            series.append(Series(name, means, x=[place for place, _ in places], low=low, high=high))
        title = f"How deep it thinks, by slack ({self.setting})"
        return line_chart(
            series,
            title=title,
            x_label="slack, from the least to the most",
            y_label="mean mode, played with a clock; 5 is the slowest",
            y_range=(1, 5),
            width=width,
        )


def measure_deliberation(
    setting: str = "single",
    *,
    training: int = 20_000,
    episodes: int = 3000,
    seed: int = 42,
    processes: int | None = None,
) -> DeliberationTable:
    """Train both tables and play each in both worlds."""
    jobs = [(setting, world, training, seed) for world in WORLDS]
    processes = processes or usual_processes(len(jobs))
    records = dict(zip(WORLDS, in_processes(_train, jobs, processes), strict=True))
    plays = [(setting, trained, played, records[trained], episodes, seed) for trained in WORLDS for played in WORLDS]
    found = in_processes(_play, plays, processes)
    rows, modes = [], {}
    for (_, trained, played, *_), (figures, chosen) in zip(plays, found, strict=True):
        rows.append(
            DeliberationRow(trained, played, {name: bootstrap(figures[place]) for place, name in enumerate(FIGURES)})
        )
        if played == "event":
            modes[trained] = chosen
    tables = {world: Table.from_record(record) for world, record in records.items()}
    return DeliberationTable(setting, training, episodes, seed, rows, modes, tables)


def _settings(setting: str, world: str) -> DeliberationSettings:
    return DeliberationSettings.model_validate({"setting": setting, "instant": world == "step"})


def _train(job: tuple[str, str, int, int]) -> dict[str, Any]:
    setting, world, episodes, seed = job
    settings = _settings(setting, world)
    return train(lambda: Deliberation(settings), _MODES, episodes=episodes, seed=seed).to_record()


def _play(job: tuple[str, str, str, dict[str, Any], int, int]) -> tuple[list[list[float]], dict[str, list[int]]]:
    """The figures, each over all episodes, and the modes chosen by slack."""
    setting, _, world, record, count, seed = job
    settings = _settings(setting, world)
    tasks = Deliberation(settings).tasks(count, seed, "test")
    figures: list[list[float]] = [[] for _ in FIGURES]
    chosen: dict[str, list[int]] = {}
    for episode in play(lambda: Deliberation(settings), QTablePolicy.of(Table.from_record(record)), tasks):
        for values, value in zip(
            figures, (episode.utility, *(episode.outcome[name] for name in FIGURES[1:])), strict=True
        ):
            values.append(value)
        _count(episode, chosen)
    return figures, chosen


def _count(episode: Episode, chosen: dict[str, list[int]]) -> None:
    """Add the modes that were chosen in an episode, by slack."""
    state = ""
    for event in episode.events:
        if event.kind == "observation" and "state" in event.data:
            state = str(event.data["state"]).partition(",")[0]
        elif event.kind == "intervention":
            chosen.setdefault(state, [0] * len(_MODES))[int(event.data["mode"]) - 1] += 1
