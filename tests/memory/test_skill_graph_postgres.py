"""A skill graph on a PostgreSQL server: the whole of it, several processes, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentfw_memory import GraphSettings, SkillGraph, StorageError, StoreRefusedError

pytest.importorskip("psycopg")

Database = Callable[..., str]

WRITER = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="team", embedder="hash:64") as graph:
    for place in range(8):
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
        for name in ("ana", "ben")
    ]
    acknowledged = [line for writer in writers for line in writer.communicate()[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(set(acknowledged)) == 16
    with open_graph(url) as graph:
        assert graph.admin.stats().nodes["skill"] == 24
        assert {graph.get(one).id for one in acknowledged} == set(acknowledged)
        assert len(graph.recall("said by all", user="nobody", k=50)) == 8


def test_what_is_heard_without_waiting_for_the_disk_is_there_for_other_processes(postgres_database: Database) -> None:
    url, settings = postgres_database(), GraphSettings(hearing_waits=False)
    with SkillGraph.open(url, tenant="team", embedder="hash:64", settings=settings) as graph, open_graph(url) as other:
        heard = graph.hear("I live in Berlin.", user="ana", conversation="tea", id="m1")
        assert [hit.skill.id for hit in other.recall("Where do I live?", user="ana")] == [*heard.kept]
        assert other.hear("I live in Berlin.", user="ana", conversation="tea", id="m1").known_already


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
    with pytest.raises(StorageError, match="can't be reached") as refused:
        open_graph("postgresql://ana:hunter2@127.0.0.1:1/team")
    assert "hunter2" not in f"{refused.value} {refused.value.fix}"


@pytest.mark.slow
def test_forgetting_locks_no_other_tenant_out(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url) as graph:
        with open_graph(url, tenant="other") as other:
            graph.add(owner="ana", text="offer the earliest slot")
            kept = other.add(owner="ben", text="never move lunch")
            with other._rows.writing() as change:  # a transaction that is open all the while
                assert graph.forget("ana").skills == 1
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
