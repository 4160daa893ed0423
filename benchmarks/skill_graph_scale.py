"""Large and many tenants: how long adding and a recall take, how much memory a process has, and what others see.

    python benchmarks/skill_graph_scale.py                       # a million skills in a file: half an hour
    python benchmarks/skill_graph_scale.py postgres --skills 30000    # starts a server in a folder
    python benchmarks/skill_graph_scale.py postgres --url postgresql://... --processes 8 --pause 2 --tenants 0

In a file, one tenant is searched in memory; on PostgreSQL the database searches it, several processes recall at once,
and what one adds another must recall at once. Each stage has processes of its own, so that peak memory is its own.
With `--pause`, a process waits between its recalls, as users do; otherwise each recall waits for those of the others.
`--tenants` are many small ones in one process. `--url` may have a large tenant already, which is then asked only.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from pprint import pprint
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, answer_of, tell, timed
from agentfw_benchmarks.postgres import processor_of, server
from agentfw_benchmarks.skill_texts import Texts, fill, users_of
from agentfw_memory import GraphSettings, SkillGraph

EMBEDDER, K = "hash:256", 10
SERVED = GraphSettings(in_memory_up_to=0)
SERVER = ("maintenance_work_mem = '2GB'", "max_wal_size = '8GB'", "fsync = off")


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
    with SkillGraph.open(where, tenant="large", embedder=EMBEDDER, **settings) as graph:  # type: ignore[arg-type]
        if name == "add":
            there = graph.admin.stats().nodes["skill"] >= options.skills
            added = 0.0 if there else sum(each for _, each in fill(graph, Texts(options.seed), options.skills))
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
        name: answer_of(__file__, options.store, "--stage", name, where, *words, "--seed", options.seed)
        for name in ("add", "prepare")
    }
    if "://" in where:
        found["seen at once"] = seen_at_once(where)
    theirs = processor_of(where) if "host=/" in where else 0.0
    with ThreadPoolExecutor(options.processes) as pool:
        recall = [__file__, options.store, "--stage", "recall", where, *words]
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
        graphs.append(SkillGraph.open(where, tenant=f"small{number}", embedder=EMBEDDER))
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
        skills=(1_000_000, "number of skills of the large tenant"),
        processes=(1, "that recall at once"),
        pause=(0.0, "mean seconds between two recalls of a process"),
        tenants=(0, "number of small tenants"),
        each=(100, "skills of a small tenant"),
        queries=200,
        url=("", "PostgreSQL server; one is started by default"),
        seed=7,
    )
    parser.add_argument("store", nargs="?", choices=("file", "postgres"), default="file")
    parser.add_argument("--stage", nargs=2, metavar=("NAME", "WHERE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        found = stage(*options.stage, options)
        print(json.dumps(found))
        return found
    result: dict[str, Any] = {"store": options.store, "skills": options.skills, "processes": options.processes}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "skills.db")
        started = nullcontext(options.url or path) if options.url or options.store == "file" else server(SERVER)
        with started as where:
            result["large tenant"] = large(where, options)
            if options.tenants:
                result[f"{options.tenants} tenants of {options.each} skills"] = small(where, options)
        if options.store == "file":
            result["MB on disk"] = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
    return tell(result, options.json, pprint)


if __name__ == "__main__":
    main()
