"""A skill graph on a PostgreSQL server that ends connections, is behind a pooler, is locked, foreign or not there.

A tenant that is too large for a process is searched by the server, which recalls what a process in memory would.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from agentfw_memory import (
    GraphSettings,
    NewSkill,
    SkillGraph,
    StorageError,
    StoreRefusedError,
    Trajectory,
    UnknownSkillError,
)
from agentfw_memory.graph.recall.in_database import DatabaseRecall

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("igraph")

Database = Callable[..., str]


def open_graph(url: str, tenant: str = "team", embedder: str = "hash:16", **settings: Any) -> SkillGraph:
    return SkillGraph.open(url, tenant=tenant, embedder=embedder, settings=GraphSettings(**settings))


def end_all_connections(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        (ended,) = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    return int(ended)


def test_a_graph_goes_on_when_the_server_ends_its_connections(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url) as graph, open_graph(url, tenant="other") as other:
        skill = graph.add(owner="ana", text="offer the earliest slot")
        for turn in range(2):
            assert end_all_connections(url)
            assert graph.recall("which slot?", user="ana")[0].skill.id == skill.id
            assert end_all_connections(url)
            assert other.add(owner="ben", text=f"said {turn}").text == f"said {turn}"
            assert end_all_connections(url)
            graph.learn({"id": f"t{turn}", "user": "ana", "query": "q", "outcome": "I prefer mornings."}, 0.9)
        assert len(other.skills(owner="ben")) == 2
        assert graph.admin.stats().nodes["trajectory"] == 2


def test_a_connection_may_break_inside_a_call(postgres_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres_database()
    with open_graph(url) as graph:
        skill = graph.add(owner="ana", text="offer the earliest slot")
        store = graph._rows
        add_edges = type(store).add_edges
        breaks = iter([True, False])

        def breaking(*values: Any) -> int:
            if next(breaks, False):
                end_all_connections(url)
            return add_edges(*values)

        monkeypatch.setattr(type(store), "add_edges", breaking)
        graph.add(owner="ana", text="look first", tools=["calendar"])
        assert next(breaks, None) is None, "the connection was to break once"
        assert [one.text for one in graph.skills(owner="ana")] == ["offer the earliest slot", "look first"]
        graph.retire(skill.id)
        with pytest.raises(UnknownSkillError):
            graph.retire(skill.id)


def test_graphs_of_a_process_share_a_few_connections(postgres_database: Database) -> None:
    url = postgres_database()
    with ExitStack() as stack, psycopg.connect(url, autocommit=True) as admin:
        graphs = [stack.enter_context(open_graph(url, tenant=f"t{number}")) for number in range(30)]
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(lambda graph: graph.add(owner="ana", text=f"of {graph.tenant}"), graphs))
            found = list(pool.map(lambda graph: graph.recall("of", user="ana"), graphs))
        assert [[hit.skill.text for hit in hits] for hits in found] == [[f"of t{number}"] for number in range(30)]
        (connections,) = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"  # the server's own processes come and go
        ).fetchone()
        assert 1 <= connections <= 10


def test_all_works_behind_a_pooler(postgres_database: Database, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was prepared, set or locked on a connection is there at its next transaction."""
    from psycopg_pool import ConnectionPool

    url, put_back, transactions = postgres_database(), ConnectionPool.putconn, 0

    def discarding(pool: Any, connection: Any) -> None:
        nonlocal transactions
        transactions += 1
        connection.pgconn.exec_(b"DISCARD ALL")  # psycopg would remember if it was told
        put_back(pool, connection)

    monkeypatch.setattr(ConnectionPool, "putconn", discarding)
    with open_graph(url) as graph:
        kept = graph.add(owner="ana", text="offer the earliest slot", tools=["calendar"], scenarios=["meeting"])
        graph.update(kept.id, text="offer the latest slot")
        graph.add(owner="ben", text="never move lunch", visibility="shared")
        graph.set_profile("ana", "likes mornings")
        trip = {"id": "t1", "user": "ana", "query": "move it", "outcome": "Ana prefers mornings.", "steps": []}
        assert graph.learn(trip, 0.9).added
        graph.prepare()
        assert {hit.skill.owner for hit in graph.recall("slot", user="ana", k=10)} == {"ana", "ben"}
        graph.admin.export_jsonl(tmp_path / "out.jsonl")
        assert graph.forget("ana").skills == 2
    assert SkillGraph.reembed(url, tenant="team", embedder="hash:8") == 1
    with open_graph(url, "copy") as copy:
        copy.admin.import_jsonl(tmp_path / "out.jsonl")
        assert copy.recall("slot", user="ana")[0].skill.id == kept.id
    assert SkillGraph.tenants(url) == ["copy", "team"]
    assert transactions > 50


def test_what_is_heard_without_waiting_for_the_disk_is_there_for_other_processes(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url, hearing_waits=False) as graph, open_graph(url) as other:
        heard = graph.hear("I live in Berlin.", user="ana", conversation="tea", id="m1")
        assert [hit.skill.id for hit in other.recall("Where do I live?", user="ana")] == [*heard.kept]
        assert other.hear("I live in Berlin.", user="ana", conversation="tea", id="m1").known_already


def test_vectors_may_have_any_dimension_and_be_made_anew(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url, embedder="hash:4000") as graph:
        graph.add(owner="ana", text="Offer the earliest slot first")
    with pytest.raises(StoreRefusedError, match="were made by hash"):
        open_graph(url)
    assert SkillGraph.reembed(url, tenant="team", embedder="hash:16") == 1
    with open_graph(url) as graph:
        assert graph.recall("slot", user="ana")[0].skill.text == "Offer the earliest slot first"


def test_what_is_newer_or_somebody_elses_is_refused_and_left_alone(postgres_database: Database) -> None:
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


def test_forgetting_locks_no_other_tenant_out(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url) as graph, open_graph(url, tenant="other") as other:
        graph.add(owner="ana", text="offer the earliest slot")
        kept = other.add(owner="ben", text="never move lunch")
        with ThreadPoolExecutor(1) as pool, other._rows.writing() as change:
            other._rows.end_skills(change, [int(kept.id[1:])])
            # Their transaction is open all the while.
            assert pool.submit(graph.forget, "ana").result(timeout=60).skills == 1
        assert other.skills(owner="ben") == []


# Searched by the server


WORDS = (
    *("slot", "lunch", "meeting", "calendar", "mail", "early", "late", "phone"),
    *("window", "aisle", "hotel", "train", "Berlin", "Lisbon", "invoice", "report"),
)


def fill(graph: SkillGraph, count: int, seed: int = 7) -> None:
    draw = random.Random(seed)
    skills = graph.add_all(
        NewSkill(
            f"user{draw.randrange(12)}",
            f"{' '.join(draw.choices(WORDS, k=6))} number {place}",
            (f"tool{draw.randrange(3)}",),
            (f"scenario{draw.randrange(8)}",),
            "shared" if draw.random() < 0.7 else "private",
            1e9 + 1000 * place,
            {"n": place % 7},
        )
        for place in range(count)
    )
    for trip in range(count // 4):
        used = tuple(skill.id for skill in draw.sample(skills, 3))
        learned = Trajectory(f"trip {trip}", f"user{draw.randrange(12)}", "q", (f"scenario{trip % 8}",), skills=used)
        graph.learn(learned, draw.random())
    graph.connect(skills[0].id, "CONFLICTS", skills[1].id)
    graph.set_profile("user3", "likes mornings and the window")


def test_a_database_recalls_alike_in_nine_queries(postgres_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each query, it waits for a free core of the server, and for the network."""
    url, asked, execute = postgres_database(), 0, psycopg.Cursor.execute

    def counted(cursor: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        return execute(cursor, *arguments, **options)

    draw = random.Random(1)
    with open_graph(url) as memory, open_graph(url, in_memory_up_to=0) as served:
        fill(memory, 200)
        served.prepare()
        memory.prepare()
        assert isinstance(served._recaller._by, DatabaseRecall)
        assert not isinstance(memory._recaller._by, DatabaseRecall)
        same = total = 0
        for turn in range(20):
            user, query = f"user{draw.randrange(12)}", " ".join(draw.choices(WORDS, k=3))
            where = {"n": turn % 7} if turn % 2 else {}
            here, there = (graph.recall(query, user=user, k=10, where=where) for graph in (memory, served))
            assert all(hit.skill.visibility == "shared" or hit.skill.owner == user for hit in there)
            total += len(here)
            same += len({hit.skill.id for hit in here} & {hit.skill.id for hit in there})
            assert there[0].score == pytest.approx(here[0].score, abs=0.05)
        assert same / total > 0.9
        assert served.admin.stats().communities == memory.admin.stats().communities
        monkeypatch.setattr(psycopg.Cursor, "execute", counted)
        assert len(served.recall("an early train to Lisbon", user="user3", k=10)) == 10
        assert 0 < asked <= 9


def test_a_database_finds_as_many_by_words_as_are_asked_for(postgres_database: Database) -> None:
    with open_graph(postgres_database(), in_memory_up_to=0, query_similarity="words") as graph:
        graph.add_all(NewSkill("ana", f"the train of {number}", visibility="shared") for number in range(150))
        assert len(graph.recall("train", user="ben", k=140)) == 140


def test_an_unprepared_graph_says_how_to_be_fast(postgres_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    with open_graph(postgres_database(), in_memory_up_to=0) as graph:
        graph.add(owner="ana", text="offer the earliest slot", visibility="shared")
        assert graph.recall("which slot?", user="ben")[0].skill.text == "offer the earliest slot"
        assert "agentfw memory prepare" in caplog.text
        caplog.clear()
        graph.prepare()
        assert graph.recall("which slot?", user="ben")
        assert not caplog.records


def test_a_graph_that_the_server_searches_learns_as_others_do(postgres_database: Database) -> None:
    sharing: dict[str, Any] = {"share_after": 3, "skills_per_owner": 3, "merge_above": 0.8}
    with open_graph(postgres_database(), in_memory_up_to=0, **sharing) as graph:

        def say(user: str, number: int, wish: str, about: str = "trip") -> Any:
            told = Trajectory(f"{user} {number}", user, "q", (about,), (), f"I prefer {wish}.")
            return graph.learn(told, 0.5)

        learned = [say(user, 1, "window seats") for user in ("ana", "ben", "cleo")]
        assert len(learned[-1].shared) == 1
        changed = say("ana", 2, "window seats, always")
        assert changed.updated or changed.retired
        for number, wish in enumerate(("tea", "jazz", "mornings", "trains", "hotels with a pool")):
            say("ben", number + 2, wish, f"s{number}")
        assert len(graph.skills(owner="ben")) == 3
        assert graph.forget("cleo").skills == 1
        assert {hit.skill.owner for hit in graph.recall("seats", user="ana", k=20)} == {"ana"}


def test_a_graph_moves_to_the_database_when_it_outgrows_the_process(postgres_database: Database) -> None:
    with open_graph(postgres_database(), in_memory_up_to=50) as graph:
        fill(graph, 50)
        graph.recall("slot", user="user1")
        assert not isinstance(graph._recaller._by, DatabaseRecall)
        fill(graph, 60, seed=8)
        assert graph.recall("slot", user="user1")
        assert isinstance(graph._recaller._by, DatabaseRecall)
        assert len(graph._recaller.cache) < 50
