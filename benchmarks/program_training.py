"""A foreign agent is trained: how often does it solve its tasks before and after `agentfw train program`?

    python benchmarks/program_training.py --work FOLDER
    python benchmarks/program_training.py --work FOLDER --seeds 7 8 9 --jobs 2 --json

The agent is foreign_agent.py: fifty lines on the official `openai` client, which don't import agentfw. Its tasks
are sums of five numbers with a budget of 16, 32 or 48 tokens; it is measured on sums that it was not trained on. The
model is tiny-sums. Required: solved at least twice as often, in each of three seeds, within 10 minutes of two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentfw import Host, Run
from agentfw.host import HostOptions
from agentfw.runs import in_processes, parse_spec
from agentfw_benchmarks import Options, print_aligned, shown, tell, triple_of

BUDGETS = (16, 32, 48)


def write_tasks(folder: Path, seed: int, counts: dict[str, int]) -> str:
    """Sums for each split, none of them in two."""
    draw, seen = random.Random(seed), set[tuple[int, ...]]()
    for split, count in counts.items():
        rows = []
        while len(rows) < count:
            terms = tuple(draw.randint(1, 9) for _ in range(5))
            if terms not in seen:
                seen.add(terms)
                question = f"What is {' + '.join(map(str, terms))}?"
                rows.append({"question": question, "budget": draw.choice(BUDGETS), "answer": str(sum(terms))})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "{split}.jsonl")


def train(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training. Its result has the share of solved tasks, one by one, before and after."""
    import torch

    torch.set_num_threads(1)
    folder = options.work / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": options.updates * options.tasks, "validation": options.problems}
    spec = {
        "environment": {
            "name": "program",
            "settings": {"function": "foreign_agent:solve", "tasks": write_tasks(folder, seed, counts)},
        },
        "policy": {"name": "tiny", "settings": {"model": "tiny-sums", "batch": 128}},
        "optimizer": {"name": "grpo", "settings": {"kl": 0.0, "aggregation": "token_mean", "skip": True}},
        "learner": {
            "name": "lora",
            "settings": {
                "model": "tiny-sums",
                "weights": "all",
                "learning_rate": 5e-4,
                "decay": options.updates,
                "tokens": 16384,
            },
        },
        "rewards": ["utility"],
        "updates": options.updates,
        "tasks": options.tasks,
        "samples": 8,
        "concurrency": 128,
        "seed": seed,
        "sampling": {"temperature": 1.0},
        "evaluation": {"every": options.updates, "tasks": options.problems, "sampling": {"temperature": 0.6}},
    }
    run = Run.create(parse_spec(spec), Host.load(HostOptions()), folder / "runs")
    began = time.monotonic()
    asyncio.run(run.execute())
    stages = run.folder.stages()
    solved = {number: [float(row["utility"]) for row in rows] for number, rows in stages.items()}
    return {
        "seed": seed,
        "before": solved[0],
        "after": solved[options.updates],
        "minutes": (time.monotonic() - began) / 60,
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began, rows = time.monotonic(), []
    for result in in_processes(partial(train, options=options), options.seeds, options.jobs):
        before, after = (triple_of(result[when]) for when in ("before", "after"))
        times = after[0] / before[0] if before[0] else None
        rows.append({**result, "before": before, "after": after, "times": times})
    return {"rows": rows, "minutes": (time.monotonic() - began) / 60, "processes": options.jobs}


def show(result: dict[str, Any]) -> None:
    rows = []
    for row in result["rows"]:
        times = "-" if row["times"] is None else f"{row['times']:.2f}"
        rows.append([str(row["seed"]), shown(row["before"]), shown(row["after"]), times, f"{row['minutes']:.1f}"])
    print_aligned(["seed", "solved before", "solved after", "times", "minutes"], rows)
    print(f"all seeds: {result['minutes']:.1f} minutes with {result['processes']} processes")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "folder of the trainings"),
        seeds=[7, 8, 9],
        updates=24,
        tasks=(8, "tasks of an update"),
        problems=(150, "tasks of an evaluation"),
        jobs=2,
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
