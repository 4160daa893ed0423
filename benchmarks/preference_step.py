"""A training step on a large graph: PyTorch Geometric's LightGCN, with edges or a matrix, and the preference model's.

    python benchmarks/preference_step.py
    python benchmarks/preference_step.py --users 1000 --items 1000 --likes 20000 --json

| row | what is timed |
| --- | --- |
| edge_index | PyTorch Geometric with a list of edges: propagation, BPR, backward, Adam |
| sparse matrix | PyTorch Geometric with a sparse matrix of torch, normalised once: its fastest way |
| same objective | the same with the library's propagation |
| bare propagation | only the products with a CSR matrix, forward and backward, as torch offers them |
| whole objective | a step of the preference model with all its losses |
| all users compared | the same with the contrastive losses of all users of the batch (`contrast_users=0`) |
| without contrasts | the same without contrastive losses |

Both sides start from the same embeddings and the same batch. Their outputs, losses and gradients are compared before
anything is timed. Times are CPU seconds of one thread, which other programs on the machine hardly affect. The target is
the same objective at most 1.2 times the bare propagation, and faster than the sparse matrix.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.nn.models import LightGCN

from agentfw_benchmarks import Options, print_aligned, ratio_span, spread, spread_cells, tell, timed
from agentfw_rewardmodels import PreferenceSettings
from agentfw_rewardmodels.preference.formulas import ranking
from agentfw_rewardmodels.preference.input_tables import Dataset
from agentfw_rewardmodels.preference.propagation import Adjacency, Matrix, propagate
from agentfw_rewardmodels.preference.training import Drawer, Trainer

LAYERS, DIMENSIONS, BATCH = 3, 64, 2048


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

    sparse = LightGCN(users + items, DIMENSIONS, LAYERS, normalize=False)
    sparse.load_state_dict(theirs.state_dict())
    sparse_optimizer = torch.optim.Adam(sparse.parameters(), lr=1e-3, fused=True)

    def their_loss(theirs: LightGCN = theirs, edges: Any = edges) -> Any:
        out = theirs.get_embedding(edges)
        ranks = (out[user] * out[item]).sum(-1), (out[user] * out[other]).sum(-1)
        return theirs.recommendation_loss(*ranks, lambda_reg=0.0)

    def our_loss() -> Any:
        out = propagate(ours, matrix, LAYERS)
        rows = out.index_select(0, torch.cat([user, item, other])).split(len(user))
        return ranking(*rows)

    def checked() -> None:
        torch.testing.assert_close(propagate(ours, matrix, LAYERS), theirs.get_embedding(edges), rtol=1e-4, atol=1e-5)
        losses = our_loss(), their_loss(), their_loss(sparse, matrix.forward)
        for loss in losses:
            # Theirs divides by the number of pairs, as ours does.
            torch.testing.assert_close(loss, losses[0], rtol=1e-4, atol=1e-6)
            loss.backward()
        for one in (theirs, sparse):
            torch.testing.assert_close(one.embedding.weight.grad, ours.grad, rtol=1e-3, atol=1e-7)

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
        "sparse matrix": lambda: step(lambda: their_loss(sparse, matrix.forward), sparse_optimizer),
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
                seconds[name].append(timed(run, clock=time.process_time))
    finally:
        torch.set_num_threads(threads)

    compared = (
        ("edge_index", "same objective"),
        ("sparse matrix", "same objective"),
        ("sparse matrix", "whole objective"),
        ("same objective", "bare propagation"),
        ("whole objective", "bare propagation"),
        ("all users compared", "whole objective"),
    )
    ratios = {f"{above} / {below}": ratio_span(seconds[above], seconds[below]) for above, below in compared}
    rows = [{"row": name, **spread(values)} for name, values in seconds.items()]
    size = {"users": users, "items": items, "likes": likes, "repeats": repeats, "seed": seed}
    return {**size, "rows": rows, "ratios": ratios}


def show(result: dict[str, Any]) -> None:
    size = "{users:,} users, {items:,} items, {likes:,} likes, {repeats} repetitions".format_map(result)
    print(f"{size}, {LAYERS} layers of {DIMENSIONS}, batch {BATCH}, one thread; outputs and gradients are equal")
    rows = [[row["row"], *spread_cells(row, ".1f", 1000)] for row in result["rows"]]
    rows += [[name, *(f"{value:.2f}" for value in values)] for name, values in result["ratios"].items()]
    print_aligned(["CPU milliseconds a step", "min", "median", "max"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, users=10_000, items=10_000, likes=500_000, repeats=5, seed=7)
    options = parser.parse_args(arguments)
    result = measure(options.users, options.items, options.likes, options.repeats, options.seed)
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
