"""How long a recall takes: beside a bare FAISS search, and of large and many tenants in a file or on PostgreSQL.

    python benchmarks/skill_graph_speed.py faiss
    python benchmarks/skill_graph_speed.py file                       # a million skills in a file: half an hour
    python benchmarks/skill_graph_speed.py postgres --skills 30000    # starts a server in a folder
    python benchmarks/skill_graph_speed.py postgres --url postgresql://... --processes 8 --pause 2 --tenants 0

`faiss`: all sides take turns in a random order, each with another query, because the second search for a query would
find what it needs in the processor's cache. A ratio is that of the medians of CPU time over the same queries, with one
thread on both sides. The bare search is that of FAISS's flat index, which compares all vectors as the graph does, and
starts from a vector. A recall also embeds the query, decides what the user may see, adds the hop over time, computes
the score and reads the skills. So the bare search is timed with embedding as well. `first` is a query whose skills
weren't recalled in this process before, and `again` a repeated one. `after an add` is a repeated one before which a
skill was added, so it also takes over the skill. The add isn't timed.

In a `file`, one tenant is searched in memory; on `postgres` the database searches it, several processes recall at once,
and what one adds another must recall at once. Each stage has processes of its own, so that peak memory is its own.
With `--pause`, a process waits between its recalls, as users do; otherwise each recall waits for those of the others.
`--tenants` are many small ones in one process. `--url` may have a large tenant already, which is then asked only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

if "faiss" in sys.argv:  # one thread on both sides; what a server's processes use is measured as it is
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from agentfw_benchmarks import Options, answer_of, tell, timed
from agentfw_benchmarks.postgres import processor_of, server
from agentfw_memory import GraphSettings, NewSkill, SkillGraph
from agentfw_memory.graph.index.embedders import open_embedder

K, ROUNDS = 10, 4
PARTS = {"first": slice(0, 1), "again": slice(1, ROUNDS), "after an add": slice(ROUNDS, None)}
"""Of the rounds beside FAISS, one of which follows the others."""
DIMENSIONS = 384
EMBEDDER = f"hash:{DIMENSIONS}"
SMALL_EMBEDDER = "hash:256"
SERVED = GraphSettings(in_memory_up_to=0)
SERVER = ("maintenance_work_mem = '2GB'", "max_wal_size = '8GB'", "fsync = off")


# Made-up skills, the same for every side


class Texts:
    """Texts of 14 words, some of which come often and most seldom; one seed, one row of texts."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def text(self) -> str:
        return " ".join(f"w{min(2999, int(self._generator.paretovariate(0.7)))}" for _ in range(14))

    def skills(self, count: int, *, users: int) -> list[NewSkill]:
        draw = self._generator
        return [
            NewSkill(
                f"user{draw.randrange(users)}",
                self.text(),
                (f"tool{draw.randrange(50)}",),
                (f"scenario{draw.randrange(200)}",),
                "shared" if draw.random() < 0.8 else "private",
            )
            for _ in range(count)
        ]


def fill(graph: SkillGraph, texts: Texts, count: int) -> float:
    """Add so many skills of a team with a hundred each. Returns the seconds it took."""
    sizes = [min(5000, count - start) for start in range(0, count, 5000)]
    return sum(timed(graph.add_all, texts.skills(size, users=users_of(count))) for size in sizes)


def users_of(count: int) -> int:
    """How many users own so many skills."""
    return max(1, count // 100)


# Beside a bare search


def beside_faiss(size: int, queries: int, seed: int, folder: Path) -> dict[str, Any]:
    import faiss

    texts, users = Texts(seed), users_of(size)
    embedder = open_embedder(EMBEDDER)
    with SkillGraph.open(folder / f"{size}.db", tenant="team", embedder=EMBEDDER) as graph:
        fill(graph, texts, size)
        graph.prepare()
        index = faiss.IndexFlatIP(DIMENSIONS)
        for batch in graph._rows.live(None):
            index.add(batch.vectors)
        generator = random.Random(seed)
        asked = [(texts.text(), f"user{generator.randrange(users)}") for _ in range(queries)]
        warming = [(texts.text(), f"user{generator.randrange(users)}") for _ in range(2 * users)]
        for query, user in warming:
            graph.recall(query, user=user, k=K)
        sides = ["bare", "bare, embedding", "ours"]
        # Of each side, one list a round: CPU seconds for each query.
        seconds: dict[str, list[list[float]]] = {side: [[] for _ in range(ROUNDS + 1)] for side in sides}
        for turn in range(ROUNDS + 1):
            for place in range(queries):
                generator.shuffle(sides)
                for step, side in enumerate(sides):
                    query, user = asked[(place + step * queries // 3) % queries]
                    vector = embedder.embed([query])
                    if turn == ROUNDS and side == "ours":
                        graph.add(owner=user, text=texts.text(), visibility=generator.choice(("private", "shared")))
                    began = time.thread_time()
                    if side == "ours":
                        graph.recall(query, user=user, k=K)
                    else:
                        index.search(embedder.embed([query]) if "embedding" in side else vector, K)
                    seconds[side][turn].append(time.thread_time() - began)
    return {
        "skills": size,
        "queries": queries,
        "CPU ms": {side: 1000 * float(np.median(seconds[side])) for side in ("bare", "bare, embedding")}
        | {side: 1000 * float(np.median(seconds["ours"][part])) for side, part in PARTS.items()},
        "ratios": {
            f"{side}, against {other}": _ratio(seconds["ours"][part], seconds[other][part])
            for side, part in PARTS.items()
            for other in ("bare", "bare, embedding")
        },
    }


def _ratio(above: list[list[float]], below: list[list[float]]) -> dict[str, float]:
    """The ratio of the medians of CPU time, with its 95% interval: pairs of the same query and round are drawn anew."""
    one, other = (np.ravel(side) for side in (above, below))
    rows = np.random.default_rng(7).integers(0, len(one), (1000, len(one)))
    low, high = np.quantile(np.median(one[rows], axis=1) / np.median(other[rows], axis=1), [0.025, 0.975])
    return {"median": float(np.median(one) / np.median(other)), "low": float(low), "high": float(high)}


# Large and many tenants


def used() -> dict[str, float]:
    """What this process has used so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"CPU seconds": usage.ru_utime + usage.ru_stime, "peak MB": usage.ru_maxrss / 1024}


def milliseconds(times: Sequence[float]) -> dict[str, float]:
    p50, p95 = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.95))
    return {"p50 ms": p50, "p95 ms": p95}


def stage(name: str, where: str, options: argparse.Namespace) -> dict[str, Any]:
    """What one process does with the large tenant: add, prepare, or recall again and again."""
    settings = {"settings": SERVED} if "://" in where else {}
    with SkillGraph.open(where, tenant="large", embedder=SMALL_EMBEDDER, **settings) as graph:  # type: ignore[arg-type]
        if name == "add":
            there = graph.admin.stats().nodes["skill"] >= options.skills
            added = 0.0 if there else fill(graph, Texts(options.seed), options.skills)
            return {"seconds": added, **used()}
        if name == "prepare":
            return {"seconds": timed(graph.prepare), **used()}
        texts, draw, users = Texts(options.seed + 1000), random.Random(options.seed), users_of(options.skills)
        first = timed(graph.recall, texts.text(), user="user1", k=K)
        began, times = time.process_time(), []
        for _ in range(options.queries):
            time.sleep(draw.expovariate(1 / options.pause) if options.pause else 0)
            times.append(timed(graph.recall, texts.text(), user=f"user{draw.randrange(users)}", k=K))
        cpu = 1000 * (time.process_time() - began) / options.queries
        return {"first recall, seconds": first, "times": times, "CPU ms": cpu, **used()}


def seen_at_once(url: str) -> str:
    """How many of twenty skills that one process adds another recalls at once."""
    with (
        SkillGraph.open(url, tenant="large", settings=SERVED) as graph,
        SkillGraph.open(url, tenant="large", settings=SERVED) as other,
    ):
        seen = 0
        for place in range(20):
            new = graph.add(owner="user1", text=f"novelty{place} w1 w2", visibility="shared")
            seen += new.id in {hit.skill.id for hit in other.recall(f"novelty{place}", user="user2", k=K)}
    return f"{seen} of 20"


def large(where: str, options: argparse.Namespace) -> dict[str, Any]:
    words = ["--skills", options.skills, "--queries", options.queries, "--pause", options.pause]
    found: dict[str, Any] = {
        name: answer_of(__file__, options.what, "--stage", name, where, *words, "--seed", options.seed)
        for name in ("add", "prepare")
    }
    if "://" in where:
        found["seen at once"] = seen_at_once(where)
    theirs = processor_of(where) if "host=/" in where else 0.0
    with ThreadPoolExecutor(options.processes) as pool:
        recall = [__file__, options.what, "--stage", "recall", where, *words]
        each = list(pool.map(lambda one: answer_of(*recall, "--seed", options.seed + one), range(options.processes)))
    if theirs:
        count = options.processes * (options.queries + 1)
        found["CPU ms of the server"] = 1000 * (processor_of(where) - theirs) / count
    times = [seconds for one in each for seconds in one.pop("times")]
    worst = {name: max(one[name] for one in each) for name in each[0]}
    return {**found, "recall": {**milliseconds(times), **worst}}


def small(where: str, options: argparse.Namespace) -> dict[str, Any]:
    texts, draw = Texts(options.seed), random.Random(options.seed)
    graphs = []
    for number in range(options.tenants):
        graphs.append(SkillGraph.open(where, tenant=f"small{number}", embedder=SMALL_EMBEDDER))
        graphs[-1].add_all([replace(skill, visibility="shared") for skill in texts.skills(options.each, users=5)])
    few = draw.sample(graphs, min(100, options.tenants))
    for graph in few:
        graph.recall(texts.text(), user="user1", k=K)
    warm, times = (
        [timed(draw.choice(some).recall, texts.text(), user="user1", k=K) for _ in range(options.queries)]
        for some in (few, graphs)
    )
    for graph in graphs:
        graph.close()
    return {"of a hundred tenants": milliseconds(warm), "of all": milliseconds(times), **used()}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        sizes=[10_000, 50_000],
        queries=(0, "default: 300 beside FAISS, 200 of a process"),
        skills=(1_000_000, "number of skills of the large tenant"),
        processes=(1, "that recall at once"),
        pause=(0.0, "mean seconds between two recalls of a process"),
        tenants=(0, "number of small tenants"),
        each=(100, "skills of a small tenant"),
        url=("", "PostgreSQL server; one is started by default"),
        seed=7,
    )
    parser.add_argument("what", choices=("faiss", "file", "postgres"))
    parser.add_argument("--stage", nargs=2, metavar=("NAME", "WHERE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.queries = options.queries or (300 if options.what == "faiss" else 200)
    if options.stage:
        found = stage(options.stage[0], options.stage[1], options)
        print(json.dumps(found))
        return found
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.what == "faiss":
            asked = (options.queries, options.seed, folder)
            return tell({"k": K, "sizes": [beside_faiss(size, *asked) for size in options.sizes]}, options.json)
        result: dict[str, Any] = {"store": options.what, "skills": options.skills, "processes": options.processes}
        path = str(folder / "skills.db")
        started = nullcontext(options.url or path) if options.url or options.what == "file" else server(SERVER)
        with started as where:
            result["large tenant"] = large(where, options)
            if options.tenants:
                result[f"{options.tenants} tenants of {options.each} skills"] = small(where, options)
        if options.what == "file":
            result["MB on disk"] = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
    return tell(result, options.json)


if __name__ == "__main__":
    main()
