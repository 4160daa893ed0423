"""What scoring costs: pairs of user and action with given action embeddings, on one core, and the memory it takes.

    python benchmarks/preference_scoring.py
    python benchmarks/preference_scoring.py --sizes 1000 2000 --pairs 100 --json

All of scoring is timed: the nearest items of each action, its position in the collaborative space, both branches, and
the standardised reward. A size is the number of users and of items. Times are CPU seconds of one thread, which other
programs on the machine hardly affect. Memory is the peak of what scoring allocates besides the model, and the size of
the model's own arrays. The target at 2,000 and more is under 50 milliseconds for 1,000 pairs, and memory that grows
with users + items.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, print_aligned, spread, spread_cells, tell, timed
from agentfw_rewardmodels import PreferenceModel, PreferenceSettings
from agentfw_rewardmodels.preference.model_state import ModelState
from agentfw_rewardmodels.preference.training import shapes_of

TEXT, DIMENSIONS, LIKES = 256, 64, 20


def made(size: int, seed: int) -> PreferenceModel:
    """A model with random weights: what they say costs nothing, how many there are does."""
    generator = np.random.default_rng([seed, size])
    shapes = shapes_of(size, size, DIMENSIONS, TEXT)
    weights = {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    texts = generator.normal(size=(size, TEXT)).astype(np.float32)
    state = ModelState(
        settings=PreferenceSettings(dimensions=DIMENSIONS),
        users=tuple(f"u{n}" for n in range(size)),
        items=tuple(f"i{n}" for n in range(size)),
        titles={},
        view_names=(),
        likes=np.stack([np.repeat(np.arange(size), LIKES), generator.integers(0, size, size * LIKES)]),
        own_users=weights.pop("users"),
        own_items=weights.pop("items"),
        by_profile=np.zeros((size, 3, DIMENSIONS), np.float32),
        texts=texts / np.linalg.norm(texts, axis=1, keepdims=True),
        weights=weights,
        facts={},
        history=(),
    )
    return PreferenceModel(state, None, ("vectors", ""))


def measure(sizes: Sequence[int], pairs: int, repeats: int, seed: int) -> dict[str, Any]:
    table = []
    for size in sizes:
        model = made(size, seed)
        generator = np.random.default_rng([seed, 1])
        users = [f"u{n}" for n in generator.integers(0, size, pairs)]
        vectors = generator.normal(size=(pairs, TEXT)).astype(np.float32)
        model.score_vectors(users, vectors)
        seconds = [timed(model.score_vectors, users, vectors, clock=time.process_time) for _ in range(repeats)]
        tracemalloc.start()
        model.score_vectors(users, vectors)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        table.append({"size": size, **spread(seconds), "megabytes": peak / 1e6})
    return {"pairs": pairs, "repeats": repeats, "seed": seed, "sizes": table}


def show(result: dict[str, Any]) -> None:
    print(f"{result['pairs']:,} pairs, {result['repeats']} repetitions, one thread")
    rows = [
        [f"{row['size']:,} users and items", *spread_cells(row, ".1f", 1000), f"{row['megabytes']:.1f}"]
        for row in result["sizes"]
    ]
    print_aligned(["CPU milliseconds", "min", "median", "max", "megabytes"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    sizes = [1000, 2000, 5000, 10_000, 20_000]
    options = Options(__doc__, sizes=sizes, pairs=1000, repeats=9, seed=7).parse_args(arguments)
    return tell(measure(options.sizes, options.pairs, options.repeats, options.seed), options.json, show)


if __name__ == "__main__":
    main()
