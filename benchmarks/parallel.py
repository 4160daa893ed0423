"""Two processes against one: tokens a second of a pool of replicas, and seconds of a learner's update.

    python benchmarks/parallel.py pool
    python benchmarks/parallel.py step
    python benchmarks/parallel.py step --tasks 2 --repeats 1 --shape small --json

Each process has one thread, except in the rows with two threads. The repetitions alternate, so that what else the
machine does hits all alike. Required on two free cores: two replicas sample 1.6 times as fast as one, and every answer
is that of one process to the last bit; with eight trees or more, two processes learn 1.5 times as fast as one, and
after five updates the weights are within 1e-5.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from agentfw import Generation, Message, Policy, Request, Task
from agentfw.request import Sampling
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, make_model, model_size, print_ratio, ratio_of, tell

SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "medium": model_size(hidden=256, inner=704, layers=6, heads=4, key_heads=2, vocab_size=2048)
    | {"max_position_embeddings": 4096},
}
WAYS: dict[str, dict[str, Any]] = {
    "1 replica": {"replicas": 1},
    "2 replicas": {"replicas": 2},
    "1 replica, 2 threads": {"replicas": 1, "cpus": 2},
}
AGAINST = "2 against 1"
REQUIRED = {"pool": 1.6, "step": 1.5}


def questions(count: int) -> list[Request]:
    return [
        Request(
            [Message("user", f"Meeting {number} and the thesis committee are at the same time. What now?")],
            task=Task(number, 7),
            sampling=Sampling(temperature=1.0, max_tokens=96, seed=7),
        )
        for number in range(count)
    ]


async def answers(policy: Policy, requests: Sequence[Request]) -> tuple[list[Generation], float]:
    began = time.perf_counter()
    found = await asyncio.gather(*map(policy.generate, requests))
    return list(found), sum(each.length for each in found) / (time.perf_counter() - began)


async def pool(options: argparse.Namespace) -> dict[str, Any]:
    host = fresh_host(builtins=True, strict=False)
    # As many at once as one process would have with half of the requests: the batches of all ways are alike.
    inner = {"name": "tiny", "settings": {"batch": 32}}
    alone = cast(Policy, host.create("policy", "tiny", {"batch": 32}))
    pools = {
        name: cast(Policy, host.create("policy", "pool", {"policy": inner, **settings}))
        for name, settings in WAYS.items()
    }
    requests = questions(options.requests)
    expected, _ = await answers(alone, requests)
    speeds: dict[str, list[float]] = {name: [] for name in pools}
    equal = True
    try:
        for pool in pools.values():
            await pool.generate(requests[0])
        for _ in range(options.repeats):
            for name, pool in pools.items():
                found, speed = await answers(pool, requests)
                speeds[name].append(speed)
                equal = equal and found == expected
    finally:
        for pool in pools.values():
            await pool.close()
    return {
        "tokens a second": {name: round(statistics.median(each)) for name, each in speeds.items()},
        AGAINST: ratio_of(speeds["2 replicas"], speeds["1 replica"]),
        "answers equal to one process": equal,
    }


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


def step(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
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
        "tokens computed": trees["1 process"],
        "seconds": {name: round(statistics.median(each), 3) for name, each in seconds.items()},
        AGAINST: ratio_of(seconds["1 process"], seconds["2 processes"]),
        "largest relative difference of weights": max(gaps),
    }


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if name == AGAINST:
            print_ratio(AGAINST, value, result["required"])
        else:
            print(f"{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, requests=256, tasks=12, samples=4, prompt=300, answer=100, repeats=5)
    parser.add_argument("what", choices=REQUIRED)
    parser.add_argument("--shape", choices=SHAPES, default="medium")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(pool(options)) if options.what == "pool" else step(options, Path(name))
    return tell({**found, "load": os.getloadavg()[0], "required": REQUIRED[options.what]}, options.json, show)


if __name__ == "__main__":
    main()
