"""A skill graph on a PostgreSQL server: the whole of it, several processes, and what is refused."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agentfw_memory import GraphSettings, NewSkill, SkillGraph, StoreRefusedError

pytest.importorskip("psycopg")

Database = Callable[..., str]

WRITER = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="team", embedder="hash:64") as graph:
    for place in range(20):
        skill = graph.add(owner=sys.argv[2], text=f"{sys.argv[2]} says {place}")
        graph.add(owner="everybody", text=f"said by all, {place}", visibility="shared")
        print(skill.id, flush=True)
"""


def open_graph(url: str, tenant: str = "team", embedder: str = "hash:64") -> SkillGraph:
    return SkillGraph.open(url, tenant=tenant, embedder=embedder)


@pytest.mark.slow
def test_processes_write_at_once_and_nothing_is_lost_or_twice(postgres_database: Database) -> None:
    url = postgres_database()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, name], stdout=subprocess.PIPE, text=True)
        for name in ("ana", "ben", "cleo")
    ]
    acknowledged = [line for writer in writers for line in writer.communicate()[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(set(acknowledged)) == 60
    with open_graph(url) as graph:
        assert graph.admin.stats().nodes["skill"] == 80
        assert {graph.get(one).id for one in acknowledged} == set(acknowledged)
        assert len(graph.recall("said by all", user="nobody", k=50)) == 20


def test_vectors_may_have_any_dimension_and_be_made_anew(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url, embedder="hash:4000") as graph:
        graph.add(owner="ana", text="Offer the earliest slot first")
    with pytest.raises(StoreRefusedError, match="were made by hash"):
        open_graph(url)
    assert SkillGraph.reembed(url, tenant="team", embedder="hash:64") == 1
    with open_graph(url) as graph:
        assert graph.recall("slot", user="ana")[0].skill.text == "Offer the earliest slot first"


def test_what_is_newer_or_somebody_elses_is_refused_and_left_alone(postgres_database: Database) -> None:
    import psycopg

    newer, foreign = postgres_database("newer"), postgres_database("foreign")
    open_graph(newer).close()
    with psycopg.connect(newer, autocommit=True) as connection:
        connection.execute("UPDATE skillgraph.format SET version = 99")
    with pytest.raises(StoreRefusedError, match="another version"):
        open_graph(newer)
    with psycopg.connect(foreign, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA skillgraph")
    with pytest.raises(StoreRefusedError, match="another program"):
        open_graph(foreign)


def test_a_server_that_isnt_there_is_told_without_the_password() -> None:
    with pytest.raises(StoreRefusedError, match="can't be reached") as refused:
        open_graph("postgresql://ana:hunter2@127.0.0.1:1/team")
    assert "hunter2" not in f"{refused.value} {refused.value.fix}"


@pytest.mark.slow
def test_no_byte_of_who_is_forgotten_is_in_the_tables_files(postgres_database: Database) -> None:
    import psycopg

    url = postgres_database()
    with psycopg.connect(url) as connection:
        own = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert own is not None
    files = Path(parse_qs(urlsplit(url).query)["host"][0]) / "base" / str(own[0])
    mark = "inimitabl"  # as the word is stemmed

    def found() -> dict[str, int]:
        counts = {path.name: path.read_bytes().count(mark.encode()) for path in files.rglob("*") if path.is_file()}
        return {name: count for name, count in counts.items() if count}

    served = GraphSettings(in_memory_up_to=0)
    with (
        SkillGraph.open(url, tenant="team", embedder="hash:64", settings=served) as graph,
        psycopg.connect(url, autocommit=True) as server,
    ):
        draw = random.Random(7)
        for part in range(4):
            for owner in ("ben", "inimitable-ana", "cleo"):
                about = "inimitable" if owner == "inimitable-ana" else "plain"
                skills = graph.add_all(
                    NewSkill(owner, f"{about} {part} {place} " + f"{about} " * draw.choice([1, 30, 200, 1500]))
                    for place in range(20)
                )
                graph.update(skills[0].id, text=f"{about} anew {part}", tools=[f"{about} tool"])
                outcome = f"{about} wants tea."
                graph.learn({"id": f"{about}-{part}", "user": owner, "query": about, "outcome": outcome}, 0.9)
        graph.set_profile("inimitable-ana", "inimitable profile " * 300)
        graph.prepare()
        graph.recall("inimitable", user="inimitable-ana")
        server.execute("ANALYZE")
        server.execute("CHECKPOINT")
        assert sum(found().values()) > 500
        assert graph.forget("inimitable-ana").versions >= 84
        server.execute("CHECKPOINT")
        assert not found()
        assert {hit.skill.owner for hit in graph.recall("plain", user="ben", k=50)} == {"ben"}


@pytest.mark.slow
def test_forgetting_locks_no_other_tenant_out(postgres_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    url = postgres_database()
    with SkillGraph.open(url, tenant="team", embedder="hash:64", settings=GraphSettings(patience=0.5)) as graph:
        with open_graph(url, tenant="other") as other:
            graph.add(owner="ana", text="offer the earliest slot")
            kept = other.add(owner="ben", text="never move lunch")
            with other._rows.writing() as change:  # a transaction that is open all the while
                assert graph.forget("ana").skills == 1
                assert "began before the deletion" in caplog.text
                other._rows.end_skills(change, [int(kept.id[1:])])
            assert other.skills(owner="ben") == []
        over = threading.Event()

        def work() -> list[float]:
            """Add one skill after another, and return how long each took."""
            took: list[float] = []
            with open_graph(url, tenant="busy") as busy:
                while not over.is_set():
                    began = time.monotonic()
                    busy.add(owner="ben", text=f"said {len(took)}")
                    took.append(time.monotonic() - began)
            return took

        with ThreadPoolExecutor(1) as pool:
            busy = pool.submit(work)
            for turn in range(5):
                graph.add(owner="ana", text=f"said {turn}")
                graph.forget("ana")
            over.set()
            assert len(busy.result()) > 10, "the other tenant went on meanwhile"
