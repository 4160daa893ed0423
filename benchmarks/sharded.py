"""A base that is divided among processes (FSDP2 on gloo) beside one process: gradient, weights and memory.

A Llama with drawn weights is trained for one update by 1, 2 and 4 processes of one thread, with few tokens at once.
Told are the difference of the gradient's norm; the largest difference of an adapter's weight from the one that a single
process learns, as a part of a step of Adam (the learning rate); and the private memory of a process, beside the size of
the whole base. A single process maps the base's file and shares these pages with all others, so they don't count there.
Required: norms within 1e-5 in fp32, and a memory of at most 0.6 and 0.35 of the base.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy

from agentfw_benchmarks import Options, free_port, make_model, memory_of_this, model_size, tell

RANK = "AGENTFW_SHARDED_RANK"
"""What one process of a group is told, as JSON."""
RATE = 1e-3
WEIGHT = {"fp32": 4.0, "nf4": 0.5}
"""Bytes of a weight of the layers; embeddings keep 4."""


def one_rank(options: argparse.Namespace) -> None:
    """What each process does."""
    import torch
    from safetensors.torch import save_file
    from torch import distributed

    from agentfw.optimizer import Loss
    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.descent import Descent, make_optimizer
    from agentfw_plugins.learners.group import Ranks, join, meeting
    from agentfw_plugins.learners.lessons import Lesson
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    torch.set_num_threads(1)
    count = options.count
    settings = LoraSettings(
        model=options.model,
        precision=options.precision,
        tokens=64,
        checkpointing=True,
        learning_rate=RATE,
        workers=count,
        sharded=count > 1,
    )
    ranks = Ranks(options.rank, count, count > 1)
    if count > 1:
        store = (
            distributed.TCPStore("127.0.0.1", options.port, count, True, wait_for_workers=False)
            if not options.rank
            else meeting(settings, "127.0.0.1", options.port)
        )
        join(ranks, store, 1800.0)
    before = memory_of_this("RssAnon")
    network = Network(settings, Seeds(7).child("learner"), ranks=ranks)
    descent = Descent(network, make_optimizer(network), settings, RATE)
    draw = numpy.random.default_rng(1)
    lessons = [
        Lesson(TurnTokens(tuple(draw.integers(5, 500, 24).tolist()), tuple(draw.integers(5, 500, 8).tolist())),
               float(draw.normal()), (), task=number, turn=0, episode=str(number))
        for number in range(8)
    ]  # fmt: skip
    peak, watching = [memory_of_this("RssAnon")], threading.Event()

    def watch() -> None:
        while not watching.wait(0.01):
            peak[0] = max(peak[0], memory_of_this("RssAnon"))

    threading.Thread(target=watch, daemon=True).start()
    figures = descent.learn([lessons], Loss(), 1)
    watching.set()
    save_file(network.weights(), f"{options.out}/{options.rank}.safetensors")
    print(json.dumps({"norm": figures["gradient_norm"], "memory": peak[0] - before}))


def measured(given: dict[str, Any]) -> list[dict[str, Any]]:
    """What each process of a group found."""
    Path(given["out"]).mkdir()
    given = given | {"port": free_port()}
    started = [
        subprocess.Popen(
            [sys.executable, __file__],
            stdout=subprocess.PIPE,
            # Freed blocks go back at once, so that what is measured is what is in use.
            env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", RANK: json.dumps(given | {"rank": rank})},
        )
        for rank in range(given["count"])
    ]
    return [json.loads(process.communicate(timeout=3600)[0]) for process in started]


def compared(options: argparse.Namespace) -> list[dict[str, Any]]:
    from safetensors.torch import load_file

    from agentfw_plugins.models.checkpoint import count_weights

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        size = model_size(hidden=768, inner=2048, layers=options.layers, heads=12, key_heads=4, vocab_size=2048)
        model = make_model(folder / "model", **size)
        weights, embedded = count_weights(model), 2 * 2048 * 768
        for precision in options.precisions:
            base = WEIGHT[precision] * (weights - embedded) + 4 * embedded
            first: list[Any] = []
            for count in options.processes:
                out = folder / f"{precision}-{count}"
                found = measured({"model": str(model), "precision": precision, "count": count, "out": str(out)})
                learned = load_file(out / "0.safetensors")
                norm, first = found[0]["norm"], first or [found[0]["norm"], learned]
                apart = max(float((learned[name] - first[1][name]).abs().max()) for name in learned) / RATE
                rows.append(
                    {
                        "precision": precision,
                        "processes": count,
                        "norm_apart": f"{abs(norm / first[0] - 1):.1e}",
                        "weights_apart": f"{apart:.1e}",
                        "memory": round(max(each["memory"] for each in found) / base, 2),
                    }
                )
    return rows


def main() -> None:
    if RANK in os.environ:
        one_rank(argparse.Namespace(**json.loads(os.environ[RANK])))
        return
    options = Options(__doc__, precisions=list(WEIGHT), processes=[1, 2, 4], layers=24).parse_args()
    tell({"rows": compared(options)}, options.json)


if __name__ == "__main__":
    main()
