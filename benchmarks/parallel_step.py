"""A learner's update with one and with two processes: seconds, and whether the result is the same.

Each process has one thread, except for the row "1 process, 2 threads". The repetitions alternate.

    python benchmarks/parallel_step.py
    python benchmarks/parallel_step.py --tasks 2 --repeats 1 --shape small --json

Required on two free cores, with eight trees or more: two processes are at least 1.5 times as fast as one with one
thread; after five updates the weights are within 1e-5.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, make_model, model_size, print_ratio, ratio_of, tell

SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "medium": model_size(hidden=256, inner=704, layers=6, heads=4, key_heads=2, vocab_size=2048)
    | {"max_position_embeddings": 4096},
}
AGAINST = "2 processes against 1"
REQUIRED = 1.5


def batch_of(folder: Path, tasks: int, samples: int, prompt: int, answer: int, seed: int) -> Any:
    import numpy

    from agentfw import Episode, Task, Turn
    from agentfw.learner import Batch
    from agentfw.optimizer import Advantage, Loss

    draw = numpy.random.default_rng(seed)
    episodes, advantages = [], []
    for task in range(tasks):
        shown = tuple(draw.integers(5, 50, prompt).tolist())
        for sample in range(samples):
            said = tuple(draw.integers(5, 50, answer).tolist())
            episode = Episode(Task(task, 7, sample=sample))
            episode.turns.append(Turn(0, 0, 1, prompt_ids=shown, token_ids=said, logprobs=(-3.0,) * answer))
            advantages.append(Advantage(episode.id, 0, float(draw.normal())))
            episodes.append(episode)
    return Batch(episodes, advantages, Loss(), folder)


def weights(adapter: Path) -> Any:
    from safetensors.numpy import load_file

    return load_file(adapter / "adapter_model.safetensors")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    import numpy
    import torch

    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    model = make_model(folder / "model", **SHAPES[options.shape])
    tokens = options.prompt + options.samples * options.answer
    settings = {"model": str(model), "learning_rate": 1e-3, "tokens": tokens}
    ways = {"1 process": (1, 1), "2 processes": (2, 2), "1 process, 2 threads": (1, 2)}
    learners = {}
    for name, (workers, threads) in ways.items():
        torch.set_num_threads(threads)
        learners[name] = LoraLearner(LoraSettings.model_validate({**settings, "workers": workers}))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    trees: dict[str, float] = {}
    last: dict[str, Any] = {}
    for number in range(options.repeats + 1):
        for name, (_, threads) in ways.items():
            torch.set_num_threads(threads)
            home = folder / f"{name} {number}"
            batch = batch_of(home, options.tasks, options.samples, options.prompt, options.answer, number)
            began = time.perf_counter()
            update = learners[name].update(batch)
            if number:  # the first one starts the workers
                seconds[name].append(time.perf_counter() - began)
            last[name], trees[name] = weights(update.adapter), update.metrics["tokens_computed"]
    for learner in learners.values():
        learner.close()
    torch.set_num_threads(1)
    gaps = [
        float(numpy.abs(last["2 processes"][key] - value).max() / max(1e-12, float(numpy.abs(value).max())))
        for key, value in last["1 process"].items()
    ]
    return {
        "trees": options.tasks,
        "tokens computed": trees["1 process"],
        "seconds": {name: round(statistics.median(each), 3) for name, each in seconds.items()},
        AGAINST: ratio_of(seconds["1 process"], seconds["2 processes"]),
        "updates": options.repeats + 1,
        "largest relative difference of weights": max(gaps),
        "load": os.getloadavg()[0],
        "required": REQUIRED,
    }


def show(result: dict[str, Any]) -> None:
    for name, seconds in result["seconds"].items():
        print(f"{name:22} {seconds:8.3f} s")
    print_ratio(AGAINST, result[AGAINST], REQUIRED)
    gap = result["largest relative difference of weights"]
    print(f"after {result['updates']} updates of {result['trees']} trees the weights differ by {gap:.1e}")
    print(f"load {result['load']:.1f}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, tasks=12, samples=4, prompt=300, answer=100, repeats=5)
    parser.add_argument("--shape", choices=SHAPES, default="medium")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        return tell(measure(options, Path(name)), options.json, show)


if __name__ == "__main__":
    main()
