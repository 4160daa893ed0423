"""Turns packed as a tree against one turn a row, on random trees: the same gradients, and how much faster.

The one rule: both packings are asked the same of the same network, one after the other in one process, and what is
compared is the whole of a step's gradient, not only its loss.

    python benchmarks/tree_training.py
    python benchmarks/tree_training.py --trees 50 --threads 1 --json

A tree is drawn: 2 to 8 samples of one task, 1 to 8 turns each, whose prompts grow by what was said (or forget all but a
common beginning), with prompts and answers of any length from hardly any to hundreds. Told are the share of tokens that
a tree spares, the ratio of time, and the largest relative difference of gradients, |tree - plain| / |plain|.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, make_model, model_size, print_aligned, ratios, spread, spread_cells, tell

SHAPE = model_size(hidden=128, inner=352, layers=4, heads=4, key_heads=2, vocab_size=2048)
SHAPE |= {"max_position_embeddings": 16384, "initializer_range": 0.1}


def draw_tree(draw: random.Random, scale: float) -> list[Any]:
    """The lessons of one group."""
    from agentfw_plugins.learners.lessons import Lesson
    from agentfw_plugins.learners.token_tree import TurnTokens

    def tokens(longest: float) -> list[int]:
        return [draw.randrange(10, 2000) for _ in range(max(1, int(longest * scale)))]

    samples, turns, forgets = draw.randint(2, 8), draw.choice([1, 1, 2, 4, 8]), draw.random() < 0.3
    prompt, longest = tokens(draw.choice([8, 64, 256, 1024])), draw.choice([8, 64, 256])
    lessons = []
    for _ in range(samples):
        said = prompt
        for turn in range(turns):
            answer = tokens(draw.uniform(0.2, 1) * longest)
            lessons.append(Lesson(TurnTokens(said, answer), draw.gauss(0, 1), (), 0, turn))
            said = [*(prompt if forgets else said), *answer, *tokens(draw.uniform(0.2, 1) * longest)]
    return lessons


def gradients(network: Any, lessons: list[Any]) -> tuple[Any, dict[str, float]]:
    """The gradient of one step as one long row, and the step's figures."""
    import torch

    from agentfw.optimizer import Loss
    from agentfw_plugins.learners.descent import Descent

    optimizer = torch.optim.SGD(network.parameters(), lr=1e-9)
    figures = Descent(network, optimizer, network.settings, 1e-9).learn([lessons], Loss(), 1)
    return torch.cat([parameter.grad.flatten() for parameter in network.parameters()]), figures


def measure(options: argparse.Namespace, model: Path) -> list[dict[str, float]]:
    import torch

    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings

    torch.set_num_threads(options.threads)
    networks = {}
    for packing in ("tree", "plain"):
        settings = LoraSettings(model=str(model), packing=packing, gradient_clip=1e9, tokens=options.tokens)
        networks[packing] = Network(settings, Seeds(7))
        with torch.no_grad():
            for number, parameter in enumerate(networks[packing].parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) * 0.05)
    draw = random.Random(options.seed)
    rows = []
    for _ in range(options.trees):
        lessons = draw_tree(draw, options.scale)
        found: dict[str, Any] = {}
        seconds: dict[str, list[float]] = {packing: [] for packing in networks}
        for _ in range(options.repeats):
            for packing, network in networks.items():
                began = time.process_time()
                found[packing] = gradients(network, lessons)
                seconds[packing].append(time.process_time() - began)
        tree, plain = (found[packing][0] for packing in networks)
        computed, flat = found["tree"][1]["tokens_computed"], found["plain"][1]["tokens_plain"]
        rows.append(
            {
                "turns": len(lessons),
                "computed": computed,
                "flat": flat,
                "spared": flat / computed,
                "faster": statistics.median(ratios(seconds["plain"], seconds["tree"])),
                "apart": float((tree - plain).norm() / plain.norm()),
            }
        )
    return rows


def show(report: dict[str, Any]) -> None:
    print(f"{report['trees']} random trees, CPU seconds, {report['repeats']} repetitions")
    rows = []
    for low, high in ((1.0, 1.2), (1.2, 2.0), (2.0, 4.0), (4.0, float("inf"))):
        some = [row for row in report["rows"] if low <= row["spared"] < high]
        if some:
            name = f"{low:g} to {high:g} x" if high < float("inf") else f"more than {low:g} x"
            faster = spread_cells(spread([row["faster"] for row in some]), ".2f")
            rows.append([name, str(len(some)), *faster, f"{max(row['apart'] for row in some):.1e}"])
    print_aligned(["tokens spared", "trees", "faster: least", "median", "largest", "gradients apart"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, trees=30, repeats=3, scale=(1.0, "of all lengths"), tokens=4096, threads=1, seed=7)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        rows = measure(options, make_model(Path(folder) / "model", **SHAPE))
    report = {"trees": options.trees, "repeats": options.repeats, "seed": options.seed, "rows": rows}
    return tell(report, options.json, show)


if __name__ == "__main__":
    main()
