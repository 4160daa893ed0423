"""Turns packed as a tree against one turn a row, on random trees: the same gradients, and how much faster.

The one rule: both packings are asked the same of the same network, one after the other in one process, and what is
compared is the whole of a step's gradient, not only its loss.

    python tests/benchmarks/tree_training.py
    python tests/benchmarks/tree_training.py --trees 50 --threads 1 --json

A tree is drawn: 2 to 8 samples of one task, 1 to 8 turns each, whose prompts grow by what was said (or forget all but a
common beginning), with prompts and answers of any length from hardly any to hundreds. Told are the share of tokens that
a tree spares, the ratio of time, and the largest relative difference of gradients, |tree - plain| / |plain|.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LABORATORY = Path(__file__).parents[1] / "site" / "agentfw_laboratory" / "models.py"
SHAPE = {
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16384,
    "initializer_range": 0.1,
}


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

    from agentfw import Loss
    from agentfw_plugins.learners.descent import Descent

    optimizer = torch.optim.SGD(network.parameters(), lr=1e-9)
    figures = Descent(network, optimizer, network.settings, 1e-9).learn([lessons], Loss(), 1)
    return torch.cat([parameter.grad.flatten() for parameter in network.parameters()]), figures


def measure(options: argparse.Namespace, model: Path) -> list[dict[str, float]]:
    import torch

    from agentfw import Seeds
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
                "faster": statistics.median(b / a for a, b in zip(seconds["tree"], seconds["plain"], strict=True)),
                "apart": float((tree - plain).norm() / plain.norm()),
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of all lengths")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    spec = importlib.util.spec_from_file_location("agentfw_laboratory_models", LABORATORY)
    assert spec is not None
    assert spec.loader is not None
    laboratory = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(laboratory)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        rows = measure(options, laboratory.make_model(Path(folder) / "model", **SHAPE))
    report = {"trees": options.trees, "seed": options.seed, "rows": rows}
    if options.json:
        print(json.dumps(report, indent=2))
        return report
    print(f"{options.trees} random trees, CPU seconds, {options.repeats} repetitions")
    print(f"{'tokens spared':<18}{'trees':>6}{'faster: least':>15}{'median':>8}{'largest':>9}{'gradients apart':>17}")
    for low, high in ((1.0, 1.2), (1.2, 2.0), (2.0, 4.0), (4.0, float("inf"))):
        some = [row for row in rows if low <= row["spared"] < high]
        if some:
            faster = [row["faster"] for row in some]
            name = f"{low:g} to {high:g} x" if high < float("inf") else f"more than {low:g} x"
            told = f"{min(faster):>15.2f}{statistics.median(faster):>8.2f}{max(faster):>9.2f}"
            print(f"{name:<18}{len(some):>6}{told}{max(row['apart'] for row in some):>17.1e}")
    return report


if __name__ == "__main__":
    main()
