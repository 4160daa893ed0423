"""PARPO beside GRPO with a pretrained model: 24 users who come back, and rate on scales that differ by up to ten.

    python benchmarks/parpo_pretrained.py --work FOLDER
    python benchmarks/parpo_pretrained.py --work FOLDER --seeds 8 --variants PARPO "no anchor" --model MODEL --json

An answer is worth 1 if it names what was asked about, for every user (the base track), and 1 on its user's scale if it
is as short or as long as this user likes (the personal track; returning_agent.py). GRPO gets the sum of both. Measured
are held-out questions of the same users, each at temperature 1, with intervals over the users. `anchored` is the share
of groups that were judged by their user's anchor.

What is in FOLDER is not done again: a command that was broken off goes on. The model is that of real_model.py.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from real_circle import ASKED, THINGS
from real_model import spec_of

from agentfw_benchmarks import Options, difference_of, mean_of, print_markdown, shown, tell
from agentfw_benchmarks.runs import played

AGENT = Path(__file__).with_name("returning_agent.py")
FIGURES = ("named", "suits")
LARGEST_SCALE = 10.0
VARIANTS: Mapping[str, Any] = {
    "GRPO": {"name": "grpo", "settings": {"kl": 0.0}},
    "PARPO": {"name": "parpo", "settings": {"kl": 0.0}},
    "no anchor": {"name": "parpo", "settings": {"kl": 0.0, "baseline": "group", "scale": "group"}},
}
Users = dict[str, dict[str, float]]
"""The figures of each user."""


def write_tasks(folder: Path, seed: int, users: int, questions: int) -> str:
    """For each user some questions about animals to train on, and some about others to measure."""
    draw = random.Random(seed)
    things = draw.sample(THINGS, len(THINGS))
    middle = len(things) // 2
    parts = {"train": things[:middle], "validation": things[middle:]}
    scales = {f"user-{number}": math.exp(draw.uniform(0, math.log(LARGEST_SCALE))) for number in range(users)}
    folder.mkdir(parents=True, exist_ok=True)
    for split, some in parts.items():
        rows = []
        for number, (user, scale) in enumerate(scales.items()):
            own = draw.sample([(pattern, thing) for thing in some for pattern in ASKED], questions)
            rows += [
                {
                    "user": user,
                    "question": pattern.format(thing),
                    "thing": thing,
                    "taste": ("short", "long")[number % 2],
                    "scale": scale,
                }
                for pattern, thing in own
            ]
        draw.shuffle(rows)
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(folder / "{split}.jsonl")


def train(variant: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training: the figures of each user before and after it, and what the optimizer tells of its anchors."""
    from agentfw import Host
    from agentfw.host import HostOptions

    folder = options.work / f"{variant}, seed {seed}"
    tasks = write_tasks(folder, seed, options.users, options.questions)
    spec = spec_of("returning_agent:solve", tasks, options.users * options.questions, seed, options)
    spec |= {"optimizer": VARIANTS[variant], "rewards": ["utility", str(AGENT)]}
    run = played(spec, Host.load(HostOptions()), folder / "runs")
    stages = run.stages()
    lines = [line["optimizer"] for line in run.updates()]
    return {
        "before": users_of(stages[0]),
        "after": users_of(stages[options.updates]),
        "anchored": fmean(line.get("anchored", 0.0) for line in lines),
    }


def users_of(rows: Sequence[Mapping[str, Any]]) -> Users:
    found: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        found.setdefault(row["user"], []).append(row["outcome"])
    return {
        user: {name: fmean(one.get(name, 0.0) for one in outcomes) for name in FIGURES}
        for user, outcomes in sorted(found.items())
    }


def both(users: Users) -> dict[str, float]:
    """Of each user, the mean of what is measured, whatever the user's scale."""
    return {user: fmean(figures.values()) for user, figures in users.items()}


def of_seeds(found: Mapping[int, Users]) -> Users:
    """Users of several seeds are different users."""
    return {f"{seed}/{user}": figures for seed, users in found.items() for user, figures in users.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    trained = {variant: {seed: train(variant, seed, options) for seed in options.seeds} for variant in options.variants}
    sides = {
        variant: of_seeds({seed: one["after"] for seed, one in found.items()}) for variant, found in trained.items()
    }
    first = options.variants[0]
    sides = {"before": of_seeds({seed: one["before"] for seed, one in trained[first].items()}), **sides}
    return {
        "seeds": options.seeds,
        "figures": {
            side: {name: mean_of([user[name] for user in users.values()]) for name in FIGURES}
            | {"both": mean_of(list(both(users).values()))}
            for side, users in sides.items()
        },
        "against the first": {
            side: difference_of(both(users), both(sides[first]))
            for side, users in sides.items()
            if side not in ("before", first)
        },
        "anchored": {variant: fmean(one["anchored"] for one in found.values()) for variant, found in trained.items()},
    }


def show(found: Mapping[str, Any]) -> None:
    rows = []
    for side, figures in found["figures"].items():
        apart, anchored = found["against the first"].get(side), found["anchored"].get(side)
        rows.append(
            [
                side,
                *(shown(figures[name]) for name in (*FIGURES, "both")),
                "" if apart is None else f"{shown(apart)}, p = {apart['p']:.2g}",
                "" if anchored is None else f"{anchored:.2f}",
            ]
        )
    first = next(side for side in found["figures"] if side != "before")
    print_markdown(["", "names it", "suits the user", "both", f"both, beside {first}", "anchored"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path, "folder of the trainings"),
        variants=(["GRPO", "PARPO"], f"of {', '.join(VARIANTS)}"),
        seeds=[7],
        users=(24, "users"),
        questions=(4, "questions of a user in each split"),
        updates=20,
        tasks=(24, "tasks of an update"),
        samples=(8, "samples of a task"),
        rate=(2e-4, "learning rate"),
        precision=("fp32", "of the model"),
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
