"""A foreign agent is trained: how often does it solve its tasks before and after `agentfw train program`?

    python tests/benchmarks/program_training.py --work FOLDER
    python tests/benchmarks/program_training.py --work FOLDER --seeds 7 8 9 --jobs 2 --json

The agent is foreign_agent.py: some sixty lines on the official `openai` client, which don't import agentfw. Its tasks
are sums of five numbers with a budget of 16, 32 or 48 tokens; it is measured on sums that it was not trained on. The
model is tiny-sums. Required: solved at least twice as often, in each of three seeds, within 10 minutes of two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentfw import Host, HostOptions, Run
from agentfw.runs import parse_spec
from agentfw.statistics import bootstrap

HERE = Path(__file__).parent
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
    sys.path.insert(0, str(HERE))
    folder = Path(options.work) / f"seed-{seed}"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="Folder of the trainings.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--tasks", type=int, default=8, help="Tasks of an update.")
    parser.add_argument("--problems", type=int, default=150, help="Tasks of an evaluation.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(train, options.seeds, [options] * len(options.seeds)))
    rows = []
    for result in results:
        before, after = bootstrap(result["before"]), bootstrap(result["after"])
        rows.append(
            {
                "seed": result["seed"],
                "before": [before.estimate, before.low, before.high],
                "after": [after.estimate, after.low, after.high],
                "times": after.estimate / before.estimate if before.estimate else None,
                "minutes": result["minutes"],
            }
        )
    minutes = (time.monotonic() - began) / 60
    if options.json:
        print(json.dumps({"rows": rows, "minutes": minutes}, indent=2))
        return
    print("seed  solved before            solved after             times  minutes")
    for row in rows:
        shares = [f"{each[0]:.3f} ({each[1]:.3f} to {each[2]:.3f})" for each in (row["before"], row["after"])]
        times = "-" if row["times"] is None else f"{row['times']:.2f}"
        print(f"{row['seed']:>4}  {shares[0]:<23}  {shares[1]:<23}  {times:>5}  {row['minutes']:.1f}")
    print(f"all seeds: {minutes:.1f} minutes with {options.jobs} processes")


if __name__ == "__main__":
    main()
