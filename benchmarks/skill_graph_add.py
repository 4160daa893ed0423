"""How fast skills are added, one by one and in batches, as a graph grows. Optionally beside mem0 with its FAISS store.

    python tests/benchmarks/skill_graph_add.py --mem0 /tmp/mem0/bin/python
    python tests/benchmarks/skill_graph_add.py --sizes 1000 10000 --repeats 5 --json

Graphs of all sizes are open at once and take turns, a few adds each, so a slow minute affects all of them. Rates are
wall-clock, and each add is acknowledged before the next. `power-safe` waits for the disk at every add, as mem0's
history log does. mem0 writes its memories without waiting, as ours are by default.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from skill_graph_sides import EMBEDDER, Mem0, Texts, interval, shown, timed

from agentfw_memory import GraphSettings, SkillGraph

BATCH = 1000
SINGLE_LIMIT, BATCH_LIMIT = 200, 2000


def filled(path: Path, size: int, seed: int, *, power_safe: bool = False) -> tuple[SkillGraph, list[float]]:
    """A graph of a size, and the rates of the batches that made it."""
    graph = SkillGraph.open(path, tenant="team", embedder=EMBEDDER, settings=GraphSettings(power_safe=power_safe))
    texts, rates = Texts(seed), []
    batch = min(BATCH, size // 5)
    for start in range(0, size, batch):
        skills = texts.skills(min(batch, size - start), users=max(1, size // 100))
        rates.append(len(skills) / timed(graph.add_skills, skills))
    return graph, rates


def rate_of_singles(graph: SkillGraph, texts: Texts, count: int) -> float:
    skills = texts.skills(count, users=50)
    began = time.perf_counter()
    for skill in skills:
        graph.add_skill(
            owner=skill.owner,
            text=skill.text,
            tools=skill.tools,
            scenarios=skill.scenarios,
            visibility=skill.visibility,
        )
    return count / (time.perf_counter() - began)


def measure(
    sizes: Sequence[int], mem0_sizes: Sequence[int], mem0: str | None, repeats: int, each: int, seed: int, folder: Path
) -> dict[str, Any]:
    graphs: dict[str, SkillGraph] = {}
    batches: dict[str, list[float]] = {}
    for size in sizes:
        for power_safe in (False, True):
            name = f"{size:,}{', power-safe' * power_safe}"
            graphs[name], batches[name] = filled(folder / f"{name}.db", size, seed, power_safe=power_safe)
    others: dict[int, Mem0] = {}
    for size in mem0_sizes if mem0 else ():
        texts = Texts(seed)
        others[size] = Mem0(str(mem0), folder / f"mem0-{size}")
        others[size].fill([texts.text() for _ in range(size)], [f"user{place % 50}" for place in range(size)])
    texts = Texts(seed + 1)
    rates: dict[str, list[float]] = {name: [] for name in graphs}
    theirs: dict[int, list[float]] = {size: [] for size in others}
    for _ in range(repeats):
        for name, graph in graphs.items():
            rates[name].append(rate_of_singles(graph, texts, each))
        for size, other in others.items():
            seconds = other.add([texts.text() for _ in range(2)], "user1")
            theirs[size].append(len(seconds) / sum(seconds))
    rows = [
        {
            "graph": name,
            "batched/s": interval(batches[name]),
            "single/s": interval(rates[name]),
            "against the smallest": interval(
                [one / first for one, first in zip(rates[name], rates[f"{sizes[0]:,}"], strict=True)]
            ),
        }
        for name in graphs
    ]
    compared = [
        {
            "mem0": size,
            "single/s": interval(theirs[size]),
            "ours against it": interval(
                [one / other for one, other in zip(rates[f"{size:,}"], theirs[size], strict=True)]
            ),
            "ours, power-safe, against it": interval(
                [one / other for one, other in zip(rates[f"{size:,}, power-safe"], theirs[size], strict=True)]
            ),
        }
        for size in others
    ]
    for graph in graphs.values():
        graph.close()
    for other in others.values():
        other.close()
    return {"repeats": repeats, "adds each time": each, "graphs": rows, "mem0": compared}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--mem0", help="Python with mem0ai 2.2 and faiss-cpu to compare with.")
    parser.add_argument("--mem0-sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--each", type=int, default=40, help="Adds per turn.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    sizes = [size for size in options.mem0_sizes if size in options.sizes]
    with tempfile.TemporaryDirectory() as name:
        result = measure(options.sizes, sizes, options.mem0, options.repeats, options.each, options.seed, Path(name))
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    print(f"adds a second, medians of {options.repeats} turns of {options.each}, with 95% intervals")
    print(f"{'skills in the graph':24}{'in batches':>28}{'one by one':>26}{'against the smallest':>26}")
    for row in result["graphs"]:
        one, many = shown(row["single/s"], 0), shown(row["batched/s"], 0)
        print(f"{row['graph']:24}{many:>28}{one:>26}{shown(row['against the smallest']):>26}")
    print(f"limits: {SINGLE_LIMIT} one by one, {BATCH_LIMIT:,} in batches")
    for row in result["mem0"]:
        print(
            f"mem0 at {row['mem0']:,}: {shown(row['single/s'], 1)}; ours {shown(row['ours against it'], 0)} times, "
            f"power-safe {shown(row['ours, power-safe, against it'], 0)} times"
        )
    return result


if __name__ == "__main__":
    main()
