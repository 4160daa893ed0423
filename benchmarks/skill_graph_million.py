"""A million skills on one machine: the time to add, prepare and load them, memory use, and the latency of a recall.

    python benchmarks/skill_graph_million.py                      # half an hour and 10 GB of disk
    python benchmarks/skill_graph_million.py --skills 20000 --json

Each stage runs in its own process, so that its peak memory is its own. `prepare` builds the search index and computes
the communities once. `recall` runs in a later process that loads both.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, answer_of, tell, timed
from agentfw_benchmarks.skill_texts import Texts, fill, users_of
from agentfw_memory import SkillGraph

EMBEDDER = "hash:256"
LIMIT_MS = 50
STAGES = ("add", "prepare", "recall")


def stage(name: str, path: str, skills: int, queries: int, seed: int) -> dict[str, Any]:
    if name == "add":
        with SkillGraph.open(path, tenant="team", embedder=EMBEDDER) as graph:
            seconds = [each for _, each in fill(graph, Texts(seed), skills)]
        return {"seconds": sum(seconds), "adds/s": skills / sum(seconds), "CPU seconds": cpu(), "peak MB": peak()}
    graph = SkillGraph.open(path, tenant="team")
    if name == "prepare":
        return {"seconds": timed(graph.prepare), "CPU seconds": cpu(), "peak MB": peak()}
    texts, generator = Texts(seed + 1), random.Random(seed)
    first = timed(graph.recall, texts.text(), user="user1", k=10)
    loaded = {"first recall, seconds": first, "CPU seconds": cpu(), "peak MB": peak()}
    users = users_of(skills)
    times = [timed(graph.recall, texts.text(), user=f"user{generator.randrange(users)}", k=10) for _ in range(queries)]
    p50, p95 = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.95))
    return {**loaded, "p50 ms": p50, "p95 ms": p95, "communities": graph.stats().communities}


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(result: dict[str, Any]) -> None:
    print(f"{result['skills']:,} skills, {result['MB on disk']:,.0f} MB on disk")
    for name in STAGES:
        print(f"  {name:8}" + "   ".join(f"{what} {_told(value)}" for what, value in result[name].items()))
    print(f"limit: p50 {LIMIT_MS} ms")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, skills=1_000_000, queries=500, seed=7)
    parser.add_argument("--stage", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        name, path = options.stage
        found = stage(name, path, options.skills, options.queries, options.seed)
        print(json.dumps(found))
        return found
    began = time.perf_counter()
    result: dict[str, Any] = {"skills": options.skills}
    with tempfile.TemporaryDirectory() as folder:
        words = ["--skills", options.skills, "--queries", options.queries, "--seed", options.seed]
        for name in STAGES:
            result[name] = answer_of(__file__, "--stage", name, Path(folder) / "skills.db", *words)
        result["MB on disk"] = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
    result["seconds"] = time.perf_counter() - began
    return tell(result, options.json, show)


def _told(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
