"""A pretrained language model learns the calendar with a StrategyHub: from a teacher first, and then from rewards.

    python benchmarks/calendar_with_hub.py --work FOLDER
    python benchmarks/calendar_with_hub.py --work FOLDER --seed 8 --model path/to/model --json

The model is that of real_model.py: a base model, which makes no calls at first. It learns to by imitation of
noting_teacher.py, on users of the training split: first of whole episodes, then of many beginnings. From there it is
trained as PEARL is, with round-wise advantages and the rewards of `agentfw train calendar`, on other such users. All
are measured with the same held-out users. `chance` is the error of drawing a letter.

What is in FOLDER is not done again: a command that was broken off goes on, also with more `--updates`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from noting_steps import STEPS, steps_of
from real_model import folder_of

from agentfw import Host
from agentfw.host import HostOptions
from agentfw.runs import RunFolder, policy_of_run
from agentfw_benchmarks import Figure, Options, difference_of, mean_of, print_markdown, shown, tell
from agentfw_benchmarks.runs import played, spec_named

FIGURES = ("error", "invalid", "hub")
"""Wrong rounds, rounds without a valid decision, and rounds in which the hub was updated, as shares."""
HERE = Path(__file__).parent
SAMPLING = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 300}
"""That of the paper's evaluation. The teacher's longest answers have 276 tokens."""
TAUGHT = {"teacher": str(HERE / "noting_teacher.py"), "optimizer": "imitation"}
Users = dict[str, dict[str, float]]
"""The figures of each held-out user."""


def spec_of(host: Host, rounds: int, options: argparse.Namespace) -> dict[str, Any]:
    """What all stages have in common: the shipped training's memory and rewards, with fewer events and turns."""
    settings = {"rounds": rounds, "conflicts": options.conflicts, "turns": 1}
    policy = {"model": str(folder_of(options.model)), "template": str(HERE / "base_model_turns.jinja")}
    shipped = ("memories", "interface", "window", "recall", "rewards")
    return {
        **{key: spec_named(host, "train-calendar")[key] for key in shipped},
        "environment": {"name": "calendar", "settings": settings},
        "policy": {"name": "transformers", "settings": {**policy, "precision": options.precision}},
        "seed": options.seed,
        "sampling": SAMPLING,
        "concurrency": 16,
    }


def learning(learner: str, rate: float, minibatches: int, updates: int, options: argparse.Namespace) -> dict[str, Any]:
    """What both trainings have in common. They are measured by `plays`, so their own evaluations are cut short."""
    settings = {"precision": options.precision, "rank": 16, "alpha": 32.0, "learning_rate": rate}
    return {
        "learner": {"name": learner, "settings": settings | {"minibatches": minibatches}},
        "updates": updates,
        "evaluation": {"every": updates, "tasks": 1, "sampling": SAMPLING | {"max_tokens": 4}},
    }


def imitating(host: Host, options: argparse.Namespace) -> RunFolder:
    """Learns from the teacher's episodes, each of which is seen once."""
    spec = spec_of(host, options.rounds, options)
    spec |= learning("sft", options.imitation_rate, options.shown, options.imitations, options) | TAUGHT
    spec |= {"tasks": options.shown, "samples": 1}
    return played(spec, host, options.work / f"imitation, seed {options.seed}")


def beginning(host: Host, options: argparse.Namespace, start: RunFolder) -> RunFolder:
    """Goes on with the first rounds of many users: answers that can't be copied from those before."""
    spec = spec_of(host, min(14, options.rounds), options)
    spec |= learning("sft", options.imitation_rate, options.beginnings, options.begun, options) | TAUGHT
    spec |= {"policy": policy_of_run(host, start.id, start.path.parent), "tasks": options.beginnings, "samples": 1}
    spec["environment"]["settings"]["data_seed"] = 9  # other users
    return played(spec, host, options.work / f"beginnings, seed {options.seed}")


def rewarded(host: Host, options: argparse.Namespace, start: RunFolder) -> RunFolder:
    """Goes on from there with round-wise advantages."""
    spec = spec_of(host, options.trained_rounds, options)
    # One step an update: with a step for each user's few episodes, answers got worse.
    spec |= learning("lora", options.rate, 1, options.updates, options)
    spec |= {"policy": policy_of_run(host, start.id, start.path.parent), "optimizer": "roundwise"}
    # The learner needs the probabilities that tokens were sampled with, so none are left out.
    sampling = SAMPLING | spec_named(host, "train-calendar")["sampling"] | {"top_p": 1.0}
    spec |= {"tasks": options.tasks, "samples": options.samples, "sampling": sampling}
    spec["environment"]["settings"]["data_seed"] = 8  # other users
    return played(spec, host, options.work / f"rewards, seed {options.seed}")


def plays(host: Host, options: argparse.Namespace, policy: Mapping[str, Any] | str, stage: str) -> RunFolder:
    """The held-out users with a policy: another folder for each number of updates, as trainings may go on."""
    spec = spec_of(host, options.rounds, options)
    spec |= {"policy": policy or spec["policy"], "episodes": options.users, "split": options.split}
    return played(spec, host, options.work / f"{options.split} played by {stage}, seed {options.seed}")


def users_of(rows: Sequence[Mapping[str, Any]]) -> Users:
    return {
        row["user"]: {
            "error": row["outcome"]["error"],
            "invalid": row["outcome"]["invalid"],
            "hub": fmean(value for name, _, value, *_ in row["scores"] if name == "calendar_hub"),
        }
        for row in rows
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    host = Host.load(HostOptions())
    whole = imitating(host, options)
    taught = beginning(host, options, whole)
    both = rewarded(host, options, taught)
    imitation = f"imitation, {options.imitations + options.begun} updates"
    rewards = f"then rewards, {options.updates} updates"
    policies = {
        "before": "",
        imitation: policy_of_run(host, taught.id, taught.path.parent),
        rewards: policy_of_run(host, both.id, both.path.parent),
        "the teacher": TAUGHT["teacher"],
    }
    sides: dict[str, Users] = {}
    steps: dict[str, dict[str, Figure]] = {}
    for stage, policy in policies.items():
        folder = plays(host, options, policy, stage)
        (rows,) = folder.stages().values()
        sides[stage], steps[stage] = users_of(rows), steps_of(folder.episodes())
    errors = {stage: {user: row["error"] for user, row in users.items()} for stage, users in sides.items()}
    return {
        "chance": 1 - 1 / options.conflicts,
        "minutes": {"imitation": minutes_of(whole) + minutes_of(taught), "rewards": minutes_of(both)},
        "figures": {
            stage: {name: mean_of([user[name] for user in users.values()]) for name in FIGURES}
            for stage, users in sides.items()
        },
        "steps": steps,
        "rewards beside imitation": difference_of(errors[rewards], errors[imitation]),
        "rewards beside the teacher": difference_of(errors[rewards], errors["the teacher"]),
    }


def minutes_of(folder: RunFolder) -> float:
    """What the updates took: episodes, learning and publishing, also of a training that was broken off."""
    return sum(sum(line["seconds"].values()) for line in folder.updates()) / 60


def show(found: Mapping[str, Any]) -> None:
    rows = [[side, *(shown(figures[name]) for name in FIGURES)] for side, figures in found["figures"].items()]
    print_markdown(["", "error", "invalid", "rounds with the hub"], rows)
    print(f"chance {found['chance']:.2f}\n")
    sides = found["steps"]
    rows = [[step, *(shown(side[step]) if step in side else "" for side in sides.values())] for step in STEPS]
    print_markdown(["right steps", *sides], rows)
    for beside in ("rewards beside imitation", "rewards beside the teacher"):
        print(f"error, {beside}: {shown(found[beside], '+.3f')}")
    print("   ".join(f"{part}: {minutes:.0f} minutes of training" for part, minutes in found["minutes"].items()))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path, "folder of the trainings"),
        seed=7,
        rounds=20,
        trained_rounds=(10, "rounds of an episode that is trained by rewards"),
        conflicts=(3, "events of a round"),
        users=(8, "held-out ones"),
        split=("test", "of the held-out users; the teacher's form was chosen on those of validation"),
        imitations=(2, "updates by imitation of whole episodes"),
        shown=(8, "the teacher's episodes of such an update"),
        begun=(8, "updates by imitation of first rounds"),
        beginnings=(8, "users of such an update"),
        imitation_rate=(7e-4, "learning rate of imitation"),
        updates=(3, "updates by rewards"),
        tasks=(4, "users of such an update"),
        samples=(4, "episodes of each"),
        rate=(1e-4, "learning rate of these updates"),
        precision=("fp32", "of the model"),
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
