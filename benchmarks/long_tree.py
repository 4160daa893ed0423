"""One tree of 32,000 tokens on a CPU, beside one row a turn: CPU seconds and peak memory of a learner's step.

Eight samples of one task share a prompt. Each side runs in a process of its own, with one thread; memory is the peak of
the process less what it has before the step. Rows are computed one at a time, which needs the least memory.

    python benchmarks/long_tree.py                                   # some minutes
    python benchmarks/long_tree.py --prompt 300 --answer 50 --json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, answer_of, make_model, model_size

SHAPE = model_size(hidden=64, inner=176, layers=2, heads=2, key_heads=1, vocab_size=2048)
SHAPE |= {"max_position_embeddings": 65536, "initializer_range": 0.1}


def step(options: argparse.Namespace, packing: str) -> dict[str, float]:
    """One step in this process."""
    import numpy
    import torch

    from agentfw.optimizer import Loss
    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.descent import Descent, peak_memory
    from agentfw_plugins.learners.lessons import Lesson
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    torch.set_num_threads(options.threads)
    draw = numpy.random.default_rng(7)
    prompt = draw.integers(10, 2000, options.prompt).tolist()
    lessons = [
        Lesson(
            TurnTokens(prompt, draw.integers(10, 2000, options.answer).tolist()), float(draw.normal()), (), 0, 0, str(n)
        )
        for n in range(options.samples)
    ]
    tokens = options.prompt + options.samples * options.answer if packing == "tree" else 1
    settings = LoraSettings(
        model=str(options.model), packing=packing, tokens=tokens, checkpointing=options.checkpointing
    )
    network = Network(settings, Seeds(7))
    with torch.no_grad():  # an adapter that begins at zero has half a gradient
        for number, parameter in enumerate(network.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) * 0.05)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-9)
    before, began = peak_memory("cpu"), time.process_time()
    figures = Descent(network, optimizer, settings, 1e-9).learn([lessons], Loss(), 1)
    return {
        "CPU seconds": time.process_time() - began,
        "MiB": peak_memory("cpu") - before,
        "tokens computed": figures["tokens_computed"],
        "gradient norm": figures["gradient_norm"],
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        samples=8,
        prompt=24_000,
        answer=1_000,
        threads=1,
        checkpointing=(False, "recompute activations, on both sides"),
    )
    parser.add_argument("--side", choices=("tree", "plain"), help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        found = step(options, options.side)
        print(json.dumps(found))
        return found
    words = list(sys.argv[1:] if arguments is None else arguments)
    result: dict[str, Any] = {}
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "model", **SHAPE)
        for side in ("tree", "plain"):
            result[side] = answer_of(__file__, *words, "--side", side, "--model", model, environment=environment)
            if not options.json:
                told = "  ".join(f"{name} {value:,.5g}" for name, value in result[side].items())
                print(f"{side:6} {told}", flush=True)
    result["load"] = os.getloadavg()[0]
    if options.json:
        print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
