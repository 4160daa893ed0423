"""`agentfw train proactive`: is `tiny-proactive` ready earlier after training, and does it still agree?

    python tests/benchmarks/proactive_training.py --processes 2
    python tests/benchmarks/proactive_training.py --runs FOLDER       # trainings that are done are not repeated

It runs the command itself, and reads every figure from the run's own folder. Held-out dialogues are those of the
validation split: other people, and other sentences. Intervals are bootstrapped over the 200 turns of an evaluation, the
same ones before and after. The players beside know the references.

Required: in each seed, held-out PT is at least 1.25 times its start and AC at least 0.95 times, within 15 minutes of
two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentfw.runs import RunFolder
from agentfw.statistics import bootstrap, mean
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings

FIGURES = ("ac", "max_ac", "pt", "rar", "ftr", "silent", "format")
RISE, KEPT = 1.25, 0.95


def train(seed: int, runs: Path, more: Sequence[str]) -> RunFolder:
    """The finished training of a seed."""
    home = runs / str(seed)
    if not list(home.glob("*/summary.json")):
        command = [sys.executable, "-m", "agentfw_cli.main", "train", "proactive", "--seed", str(seed)]
        subprocess.run(
            [*command, "--runs", str(home), "--json", *more],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
    (summary,) = home.glob("*/summary.json")
    return RunFolder.open(summary.parent)


def values(records: Sequence[Mapping[str, Any]], figure: str) -> list[float]:
    found = (record["outcome"].get(figure) for record in records)
    return [float(value) for value in found if value is not None]


def figures(folder: RunFolder) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Means of the first and the last evaluation with their intervals."""
    evaluations = folder.evaluations()
    table = {}
    for name, update in (("before", min(evaluations)), ("after", max(evaluations))):
        records = evaluations[update].metrics()
        intervals = {figure: bootstrap(values(records, figure)) for figure in FIGURES}
        table[name] = {figure: (one.estimate, one.low, one.high) for figure, one in intervals.items()}
    return table


def players(folder: RunFolder) -> dict[str, dict[str, float]]:
    """What the simple players get on the same turns."""
    about = folder.about["spec"]
    environment = Proactive(ProactiveSettings.model_validate(about["environment"]["settings"]))
    tasks = environment.tasks(about["evaluation"]["tasks"], about["seed"], about["evaluation"]["split"])
    rows: dict[str, list[Mapping[str, float]]] = {}
    for task in tasks:
        for name, outcome in environment.references(task).items():
            rows.setdefault(name, []).append(outcome)
    return {
        name: {figure: float(mean(known)) for figure in FIGURES if (known := _known(found, figure))}
        for name, found in rows.items()
    }


def _known(outcomes: Sequence[Mapping[str, float]], figure: str) -> list[float]:
    return [one[figure] for one in outcomes if one.get(figure) is not None]


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="handed on to the command")
    parser.add_argument("--processes", type=int, default=1, help="how many trainings at once")
    parser.add_argument("--runs", type=Path, help="keep the run folders here")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    more = [part for setting in given.set for part in ("--set", setting)]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(given.processes) as pool:
        runs = given.runs or Path(scratch)
        folders = list(pool.map(lambda seed: train(seed, runs, more), given.seeds))
        seeds = {str(seed): figures(folder) for seed, folder in zip(given.seeds, folders, strict=True)}
        beside = players(folders[0])
    result = {
        "seeds": seeds,
        "players": beside,
        "met": all(
            one["after"]["pt"][0] >= RISE * one["before"]["pt"][0]
            and one["after"]["ac"][0] >= KEPT * one["before"]["ac"][0]
            for one in seeds.values()
        ),
    }
    if given.json:
        print(json.dumps(result))
        return result
    print(f"| seed | | {' | '.join(FIGURES)} |\n|{' --- |' * (len(FIGURES) + 2)}")
    for seed, table in seeds.items():
        for name, row in table.items():
            cells = [f"{middle:.3f} [{low:.3f}, {high:.3f}]" for middle, low, high in row.values()]
            print(f"| {seed} | {name} | {' | '.join(cells)} |")
    for name, found in beside.items():
        cells = [f"{found[figure]:.3f}" if figure in found else "undefined" for figure in FIGURES]
        print(f"| | {name} | {' | '.join(cells)} |")
    print(f"\nrequired: {'met' if result['met'] else 'not met'}")
    return result


if __name__ == "__main__":
    main()
