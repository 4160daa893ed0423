"""A pretrained language model learns the calendar with a StrategyHub: from a teacher first, and then from rewards.

    python benchmarks/calendar_with_hub.py --work FOLDER
    python benchmarks/calendar_with_hub.py --work FOLDER --seed 8 --model path/to/model --json

The model is that of real_model.py: a base model, which makes no calls at first. It learns to by imitation of
noting_teacher.py, on users of the training split. From there it is trained as PEARL is, with round-wise advantages and
the rewards of `agentfw train calendar`, on other such users. Held-out users are those of the validation split, who
stay the same. `chance` is the error of drawing a letter.

What is in FOLDER is not done again: a command that was broken off goes on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from real_model import folder_of

from agentfw import Host
from agentfw.host import HostOptions
from agentfw.runs import RunFolder, policy_of_run
from agentfw_benchmarks import Options, difference_of, mean_of, print_markdown, shown, tell
from agentfw_benchmarks.runs import played, spec_named

FIGURES = ("error", "invalid", "hub")
"""Wrong rounds, rounds without a valid decision, and rounds in which the hub was updated, as shares."""
HERE = Path(__file__).parent
EVALUATED = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 220}
"""The sampling of the paper's evaluation. The teacher's longest answers have 190 tokens."""
Users = dict[str, dict[str, float]]
"""The figures of each held-out user."""


def spec_of(host: Host, options: argparse.Namespace) -> dict[str, Any]:
    """What all stages have in common: the shipped training's world and rewards, with fewer events and turns."""
    settings = {"rounds": options.rounds, "conflicts": options.conflicts, "turns": 1}
    policy = {"model": str(folder_of(options.model)), "template": str(HERE / "base_model_turns.jinja")}
    return {
        **{key: spec_named(host, "train-calendar")[key] for key in ("memories", "interface", "window", "recall")},
        "rewards": spec_named(host, "train-calendar")["rewards"],
        "environment": {"name": "calendar", "settings": settings},
        "policy": {"name": "transformers", "settings": {**policy, "precision": options.precision}},
        "seed": options.seed,
        "sampling": EVALUATED,
        "concurrency": 8,
    }


def adapter(options: argparse.Namespace, rate: float, **settings: Any) -> dict[str, Any]:
    return {"precision": options.precision, "rank": 16, "alpha": 32.0, "learning_rate": rate, **settings}


def untrained(host: Host, options: argparse.Namespace) -> RunFolder:
    """The base model, with the held-out users."""
    spec = spec_of(host, options) | {"episodes": options.users, "split": "validation"}
    return played(spec, host, options.work / f"untrained, seed {options.seed}")


def imitating(host: Host, options: argparse.Namespace) -> RunFolder:
    """Learns from the teacher's episodes, each of which is seen once."""
    training = {
        "teacher": str(HERE / "noting_teacher.py"),
        "optimizer": "imitation",
        "learner": {"name": "sft", "settings": adapter(options, options.imitation_rate, minibatches=options.shown)},
        "updates": options.imitations,
        "tasks": options.shown,
        "samples": 1,
        # What comes of it is measured where the rewards begin.
        "evaluation": {"every": options.imitations, "tasks": 1, "sampling": EVALUATED | {"max_tokens": 4}},
    }
    return played(spec_of(host, options) | training, host, options.work / f"imitation, seed {options.seed}")


def rewarded(host: Host, options: argparse.Namespace, start: RunFolder) -> RunFolder:
    """Goes on from there with round-wise advantages, and is measured before and after it."""
    training = {
        "policy": policy_of_run(host, start.id, start.path.parent),
        "optimizer": "roundwise",
        "learner": {"name": "lora", "settings": adapter(options, options.rate, minibatches=options.tasks)},
        "sampling": EVALUATED | {"temperature": 0.7, "top_p": 1.0},
        "updates": options.updates,
        "tasks": options.tasks,
        "samples": options.samples,
        "evaluation": {"every": options.updates, "tasks": options.users, "sampling": EVALUATED},
        # Other users than the teacher's: tasks are drawn by the seed.
        "seed": options.seed + 1000,
    }
    return played(spec_of(host, options) | training, host, options.work / f"rewards, seed {options.seed}")


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
    began = time.monotonic()
    first = imitating(host, options)
    minutes = {"imitation": (time.monotonic() - began) / 60}
    began = time.monotonic()
    stages = rewarded(host, options, first).stages()
    minutes["rewards, measured twice"] = (time.monotonic() - began) / 60
    (before,) = untrained(host, options).stages().values()
    sides = {
        "before": users_of(before),
        "after imitation": users_of(stages[0]),
        "after both": users_of(stages[max(stages)]),
    }
    ends = [{user: row["error"] for user, row in sides[side].items()} for side in ("after both", "after imitation")]
    return {
        "chance": 1 - 1 / options.conflicts,
        "minutes": minutes,
        "figures": {
            side: {name: mean_of([user[name] for user in users.values()]) for name in FIGURES}
            for side, users in sides.items()
        },
        "rewards beside imitation": difference_of(*ends),
    }


def show(found: Mapping[str, Any]) -> None:
    rows = [[side, *(shown(figures[name]) for name in FIGURES)] for side, figures in found["figures"].items()]
    print_markdown(["", "error", "invalid", "rounds with the hub"], rows)
    print(f"chance {found['chance']:.2f}   rewards beside imitation {shown(found['rewards beside imitation'], '+.3f')}")
    print("   ".join(f"{part}: {minutes:.0f} minutes" for part, minutes in found["minutes"].items()))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path, "folder of the trainings"),
        seed=7,
        rounds=20,
        conflicts=(3, "events of a round"),
        users=(8, "held-out ones"),
        imitations=(2, "updates by imitation"),
        shown=(8, "the teacher's episodes of an update"),
        imitation_rate=(7e-4, "learning rate of imitation"),
        updates=(4, "updates by rewards"),
        tasks=(2, "users of such an update"),
        samples=(4, "episodes of each"),
        rate=(1e-4, "learning rate of these updates"),
        precision=("fp32", "of the model"),
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
