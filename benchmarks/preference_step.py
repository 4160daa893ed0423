"""A training step on a large graph: PyTorch Geometric's LightGCN with `edge_index`, and the preference model's.

    python tests/benchmarks/preference_step.py
    python tests/benchmarks/preference_step.py --users 1000 --items 1000 --likes 20000 --json

| row | what is timed |
| --- | --- |
| edge_index | PyTorch Geometric: propagation, BPR, backward, Adam |
| same objective | the same with the library's propagation |
| bare propagation | only the products with a CSR matrix, forward and backward, as torch offers them |
| whole objective | a step of the preference model with all its losses |
| all users compared | the same with the contrastive losses of all users of the batch (`contrast_users=0`) |
| without contrasts | the same without contrastive losses |

Both sides start from the same embeddings and the same batch. Their outputs, losses and gradients are compared before
anything is timed. Times are CPU seconds of one thread, which other programs on the machine hardly affect. The target is
the same objective at least 15 times as fast as `edge_index`, and at most 1.2 times the bare propagation.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.nn.models import LightGCN

from agentfw_rewardmodels import PreferenceSettings
from agentfw_rewardmodels.preference.batches import Drawer
from agentfw_rewardmodels.preference.dataset import Dataset
from agentfw_rewardmodels.preference.losses import ranking
from agentfw_rewardmodels.preference.propagation import Adjacency, Matrix, propagate
from agentfw_rewardmodels.preference.training import Trainer

LAYERS, DIMENSIONS, BATCH = 3, 64, 2048
FASTER, DEARER = 15.0, 1.2


def dataset(users: int, items: int, likes: int, seed: int) -> Dataset:
    generator = np.random.default_rng(seed)
    keys = generator.choice(users * items, likes, replace=False)
    names = tuple(f"u{n}" for n in range(users)), tuple(f"i{n}" for n in range(items))
    nothing = np.zeros((users, 0, 0), np.float32)
    return Dataset(*names, np.stack([keys // items, keys % items]), np.zeros((items, 0), np.float32), nothing, (), {})


def sides(data: Dataset, seed: int) -> dict[str, Callable[[], Any]]:
    users, items = len(data.users), len(data.items)
    graph = Adjacency.of(data.likes, users, items)
    settings = PreferenceSettings(layers=LAYERS, dimensions=DIMENSIONS, batch=BATCH, device="cpu", seed=seed)
    places = next(Drawer(data.likes, users, items, BATCH, settings.contrast_users, seed).epoch(1))
    likes = torch.from_numpy(data.likes)
    edges = torch.cat([likes + torch.tensor([[0], [users]]), likes.flip(0) + torch.tensor([[users], [0]])], 1)
    user = torch.from_numpy(places.users[places.user])
    item = torch.from_numpy(places.items[places.item] + users)
    other = torch.from_numpy(places.others + users)

    theirs = LightGCN(users + items, DIMENSIONS, LAYERS)
    with torch.no_grad():
        theirs.embedding.weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(seed))
    their_optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-3, fused=True)
    ours = torch.nn.Parameter(theirs.embedding.weight.detach().clone())
    our_optimizer = torch.optim.Adam([ours], lr=1e-3, fused=True)
    matrix = Matrix(graph, "cpu")
    bare, ones = ours.detach().clone(), torch.ones_like(ours)

    def their_loss() -> Any:
        out = theirs.get_embedding(edges)
        ranks = (out[user] * out[item]).sum(-1), (out[user] * out[other]).sum(-1)
        return theirs.recommendation_loss(*ranks, lambda_reg=0.0)

    def our_loss() -> Any:
        out = propagate(ours, matrix, LAYERS)
        rows = out.index_select(0, torch.cat([user, item, other])).split(len(user))
        return ranking(*rows)

    def checked() -> None:
        torch.testing.assert_close(propagate(ours, matrix, LAYERS), theirs.get_embedding(edges), rtol=1e-4, atol=1e-5)
        losses = their_loss(), our_loss()
        # Theirs divides by the number of pairs, as ours does.
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-6)
        for loss in losses:
            loss.backward()
        torch.testing.assert_close(theirs.embedding.weight.grad, ours.grad, rtol=1e-3, atol=1e-7)

    def step(loss: Callable[[], Any], optimizer: Any) -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    def products() -> None:
        for rows in (bare, ones):
            layer = rows
            for _ in range(LAYERS):
                layer = matrix.forward @ layer

    def whole_step(changed: PreferenceSettings) -> Callable[[], Any]:
        trainer = Trainer(data, changed, {})
        batch = next(trainer.drawer.epoch(1))
        return lambda: trainer.step(batch, np.random.default_rng(seed))

    checked()
    return {
        "edge_index": lambda: step(their_loss, their_optimizer),
        "same objective": lambda: step(our_loss, our_optimizer),
        "bare propagation": products,
        "whole objective": whole_step(settings),
        "all users compared": whole_step(replace(settings, contrast_users=0)),
        "without contrasts": whole_step(replace(settings, interest_loss=0.0, conformity_loss=0.0, user_loss=0.0)),
    }


def measure(users: int, items: int, likes: int, repeats: int, seed: int) -> dict[str, Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work = sides(dataset(users, items, likes, seed), seed)
        seconds: dict[str, list[float]] = {name: [] for name in work}
        for name, run in work.items():
            if name != "edge_index":
                run()
        for _ in range(repeats):
            for name, run in work.items():
                gc.collect()
                began = time.process_time()
                run()
                seconds[name].append(time.process_time() - began)
    finally:
        torch.set_num_threads(threads)

    def ratio(above: str, below: str) -> list[float]:
        values = sorted(a / b for a, b in zip(seconds[above], seconds[below], strict=True))
        return [values[0], statistics.median(values), values[-1]]

    ratios = {
        "edge_index / same objective": ratio("edge_index", "same objective"),
        "edge_index / whole objective": ratio("edge_index", "whole objective"),
        "same objective / bare propagation": ratio("same objective", "bare propagation"),
        "whole objective / bare propagation": ratio("whole objective", "bare propagation"),
        "all users compared / whole objective": ratio("all users compared", "whole objective"),
    }
    rows = [
        {"row": name, "min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in seconds.items()
    ]
    size = {"users": users, "items": items, "likes": likes, "repeats": repeats, "seed": seed}
    return {**size, "rows": rows, "ratios": ratios}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--likes", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options.users, options.items, options.likes, options.repeats, options.seed)
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    print(
        f"{result['users']:,} users, {result['items']:,} items, {result['likes']:,} likes, {LAYERS} layers of "
        f"{DIMENSIONS}, batch {BATCH}, one thread, {result['repeats']} repetitions; outputs and gradients are equal"
    )
    print(f"{'CPU milliseconds a step':<36}{'min':>9}{'median':>9}{'max':>9}")
    for row in result["rows"]:
        low, median, high = (row[name] * 1000 for name in ("min", "median", "max"))
        print(f"{row['row']:<36}{low:>9.1f}{median:>9.1f}{high:>9.1f}")
    for name, values in result["ratios"].items():
        print(f"{name:<36}{values[0]:>9.2f}{values[1]:>9.2f}{values[2]:>9.2f}")
    return result


if __name__ == "__main__":
    main()
