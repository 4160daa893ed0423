"""How long to think, learned with a clock and without one: the tables and pictures of docs/results/deliberation.md.

    python tests/benchmarks/deliberation_table.py
    python tests/benchmarks/deliberation_table.py --setting chain --tables tables --pictures docs/pictures --json

Two tables learn from the same tasks, one in a world where thinking takes time and one where it doesn't. Each is then
played in both worlds, on the same other tasks. The paper's figures stand beside ours where its text still has them.

`--tables` saves the tables. A run follows one with:

    agentfw run deliberation --set environment.setting=chain --policy qtable --set policy.table=TABLE
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Episode, Intervention
from agentfw.report import Canvas, Series, line_chart
from agentfw.runs import in_processes, usual_processes
from agentfw.statistics import Interval, bootstrap
from agentfw_papers.worlds.deliberation.environment import Deliberation, DeliberationSettings
from agentfw_plugins.learners.table_training import play, train
from agentfw_plugins.policies.qtable import QTablePolicy
from agentfw_plugins.policies.value_table import Table

FIGURES = ("return", "success", "timeout", "deepest")
WORLDS = ("event", "step")
"""With a clock, and without one."""

_MODES = [Intervention("think", {"mode": mode}) for mode in range(1, 6)]
PAPER = {
    ("single", "event", "event"): {"return": "+0.800", "success": "46.7%", "timeout": "0.0%", "deepest": "21.2%"},
    ("single", "step", "event"): {"return": "negative", "timeout": "79.0%"},
    ("chain", "event", "event"): {"return": "+10.07", "success": "50.1%", "timeout": "3.7%"},
    ("chain", "step", "event"): {"return": "-14.98", "timeout": "88.9%"},
}
"""By setting, how it was trained, and in which world it was played."""


@dataclass(frozen=True, slots=True)
class DeliberationRow:
    """One table in one world."""

    trained: str
    played: str
    figures: dict[str, Interval]


@dataclass(frozen=True, slots=True)
class DeliberationTable:
    """Result of the experiment."""

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


def measure(
    settings: Sequence[str],
    training: int,
    episodes: int,
    seed: int,
    jobs: int | None,
    tables: Path | None,
    pictures: Path | None,
) -> dict[str, Any]:
    rows = []
    began, worked = time.perf_counter(), _worked()
    for setting in settings:
        table = measure_deliberation(setting, training=training, episodes=episodes, seed=seed, processes=jobs)
        for row in table.rows:
            figures = {
                name: {"mean": one.estimate, "low": one.low, "high": one.high} for name, one in row.figures.items()
            }
            rows.append({"setting": setting, "trained": row.trained, "played": row.played, **figures})
        if tables is not None:
            tables.mkdir(parents=True, exist_ok=True)
            for world, one in table.tables.items():
                one.save(tables / f"deliberation-{setting}-{world}.json")
        if pictures is not None:
            (pictures / f"deliberation-{setting}.svg").write_text(table.picture().to_svg(), "utf-8")
    took = {"seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(_worked() - worked, 1)}
    return {"training": training, "episodes": episodes, "seed": seed, **took, "rows": rows}


def _worked() -> float:
    """Seconds of CPU time, of this process and of its workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--setting", choices=("single", "chain"), action="append")
    parser.add_argument("--training", type=int, default=20_000)
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--tables", type=Path, help="a folder for the tables")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    settings = options.setting or ["single", "chain"]
    result = measure(
        settings,
        options.training,
        options.episodes,
        options.seed,
        options.jobs,
        options.tables,
        options.pictures,
    )
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        f"means and 95% intervals, the paper's figures in brackets; {result['seconds']:.0f} s, "
        f"{result['cpu_seconds']:.0f} s of CPU time"
    )
    print("| setting | trained | played | " + " | ".join(FIGURES) + " |")
    print("| --- | --- | --- |" + " --- |" * len(FIGURES))
    for row in result["rows"]:
        paper = PAPER.get((row["setting"], row["trained"], row["played"]), {})
        cells = [_cell(name, row[name], paper.get(name)) for name in FIGURES]
        print(f"| {row['setting']} | {row['trained']} | {row['played']} | " + " | ".join(cells) + " |")
    return result


def _cell(name: str, figure: dict[str, float], paper: str | None) -> str:
    if name == "return":
        text = f"{figure['mean']:+.2f} [{figure['low']:+.2f}, {figure['high']:+.2f}]"
    else:
        text = f"{figure['mean']:.1%} [{figure['low']:.1%}, {figure['high']:.1%}]"
    return text if paper is None else f"{text} ({paper})"


if __name__ == "__main__":
    main()
