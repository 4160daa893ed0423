"""Large and many tenants on PostgreSQL: how long a recall takes, how much memory a process has, and what is found.

    python benchmarks/skill_graph_server.py                                        # starts a server in a folder
    python benchmarks/skill_graph_server.py --skills 1000000 --processes 8 --pause 2 --tenants 0 --societies 0
    python benchmarks/skill_graph_server.py --skills 2000 --tenants 50 --json
    python benchmarks/skill_graph_server.py --url postgresql://... --skills 1000000    # with a tenant that is there

Three things are measured. `large` is one tenant that the database searches: several processes recall at once, and one
adds meanwhile what another must recall at once. With `--pause`, a process waits between its recalls, as users do;
otherwise each recall waits for those of the others. `tenants` are many small ones in one process. `quality` are
generated people with hidden preferences (skill_graph_quality.py), whose graph is searched in memory and in the
database.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import skill_graph_quality

from agentfw_benchmarks import Options, answer_of, difference_of, mean_of, shown, tell, timed
from agentfw_benchmarks.postgres import processor_of, server
from agentfw_benchmarks.skill_texts import Texts, fill, users_of
from agentfw_memory import SkillGraph
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.graph.stores.postgres import PostgresStore
from agentfw_memory.graph.stores.search import Sought

EMBEDDER = "hash:256"
SERVED = GraphSettings(in_memory_up_to=0)
SERVER = ("maintenance_work_mem = '2GB'", "max_wal_size = '8GB'", "fsync = off")
K = 10


def megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def milliseconds(times: Sequence[float]) -> dict[str, float]:
    p50, p95 = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.95))
    return {"p50 ms": p50, "p95 ms": p95}


def recall(url: str, skills: int, queries: int, pause: float, seed: int) -> dict[str, Any]:
    """What one process does: load, and recall again and again, with pauses that are so long on average."""
    texts, draw = Texts(seed + 1000), random.Random(seed)
    users = users_of(skills)
    with SkillGraph.open(url, tenant="large", settings=SERVED) as graph:
        first = timed(graph.recall, texts.text(), user="user1", k=K)
        began, times = time.process_time(), []
        for _ in range(queries):
            time.sleep(draw.expovariate(1 / pause) if pause else 0)
            times.append(timed(graph.recall, texts.text(), user=f"user{draw.randrange(users)}", k=K))
        cpu = 1000 * (time.process_time() - began) / queries
    return {"first ms": 1000 * first, "times": times, "CPU ms": cpu, "MB": megabytes()}


def nearest_found(url: str, queries: int, seed: int) -> float:
    """The share of the nearest skills that the index of vectors finds, against a comparison with all of them."""
    import psycopg

    texts, maker, found = Texts(seed + 2000), open_embedder(EMBEDDER), []
    store = PostgresStore.open(url, tenant="large")
    with psycopg.connect(url) as connection:
        (tenant,) = connection.execute("SELECT tenant FROM skillgraph.tenant WHERE name = 'large'").fetchone() or (0,)
        connection.execute("SET enable_indexscan = off")
        for _ in range(queries):
            query = maker.embed([texts.text()])[0]
            best = connection.execute(
                f"SELECT number FROM skillgraph.live WHERE tenant = {tenant} AND shared = 1 "
                f"ORDER BY vector::halfvec({len(query)}) <#> %s::real[]::halfvec({len(query)}) LIMIT {K}".encode(),
                (query.tolist(),),
            ).fetchall()
            found.append(
                len(
                    set(store.search.propose(Sought(None, query, K, (), (), 0, (), 0, None)).shared[0].tolist())
                    & {number for (number,) in best}
                )
                / K
            )
    store.close()
    return sum(found) / queries


def large(url: str, skills: int, queries: int, processes: int, pause: float, seed: int) -> dict[str, Any]:
    with SkillGraph.open(url, tenant="large", embedder=EMBEDDER, settings=SERVED) as graph:
        if not (there := graph.stats().nodes["skill"] >= skills):
            added = sum(each for _, each in fill(graph, Texts(seed), skills))
            prepared = timed(graph.prepare)
            print(f"added in {added:.0f} s, prepared in {prepared:.0f} s", file=sys.stderr)
        with SkillGraph.open(url, tenant="large", settings=SERVED) as other:
            seen = 0
            for place in range(20):
                new = graph.add_skill(owner="user1", text=f"novelty{place} w1 w2", visibility="shared")
                seen += new.id in {hit.skill.id for hit in other.recall(f"novelty{place}", user="user2", k=K)}
    words = ["--stage", url, "--skills", skills, "--queries", queries, "--pause", pause]
    theirs = processor_of(url) if "host=/" in url else 0.0
    with ThreadPoolExecutor(processes) as pool:
        found = list(pool.map(lambda one: answer_of(__file__, *words, "--seed", seed + one), range(processes)))
    theirs = processor_of(url) - theirs if theirs else 0.0
    return {
        "skills": skills,
        "processes": processes,
        **({} if there else {"added in s": added, "prepared in s": prepared}),
        **milliseconds([each for one in found for each in one["times"]]),
        "first ms": max(one["first ms"] for one in found),
        "CPU ms of the process": sum(one["CPU ms"] for one in found) / processes,
        "CPU ms of the server": 1000 * theirs / (processes * (queries + 1)) if theirs else None,
        "MB a process": max(one["MB"] for one in found),
        "seen at once": f"{seen} of 20",
        "nearest found": nearest_found(url, min(queries, 20), seed),
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
    one, many, good = result["large"], result.get("tenants"), result.get("quality")
    print(f"{one['skills']:,} skills in one tenant, {one['processes']} processes at once")
    print("  " + "   ".join(f"{name} {told(value)}" for name, value in one.items()))
    if many:
        print(f"{many['tenants']:,} tenants of {result['each']} skills in one process")
        print("  " + "   ".join(f"{name} {told(value)}" for name, value in many.items()))
    if good:
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
        pause=(0.0, "mean seconds between two recalls of a process"),
        tenants=(500, "number of small tenants; 0 leaves them out"),
        each=100,
        queries=200,
        users=(30, "people of each society"),
        societies=(3, "number of societies; 0 leaves the quality out"),
        embedder=("wordllama", "embedder of the societies"),
        url=("", "server to measure; default: one that is started in a folder"),
        seed=7,
    )
    parser.add_argument("--stage", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        found = recall(options.stage, options.skills, options.queries, options.pause, options.seed)
        print(json.dumps(found))
        return found
    result: dict[str, Any] = {"each": options.each}
    with nullcontext(options.url) if options.url else server(SERVER) as url:
        if options.societies:
            result["quality"] = quality(url, options.users, options.societies, options.embedder)
        if options.tenants:
            result["tenants"] = small(url, options.tenants, options.each, options.queries, options.seed)
        sizes = options.skills, options.queries, options.processes
        result["large"] = large(url, *sizes, options.pause, options.seed)
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
