"""How long a recall takes, compared with a bare FAISS search over the same vectors and with mem0's search.

    python benchmarks/skill_graph_recall.py --mem0 /tmp/mem0/bin/python
    python benchmarks/skill_graph_recall.py --sizes 10000 --queries 100 --json
    python benchmarks/skill_graph_recall.py --filters --sizes 10000 --queries 100

All sides take turns in a random order, each with another query, because the second search for a query would find what
it needs in the processor's cache. A ratio is that of the medians over the same queries. FAISS uses one thread on both
sides. Ratios are of CPU time, because on a shared machine wall-clock time mostly measures interruptions. Wall-clock
times are printed too.

The bare search is that of FAISS's flat index, which compares all vectors as the graph does, and starts from a vector. A
recall also embeds the query, decides what the user may see, adds the hop over time, computes the score and reads the
skills. So the bare search is timed with embedding as well.

`first` is a query whose skills weren't recalled in this process before, and `again` a repeated one. `after an add` is a
repeated one before which a skill was added, so it also takes over the skill. The add isn't timed.

With `--filters`, recalls with a filter by metadata are compared with recalls without one instead: a filter that fits
every second skill, one in a hundred, and none.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import faiss
import numpy as np

from agentfw_benchmarks import Options, shown, tell
from agentfw_benchmarks.mem0_side import Mem0
from agentfw_benchmarks.skill_texts import DIMENSIONS, EMBEDDER, Texts, fill, users_of
from agentfw_memory import SkillGraph
from agentfw_memory.graph.index.embedders import open_embedder

Pair = tuple[float, float]

K = 10
LIMIT = 2.0


def bare_index(graph: SkillGraph) -> Any:
    """All vectors in one index of FAISS."""
    index = faiss.IndexFlatIP(DIMENSIONS)
    for batch in graph._rows.live():
        index.add(batch.vectors)
    return index


def measure(size: int, queries: int, rounds: int, mem0: str, seed: int, folder: Path) -> dict[str, Any]:
    texts, users = Texts(seed), users_of(size)
    embedder = open_embedder(EMBEDDER)
    with SkillGraph.open(folder / f"{size}.db", tenant="team", embedder=EMBEDDER) as graph:
        skills = [skill for batch, _ in fill(graph, texts, size) for skill in batch]
        graph.prepare()
        index = bare_index(graph)
        generator = random.Random(seed)
        asked = [(texts.text(), f"user{generator.randrange(users)}") for _ in range(queries)]
        warming = [(texts.text(), f"user{generator.randrange(users)}") for _ in range(2 * users)]
        for query, user in warming:
            graph.recall(query, user=user, k=K)
        other = Mem0(mem0, folder / f"mem0-{size}") if mem0 else None
        if other:
            other.fill([skill.text for skill in skills], [skill.owner for skill in skills])
        # Of each side, one list a round: (seconds by the clock, seconds of CPU) for each query.
        seconds: dict[str, list[list[Pair]]] = {side: [] for side in ("bare", "bare, embedding", "ours", "mem0")}
        for turn in range(rounds + 1):
            for side in seconds:
                seconds[side].append([])
            for place in range(queries):
                sides = ["bare", "bare, embedding", "ours"]
                generator.shuffle(sides)
                for step, side in enumerate(sides):
                    query, user = asked[(place + step * queries // 3) % queries]
                    vector = embedder.embed([query])
                    if turn == rounds and side == "ours":
                        graph.add(owner=user, text=texts.text(), visibility=generator.choice(("private", "shared")))
                    began, worked = time.perf_counter(), time.thread_time()
                    if side == "ours":
                        graph.recall(query, user=user, k=K)
                    else:
                        index.search(embedder.embed([query]) if "embedding" in side else vector, K)
                    seconds[side][turn].append((time.perf_counter() - began, time.thread_time() - worked))
                if other and turn == 0:
                    query, user = asked[place]
                    seconds["mem0"][turn].append(other.search(query, user, K)[0])
        if other:
            other.close()
    return {
        "skills": size,
        "queries": queries,
        "ms": {
            "bare": told(seconds["bare"]),
            "bare, embedding": told(seconds["bare, embedding"]),
            "first": told(seconds["ours"][:1]),
            "again": told(seconds["ours"][1:rounds]),
            "after an add": told(seconds["ours"][rounds:]),
            **({"mem0": told(seconds["mem0"])} if mem0 else {}),
        },
        "ratios": {
            f"{side}, against {other}": {
                "CPU": ratio(seconds["ours"][part], seconds[other][part], 1),
                "clock": ratio(seconds["ours"][part], seconds[other][part], 0),
            }
            for side, part in (
                ("first", slice(0, 1)),
                ("again", slice(1, rounds)),
                ("after an add", slice(rounds, None)),
            )
            for other in ("bare", "bare, embedding", "mem0")
            if any(seconds[other][part])
        },
    }


FILTERS: dict[str, dict[str, Any] | None] = {
    "without a filter": None,
    "fits a half": {"lot": {"$lt": 50}},
    "fits 1%": {"lot": 7},
    "fits none": {"lot": 1000},
}


def filtered(size: int, queries: int, rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    """Recalls with filters, which take turns. The first of each isn't timed."""
    texts, users, lots = Texts(seed), users_of(size), itertools.count()
    generator = random.Random(seed)
    seconds: dict[str, list[list[Pair]]] = {name: [[]] for name in FILTERS}
    with SkillGraph.open(folder / f"filtered-{size}.db", tenant="team", embedder=EMBEDDER) as graph:
        for start in range(0, size, 5000):
            skills = texts.skills(min(5000, size - start), users=users)
            graph.add_all([replace(skill, metadata={"lot": next(lots) % 100}) for skill in skills])
        graph.prepare()
        asked = [(texts.text(), f"user{generator.randrange(users)}") for _ in range(queries)]
        for turn in range(rounds + 1):
            for place in range(queries):
                for name in generator.sample(list(FILTERS), len(FILTERS)):
                    query, user = asked[place]
                    began, worked = time.perf_counter(), time.thread_time()
                    graph.recall(query, user=user, k=K, where=FILTERS[name])
                    if turn:
                        seconds[name][0].append((time.perf_counter() - began, time.thread_time() - worked))
    times = {name: told(some) for name, some in seconds.items()}
    plain = times["without a filter"]["CPU p50"]
    return {
        "skills": size,
        "queries": queries,
        "ms": times,
        "times as long": {name: one["CPU p50"] / plain for name, one in times.items()},
    }


def told(rounds: list[list[Pair]]) -> dict[str, float]:
    """Milliseconds: the median and the 95th of a hundred by the clock, and the median of CPU."""
    clock, worked = (1000 * np.array([pair[place] for turn in rounds for pair in turn]) for place in (0, 1))
    return {"p50": float(np.median(clock)), "p95": float(np.quantile(clock, 0.95)), "CPU p50": float(np.median(worked))}


def ratio(above: list[list[Pair]], below: list[list[Pair]], place: int) -> dict[str, float]:
    """The ratio of the medians, with its 95% interval: pairs of the same query and round are drawn anew."""
    one, other = (np.array([pair[place] for turn in side for pair in turn]) for side in (above, below))
    generator = np.random.default_rng(7)
    rows = generator.integers(0, len(one), (1000, len(one)))
    low, high = np.quantile(np.median(one[rows], axis=1) / np.median(other[rows], axis=1), [0.025, 0.975])
    return {"median": float(np.median(one) / np.median(other)), "low": float(low), "high": float(high)}


def show(result: dict[str, Any]) -> None:
    for row in result["sizes"]:
        if "times as long" in row:
            print(f"{row['skills']:,} skills, {row['queries']} queries")
            for name, times in row["ms"].items():
                told = "   ".join(f"{what} {value:7.3f} ms" for what, value in times.items())
                print(f"  {name:18}{told}   {row['times as long'][name]:.2f} times as long")
            continue
        print(f"{row['skills']:,} skills, {row['queries']} queries")
        for name, times in row["ms"].items():
            print(f"  {name:18}" + "   ".join(f"{what} {value:7.3f} ms" for what, value in times.items()))
        for name, ratios in row["ratios"].items():
            print(f"  {name:32}" + "   ".join(f"{what} {shown(value, '.2f')}" for what, value in ratios.items()))
    print(f"limit at 50,000: {LIMIT} times the bare search")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        sizes=[10_000, 50_000],
        queries=300,
        rounds=4,
        filters=(False, "compare recalls with filters by metadata"),
        mem0=("", "Python with mem0ai 2.2 to compare with, up to 10,000 skills"),
        seed=7,
    ).parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for size in options.sizes:
            if options.filters:
                rows.append(filtered(size, options.queries, options.rounds, options.seed, Path(name)))
                continue
            mem0 = options.mem0 if size <= 10_000 else ""
            rows.append(measure(size, options.queries, options.rounds, mem0, options.seed, Path(name)))
    return tell({"k": K, "limit": LIMIT, "sizes": rows}, options.json, show)


if __name__ == "__main__":
    main()
