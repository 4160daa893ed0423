"""The reward rules of the ProActor paper side by side, from one small model, with a program as judge.

    python plugins/papers/benchmarks/proactive_rewards.py --work FOLDER --table lambda

Every row is `agentfw train proactive` with other rewards and nothing else changed but what the table is about, measured
on the same held-out turns before and after:

- rules: agreement alone, the judge alone, and the mixtures between them (row D2 of the specification)
- lambda: the judge's highest share in the adaptive rule (D3)
- level: rewards of a turn, and means of the dialogue up to it, in whole dialogues (D4)

What is in FOLDER is not done again: a command that was broken off goes on. The simple players stand beside on the same
turns, because eager gets the best timing without learning anything.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentfw import Host
from agentfw.runs import RunFolder, apply_assignments, in_processes
from agentfw_benchmarks import Options, mean_of, tell
from agentfw_benchmarks.runs import outcomes_of_references, runs_below, spec_named, train
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings

FIGURES = ("ac", "max_ac", "pt", "ftr", "rar", "late", "silent", "ready", "balance")
_RULES = (
    "Give credit for an action that is ready at the first turn at which it could be, and less the later it comes.",
    "Deduct for an action that is ready although nothing in the dialogue supports it, and for one that is not ready "
    "although everything it needs has been said.",
)
_JUDGE = {"policy": {"name": "timing_judge"}, "rules": list(_RULES)}

Weights = Mapping[str, float | str]
Variant = tuple[Weights, Mapping[str, Any]]
"""The weights of a variant, and what else it sets."""


def _weights(**weights: float | str) -> Weights:
    return {("rubric" if name == "judge" else f"proactive_{name}"): weight for name, weight in weights.items()}


def _adaptive(share: float) -> Weights:
    return _weights(ac=f"ramp:1->{1 - share:g}", judge=f"ramp:{share:g}")


def _of_level(level: str, **weights: float | str) -> Variant:
    whole = {"environment": {"unit": "dialogue"}, "tasks": 4, "window": 1, "optimizer": {"gamma": 0.0}}
    return _weights(**weights), {**whole, "reward": {f"proactive_{name}": {"level": level} for name in weights}}


TABLES: Mapping[str, Mapping[str, Variant]] = {
    "rules": {
        "RAC": (_weights(ac=1), {}),
        "Max RAC": (_weights(max_ac=1), {}),
        "Custom RULER": (_weights(judge=1), {}),
        "Weighted": (_weights(ac=1, pt=0.05, ftr=-0.01), {}),
        "Adaptive Metric": (
            _weights(ac="stages:0,0.6,0.6", max_ac="stages:0.8,0,0", pt="stages:0.2,0.3,0", ftr="stages:0,-0.1,-0.4"),
            {},
        ),
        "Adaptive RULER": (_adaptive(0.3), {}),
    },
    "lambda": {f"{share:g}": (_adaptive(share), {}) for share in (0.0, 0.3, 0.5, 0.75, 1.0)},
    "level": {
        f"{name}, {level}": _of_level(level, **{name: 1.0}) for name in ("ac", "pt") for level in ("turn", "trajectory")
    },
}


def spec_of(table: str, variant: str, seed: int, options: argparse.Namespace, host: Host) -> dict[str, Any]:
    """The spec that ships, with what a variant is, and its seed."""
    weights, changes = TABLES[table][variant]
    spec = spec_named(host, "train-proactive")
    spec["rewards"] = [
        {"name": name, "weight": weight, "settings": _JUDGE if name == "rubric" else {}}
        for name, weight in weights.items()
    ]
    if table == "level":
        # Turns of whole dialogues are compared by their number.
        spec["optimizer"] = {"name": "roundwise", "settings": {"kl": 0.0, "ratio_cap": 10.0}}
    spec = apply_assignments(spec, {"seed": seed, "updates": options.updates, "learner": {"decay": options.updates}})
    spec = apply_assignments(spec, changes)
    if options.data:
        spec = apply_assignments(spec, {"environment": {"data": os.path.abspath(options.data), "flows": []}})
    spec["evaluation"] |= {"every": max(1, options.updates // 2), "tasks": options.turns, "split": "test"}
    return spec


def folder_of(table: str, variant: str, seed: int, options: argparse.Namespace) -> Path:
    size = f"{options.updates} updates, {options.turns} turns{options.data and ', ' + Path(options.data).name}"
    return options.work / size / f"{table} {variant}, seed {seed}"


def run_of(table: str, variant: str, seed: int, options: argparse.Namespace) -> RunFolder:
    (folder,) = runs_below(folder_of(table, variant, seed, options))
    return folder


def stages_of(*job: Any) -> dict[int, dict[str, dict[str, float]]]:
    """The figures of each evaluation, by episode. Every seed is measured on the same ones."""
    stages = run_of(*job).stages()
    return {update: {each["episode"]: each["outcome"] for each in records} for update, records in stages.items()}


def players(table: str, variant: str, seed: int, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What the simple players get on the turns that the trainings are measured on."""
    about = run_of(table, variant, seed, options).about["spec"]
    environment = Proactive(ProactiveSettings.model_validate(about["environment"]["settings"]))
    tasks = environment.tasks(options.turns, seed, about["evaluation"]["split"])
    return {name: _figures(outcomes) for name, outcomes in outcomes_of_references(environment, tasks).items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    variants = list(TABLES[options.table])
    jobs = [(options.table, variant, seed, options) for seed in options.seeds for variant in variants]
    in_processes(partial(train, spec_of=spec_of, folder_of=folder_of), jobs, options.jobs)
    rows: dict[str, dict[str, Any]] = {}
    for variant in variants:
        several = [stages_of(options.table, variant, seed, options) for seed in options.seeds]
        rows.setdefault("before", figures_over_seeds([stages[0] for stages in several]))
        rows[variant] = figures_over_seeds([stages[max(stages)] for stages in several])
    chosen = {"table": options.table, "updates": options.updates, "turns": options.turns, "seeds": options.seeds}
    found = {"rows": rows, "players": players(options.table, variants[0], options.seeds[0], options)}
    return {**chosen, "seconds": round(time.perf_counter() - began, 1), **found}


def _figures(outcomes: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    found = {name: [one[name] for one in outcomes if one.get(name) is not None] for name in FIGURES}
    return {name: mean_of(values) for name, values in found.items() if values}


def figures_over_seeds(seeds: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    found = _figures(_over_seeds(seeds))
    # How ready actions are distributed over turns. Nothing where an episode is a whole dialogue.
    if ready := [one["ready"] for outcomes in seeds for one in outcomes.values() if "turns" not in one]:
        found["ready_at_most_one"] = sum(value <= 1 for value in ready) / len(ready)
    return found


def _over_seeds(seeds: Sequence[Mapping[str, Mapping[str, float]]]) -> list[dict[str, float]]:
    """The means over seeds of every episode: the same turns in three seeds are no more turns for an interval."""
    found = []
    for episode in seeds[0]:
        values: dict[str, list[float]] = {}
        for outcomes in seeds:
            for name, value in outcomes[episode].items():
                values.setdefault(name, []).append(value)
        found.append({name: statistics.fmean(several) for name, several in values.items()})
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path, "a folder for the trainings"),
        seeds=([7, 8, 9], "of the trainings"),
        updates=40,
        turns=(500, "to measure on"),
        jobs=(os.cpu_count() or 1, "trainings at once"),
        data=("", "dialogues with references in place of generated ones, such as those of ABCD"),
    )
    parser.add_argument("--table", choices=tuple(TABLES), default="rules")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json)


if __name__ == "__main__":
    main()
