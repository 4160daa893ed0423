"""A learner's update with one and with two processes: seconds, and whether the result is the same.

Each process has one thread, except for the row "1 process, 2 threads". The repetitions alternate.

    python tests/benchmarks/parallel_step.py
    python tests/benchmarks/parallel_step.py --tasks 2 --repeats 1 --shape small --json

Required on two free cores, with eight trees or more: two processes are at least 1.5 times as fast as one with one
thread; after five updates the weights are within 1e-5.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ratios import print_ratio, ratio_of

LABORATORY = Path(__file__).parents[1] / "site" / "agentfw_laboratory" / "models.py"
SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "medium": {
        "vocab_size": 2048,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    },
}
AGAINST = "2 processes against 1"
REQUIRED = 1.5


def batch_of(folder: Path, tasks: int, samples: int, prompt: int, answer: int, seed: int) -> Any:
    import numpy

    from agentfw import Advantage, Batch, Episode, Loss, Task, Turn

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

    from agentfw_plugins.learners.lora import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    spec = importlib.util.spec_from_file_location("parallel_step_models", LABORATORY)
    assert spec is not None
    assert spec.loader is not None
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    model = folder / "model"
    models.make_model(model, **SHAPES[options.shape])
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


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=300)
    parser.add_argument("--answer", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shape", choices=SHAPES, default="medium")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        result = measure(options, Path(name))
    if options.json:
        print(json.dumps(result))
        return result
    for name, seconds in result["seconds"].items():
        print(f"{name:22} {seconds:8.3f} s")
    print_ratio(AGAINST, result[AGAINST], REQUIRED)
    gap = result["largest relative difference of weights"]
    print(f"after {result['updates']} updates of {result['trees']} trees the weights differ by {gap:.1e}")
    print(f"load {result['load']:.1f}")
    return result


if __name__ == "__main__":
    main()
