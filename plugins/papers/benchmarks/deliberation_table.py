"""How long to think, learned with a clock and without one: the tables and pictures of docs/results/deliberation.md.

    python plugins/papers/benchmarks/deliberation_table.py
    python plugins/papers/benchmarks/deliberation_table.py --setting chain --tables tables --pictures FOLDER --json

Two tables learn from the same tasks, one in a world where thinking takes time and one where it doesn't. Each is then
played in both worlds, on the same other tasks. The paper's figures stand beside ours where its text still has them.

`--tables` saves the tables. A run follows one with:

    agentfw run deliberation --set environment.setting=chain --policy qtable --set policy.table=TABLE
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Episode, Intervention
from agentfw.report import Canvas, Series, line_chart
from agentfw.report.statistics import bootstrap
from agentfw.runs import in_processes, usual_processes
from agentfw_benchmarks import Options, Stopwatch, beside, mean_of, print_markdown, shown, tell
from agentfw_papers.tables.qtable import QTablePolicy
from agentfw_papers.tables.table_training import play, train
from agentfw_papers.tables.value_table import Table
from agentfw_papers.worlds.deliberation.environment import Deliberation, DeliberationSettings

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


Modes = dict[str, dict[str, list[int]]]
"""By how a table was trained and by slack, how often each mode was chosen in the world with a clock."""


def picture(setting: str, modes: Modes) -> Canvas:
    """Which mode is chosen on average, by slack."""
    series = []
    for trained, by_slack in modes.items():
        # "slack 3" is the fourth of the bins, whether or not the others were met.
        places = sorted((int(slack.removeprefix("slack ")) + 1, counts) for slack, counts in by_slack.items())
        chosen = [
            bootstrap([mode for mode, count in enumerate(counts, start=1) for _ in range(count)])
            for _, counts in places
        ]
        name = "trained with a clock" if trained == "event" else "trained without"
        means, low, high = ([getattr(one, key) for one in chosen] for key in ("estimate", "low", "high"))
        series.append(Series(name, means, x=[place for place, _ in places], low=low, high=high))
    return line_chart(
        series,
        title=f"How deep it thinks, by slack ({setting})",
        x_label="slack, from the least to the most",
        y_label="mean mode, played with a clock; 5 is the slowest",
        y_range=(1, 5),
        width=880,
    )


def measured(
    setting: str, *, training: int, episodes: int, seed: int, jobs: int | None = None
) -> tuple[list[dict[str, Any]], dict[str, Table], Modes]:
    """Train both tables and play each in both worlds."""
    trainings = [(setting, world, training, seed) for world in WORLDS]
    processes = jobs or usual_processes(len(trainings))
    records = dict(zip(WORLDS, in_processes(_train, trainings, processes), strict=True))
    plays = [(setting, trained, played, records[trained], episodes, seed) for trained in WORLDS for played in WORLDS]
    rows, modes = [], Modes()
    for (_, trained, played, *_), (figures, chosen) in zip(plays, in_processes(_play, plays, processes), strict=True):
        means = {name: mean_of(values) for name, values in zip(FIGURES, figures, strict=True)}
        rows.append({"setting": setting, "trained": trained, "played": played, **means})
        if played == "event":
            modes[trained] = chosen
    return rows, {world: Table.from_record(record) for world, record in records.items()}, modes


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


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rows, watch = list[dict[str, Any]](), Stopwatch()
    size = {name: getattr(options, name) for name in ("training", "episodes", "seed")}
    for setting in options.setting or ["single", "chain"]:
        found, tables, modes = measured(setting, **size, jobs=options.jobs)
        rows += found
        if options.tables is not None:
            options.tables.mkdir(parents=True, exist_ok=True)
            for world, one in tables.items():
                one.save(options.tables / f"deliberation-{setting}-{world}.json")
        if options.pictures is not None:
            (options.pictures / f"deliberation-{setting}.svg").write_text(picture(setting, modes).to_svg(), "utf-8")
    return {**size, **watch.took(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        f"means and 95% intervals, the paper's figures in brackets; {result['seconds']:.0f} s, "
        f"{result['cpu_seconds']:.0f} s of CPU time"
    )
    table = []
    for row in result["rows"]:
        names = [row[name] for name in ("setting", "trained", "played")]
        paper = PAPER.get(tuple(names), {})
        cells = [shown(row[name], "+.2f" if name == "return" else ".1%") for name in FIGURES]
        table.append([*names, *map(beside, cells, map(paper.get, FIGURES))])
    print_markdown(["setting", "trained", "played", *FIGURES], table)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, training=20_000, episodes=3000, seed=42)
    parser.add_argument("--setting", choices=("single", "chain"), action="append")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--tables", type=Path, help="a folder for the tables")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
