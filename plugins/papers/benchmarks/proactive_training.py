"""`agentfw train proactive`: is `tiny-proactive` ready earlier after training, and does it still agree?

    python plugins/papers/benchmarks/proactive_training.py --processes 2
    python plugins/papers/benchmarks/proactive_training.py --runs FOLDER    # trainings that are done are not repeated

It runs the command itself, and reads every figure from the run's own folder. Held-out dialogues are those of the
validation split: other people, and other sentences. Intervals are bootstrapped over the 200 turns of an evaluation, the
same ones before and after. The players beside know the references.

Required: in each seed, held-out PT is at least 1.25 times its start and AC at least 0.95 times, within 15 minutes of
two cores.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw.runs import RunFolder
from agentfw_benchmarks import AGENTFW, Options, outcomes_of_references, print_markdown, shown, tell, triple_of
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings

FIGURES = ("ac", "max_ac", "pt", "rar", "ftr", "silent", "format")
RISE, KEPT = 1.25, 0.95


def train(seed: int, runs: Path, more: Sequence[str]) -> RunFolder:
    """The finished training of a seed."""
    home = runs / str(seed)
    if not list(home.glob("*/summary.json")):
        command = [*AGENTFW, "train", "proactive", "--seed", str(seed)]
        subprocess.run(
            [*command, "--runs", str(home), "--json", *more],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
    (summary,) = home.glob("*/summary.json")
    return RunFolder.open(summary.parent)


def values(outcomes: Iterable[Mapping[str, float | None]], figure: str) -> list[float]:
    """A figure of those for which it is defined."""
    return [float(value) for value in (one.get(figure) for one in outcomes) if value is not None]


def figures(folder: RunFolder) -> dict[str, dict[str, list[float]]]:
    """Means of the first and the last evaluation with their intervals."""
    evaluations = folder.evaluations()
    table = {}
    for name, update in (("before", min(evaluations)), ("after", max(evaluations))):
        outcomes = [record["outcome"] for record in evaluations[update].metrics()]
        table[name] = {figure: triple_of(values(outcomes, figure)) for figure in FIGURES}
    return table


def players(folder: RunFolder) -> dict[str, dict[str, float]]:
    """What the simple players get on the same turns."""
    about = folder.about["spec"]
    environment = Proactive(ProactiveSettings.model_validate(about["environment"]["settings"]))
    tasks = environment.tasks(about["evaluation"]["tasks"], about["seed"], about["evaluation"]["split"])
    return {
        name: {figure: fmean(known) for figure in FIGURES if (known := values(outcomes, figure))}
        for name, outcomes in outcomes_of_references(environment, tasks).items()
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, seeds=[1, 2, 3], processes=(1, "how many trainings at once"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="handed on to the command")
    parser.add_argument("--runs", type=Path, help="keep the run folders here")
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
    return tell(result, given.json, show)


def show(result: dict[str, Any]) -> None:
    rows = []
    for seed, table in result["seeds"].items():
        rows += [[seed, name, *map(shown, row.values())] for name, row in table.items()]
    for name, found in result["players"].items():
        rows.append(["", name, *(f"{found[figure]:.3f}" if figure in found else "undefined" for figure in FIGURES)])
    print_markdown(["seed", "", *FIGURES], rows)
    print(f"\nrequired: {'met' if result['met'] else 'not met'}")


if __name__ == "__main__":
    main()
