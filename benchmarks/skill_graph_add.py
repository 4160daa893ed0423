"""How fast skills are added, one by one and in batches, as a graph grows. Optionally beside mem0.

    python benchmarks/skill_graph_add.py --mem0 /tmp/mem0/bin/python
    python benchmarks/skill_graph_add.py --sizes 1000 10000 --repeats 5 --json

Graphs of all sizes are open at once and take turns, a few adds each, so a slow minute affects all of them. Rates are
wall-clock, and each add is acknowledged before the next. `power-safe` waits for the disk at every add, as mem0's
history log does. mem0 writes its memories without waiting, as ours are by default.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, median_of, print_aligned, ratios, shown, tell
from agentfw_benchmarks.mem0_side import Mem0
from agentfw_benchmarks.skill_texts import EMBEDDER, Texts, fill
from agentfw_memory import GraphSettings, SkillGraph

BATCH = 1000
SINGLE_LIMIT, BATCH_LIMIT = 200, 2000


def filled(path: Path, size: int, seed: int, *, power_safe: bool = False) -> tuple[SkillGraph, list[float]]:
    """A graph of a size, and the rates of the batches that made it."""
    graph = SkillGraph.open(path, tenant="team", embedder=EMBEDDER, settings=GraphSettings(power_safe=power_safe))
    batches = fill(graph, Texts(seed), size, min(BATCH, size // 5))
    return graph, [len(skills) / seconds for skills, seconds in batches]


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


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    graphs: dict[str, SkillGraph] = {}
    batches: dict[str, list[float]] = {}
    for size in options.sizes:
        for power_safe in (False, True):
            name = f"{size:,}{', power-safe' * power_safe}"
            path = folder / f"{name}.db"
            graphs[name], batches[name] = filled(path, size, options.seed, power_safe=power_safe)
    others: dict[int, Mem0] = {}
    for size in options.mem0_sizes if options.mem0 else ():
        if size in options.sizes:
            texts = Texts(options.seed)
            others[size] = Mem0(options.mem0, folder / f"mem0-{size}")
            others[size].fill([texts.text() for _ in range(size)], [f"user{place % 50}" for place in range(size)])
    texts = Texts(options.seed + 1)
    rates: dict[str, list[float]] = {name: [] for name in graphs}
    theirs: dict[int, list[float]] = {size: [] for size in others}
    for _ in range(options.repeats):
        for name, graph in graphs.items():
            rates[name].append(rate_of_singles(graph, texts, options.each))
        for size, other in others.items():
            seconds = other.add([texts.text() for _ in range(20)], "user1")
            theirs[size].append(len(seconds) / sum(seconds))
    rows = [
        {
            "graph": name,
            "batched/s": median_of(batches[name]),
            "single/s": median_of(rates[name]),
            "against the smallest": median_of(ratios(rates[name], rates[f"{options.sizes[0]:,}"])),
        }
        for name in graphs
    ]
    compared = [
        {
            "mem0": size,
            "single/s": median_of(theirs[size]),
            "ours against it": median_of(ratios(rates[f"{size:,}"], theirs[size])),
            "ours, power-safe, against it": median_of(ratios(rates[f"{size:,}, power-safe"], theirs[size])),
        }
        for size in others
    ]
    for side in (*graphs.values(), *others.values()):
        side.close()
    return {"repeats": options.repeats, "adds each time": options.each, "graphs": rows, "mem0": compared}


def show(result: dict[str, Any]) -> None:
    print("adds a second, medians of {repeats} turns of {adds each time}, with 95% intervals".format_map(result))
    rows = []
    for row in result["graphs"]:
        rates = [shown(row[name], ",.0f") for name in ("batched/s", "single/s")]
        rows.append([row["graph"], *rates, shown(row["against the smallest"], ".2f")])
    print_aligned(["skills in the graph", "in batches", "one by one", "against the smallest"], rows)
    print(f"limits: {SINGLE_LIMIT} one by one, {BATCH_LIMIT:,} in batches")
    for row in result["mem0"]:
        ours, safe = (shown(row[name], ",.0f") for name in ("ours against it", "ours, power-safe, against it"))
        print(f"mem0 at {row['mem0']:,}: {shown(row['single/s'], ',.1f')}; ours {ours} times, power-safe {safe} times")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        sizes=[1_000, 10_000, 100_000],
        mem0=("", "Python with mem0ai 2.2 to compare with"),
        mem0_sizes=[1_000, 10_000],
        repeats=15,
        each=(40, "adds per turn"),
        seed=7,
    ).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        return tell(measure(options, Path(name)), options.json, show)


if __name__ == "__main__":
    main()
