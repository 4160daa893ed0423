"""What adding up the workers' gradients costs: in the process that trains, as a team does, and by gloo's all-reduce.

    python benchmarks/parallel_reduce.py
    python benchmarks/parallel_reduce.py --megabytes 2 --workers 2 4 --repeats 2 --json

A team adds the gradients of the pieces in their order in the process that trains, so the weights are the same to the
byte for any number of workers, also if some die. With gloo each worker would add up its own pieces, and all of them
reduce the sums. Times are of the processor, because workers that share cores wait for one another. A step has as many
pieces as workers, the fewest that keep all of them busy.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, print_aligned, tell


def gradient(megabytes: float, seed: int) -> Any:
    """Parts of an adapter's gradient, which together have so many bytes."""
    import torch

    rows = max(1, int(megabytes * 2**20 / 4 / 64 / 2048))
    generator = torch.Generator().manual_seed(seed)
    return {number: torch.randn(64 * rows // 8 or 1, 2048, generator=generator) for number in range(8)}


def in_one_process(megabytes: float, workers: int, repeats: int) -> list[float]:
    """Seconds of the processor that reading and adding the gradients of a step takes, as a team does it."""
    from safetensors.torch import save

    from agentfw_plugins.learners.team import gradient_from

    sent = [save({str(name): part for name, part in gradient(megabytes, seed).items()}) for seed in range(workers)]
    seconds = []
    for _ in range(repeats):
        began, total = time.process_time(), dict[int, Any]()
        for data in sent:
            for number, part in gradient_from(data).items():
                total[number] = total[number].add_(part) if number in total else part
        seconds.append(time.process_time() - began)
    return seconds


def member(place: Path, rank: int, workers: int, megabytes: float, repeats: int) -> None:
    """One process of a group: prints the seconds of the processor of each all-reduce."""
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=workers)
    parts = gradient(megabytes, rank)
    flat = torch.cat([part.reshape(-1) for part in parts.values()])
    for _ in range(repeats + 1):
        began = time.process_time()
        distributed.all_reduce(flat.clone())
        print(time.process_time() - began, flush=True)
    distributed.destroy_process_group()


def among_workers(megabytes: float, workers: int, repeats: int) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        words = ["--workers", str(workers), "--megabytes", str(megabytes), "--repeats", str(repeats)]
        command = [sys.executable, __file__, "--member", f"{name}/meeting", *words]
        members = [
            subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True)
            for rank in range(workers)
        ]
        told = [member.communicate()[0] for member in members]
    if any(member.returncode for member in members):
        raise SystemExit("a member of the group failed; the error is above")
    return [float(line) for line in told[0].split()[1:]]


def measure(megabytes: float, workers: Sequence[int], repeats: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    found: dict[str, Any] = {"megabytes": megabytes}
    for number in workers:
        here, there = in_one_process(megabytes, number, repeats), among_workers(megabytes, number, repeats)
        found[f"{number} workers"] = {
            "in the training process, ms": 1000 * statistics.median(here),
            "gloo, in each worker, ms": 1000 * statistics.median(there),
            "sent to the training process, MB": megabytes * (number - 1),
            "gloo, sent by each worker, MB": 2 * megabytes * (number - 1) / number,
        }
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, megabytes=(40.0, "size of a gradient"), workers=[2, 4, 8], repeats=5)
    parser.add_argument("--member", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.member:
        member(options.member, options.rank, options.workers[0], options.megabytes, options.repeats)
        return {}
    return tell(measure(options.megabytes, options.workers, options.repeats), options.json, show)


def show(result: Mapping[str, Any]) -> None:
    rows = {name: each for name, each in result.items() if name != "megabytes"}
    columns = list(next(iter(rows.values())))
    print(f"a gradient of {result['megabytes']:g} MB")
    print_aligned(["", *columns], [[name, *(f"{value:.1f}" for value in each.values())] for name, each in rows.items()])


if __name__ == "__main__":
    main()
