"""`agentfw train calendar` with one thing changed: other optimizers, and weights that don't change over the rounds.

    python benchmarks/calendar_variants.py --work FOLDER
    python benchmarks/calendar_variants.py --work FOLDER --seeds 1 --variants "PEARL" "GRPO" "GSPO"

PEARL is the spec as it ships: round-wise advantages, and a curriculum that pays for the hub in early rounds and for the
ranking in late ones. `no curriculum` pays for both with the mean of the schedule, 0.25, in every round. The trainings
are shorter than the shipped one, so that all of them fit into an hour. Held-out users are those of the validation
split. Differences are paired by user and seed, and users of several seeds are averaged first.

What is in FOLDER is not done again: a command that was broken off goes on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host
from agentfw.runs import apply_assignments, in_processes
from agentfw_benchmarks import Options, difference_of, mean_of, print_markdown, shown, tell
from agentfw_benchmarks.runs import played, runs_below, spec_named

FIGURES = ("error", "hub")
"""The share of wrong rounds, and of rounds in which the hub was used well."""
_FLAT = {"calendar_ranking": 0.25, "calendar_hub": 0.25}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "PEARL": {},
    "no curriculum": {"reward": {name: {"weight": weight} for name, weight in _FLAT.items()}},
    "GRPO": {"optimizer": "grpo"},
    "Dr. GRPO": {"optimizer": "dr_grpo"},
    "DAPO": {"optimizer": "dapo"},
    "GSPO": {"optimizer": "gspo"},
    "GiGPO": {"optimizer": "gigpo"},
    "turn-wise": {"optimizer": "turnwise"},
}
Users = dict[str, dict[str, float]]
"""The figures of each held-out user."""


def folder_of(variant: str, seed: int, options: argparse.Namespace) -> Path:
    size = f"{options.updates} updates, {options.rounds} rounds, {options.users} users"
    return Path(options.work) / size / f"{variant}, seed {seed}"


def spec_of(variant: str, seed: int, options: argparse.Namespace, host: Host) -> dict[str, Any]:
    """The spec that ships in this size, with what the variant changes."""
    size = {"environment": {"rounds": options.rounds}, "seed": seed, "updates": options.updates}
    measured = {"evaluation": {"every": options.updates, "tasks": options.users}}
    spec = apply_assignments(spec_named(host, "train-calendar"), size | measured)
    return apply_assignments(spec, VARIANTS[variant])


def train(job: tuple[str, int, argparse.Namespace]) -> None:
    """One training, from its beginning or from where it was broken off."""
    import torch

    torch.set_num_threads(1)
    variant, seed, options = job
    host = Host.load()
    played(spec_of(variant, seed, options, host), host, folder_of(variant, seed, options))


def users_of(variant: str, options: argparse.Namespace) -> tuple[Users, Users]:
    """What the held-out users had before and after, as means over seeds."""
    before, after = [], []
    for seed in options.seeds:
        (folder,) = runs_below(folder_of(variant, seed, options))
        stages = folder.stages()
        before.append({record["user"]: _figures(record) for record in stages[min(stages)]})
        after.append({record["user"]: _figures(record) for record in stages[max(stages)]})
    return _over_seeds(before), _over_seeds(after)


def _figures(record: Mapping[str, Any]) -> dict[str, float]:
    hub = [value for name, _, value, *_ in record["scores"] if name == "calendar_hub"]
    return {"error": record["outcome"]["error"], "hub": fmean(hub)}


def _over_seeds(seeds: list[Users]) -> Users:
    return {user: {name: fmean(each[user][name] for each in seeds) for name in FIGURES} for user in seeds[0]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    variants = options.variants or list(VARIANTS)
    in_processes(train, [(variant, seed, options) for seed in options.seeds for variant in variants], options.jobs)
    rows: dict[str, dict[str, Any]] = {}
    first: Users = {}
    for variant in variants:
        before, after = users_of(variant, options)
        rows.setdefault("before", {name: mean_of([one[name] for one in before.values()]) for name in FIGURES})
        row: dict[str, Any] = {name: mean_of([one[name] for one in after.values()]) for name in FIGURES}
        if first:
            row["beside the first"] = {
                name: difference_of(*({user: one[name] for user, one in each.items()} for each in (after, first)))
                for name in FIGURES
            }
        rows[variant], first = row, first or after
    return {"seeds": options.seeds, "updates": options.updates, "rounds": options.rounds, "rows": rows}


def show(result: dict[str, Any]) -> None:
    rows = []
    for variant, row in result["rows"].items():
        beside = row.get("beside the first", {})
        cells = [shown(row[name]) for name in FIGURES]
        rows.append([variant, *cells, *(shown(beside[name], "+.3f") if beside else "" for name in FIGURES)])
    print_markdown(["", "error", "rounds with the hub", "error, to the first", "hub, to the first"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path, "directory for the trainings"),
        seeds=[1, 2, 3],
        updates=3,
        rounds=10,
        users=(16, "held-out ones"),
        jobs=(1, "trainings at once"),
    )
    parser.add_argument("--variants", nargs="+", choices=tuple(VARIANTS), help="default: all")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
