"""A skill graph whose PostgreSQL server ends connections, restarts, is behind a pooler, or doesn't answer."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agentfw_memory import GraphSettings, SkillGraph, StoreBusyError, UnknownSkillError

psycopg = pytest.importorskip("psycopg")

Database = Callable[..., str]


def open_graph(url: str, tenant: str = "team", patience: float = 20.0) -> SkillGraph:
    return SkillGraph.open(url, tenant=tenant, embedder="hash:16", settings=GraphSettings(patience=patience))


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


def test_a_connection_that_breaks_inside_a_call_costs_nothing_and_doubles_nothing(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert [one.text for one in graph.skills(owner="ana")] == [
            "offer the earliest slot",
            "look first",
        ]
        graph.retire(skill.id)
        with pytest.raises(UnknownSkillError):
            graph.retire(skill.id)


def test_a_recall_waits_for_a_locked_table_only_so_long(postgres_database: Database) -> None:
    url = postgres_database()
    with open_graph(url, patience=0.3) as graph, psycopg.connect(url) as admin:
        graph.add(owner="ana", text="offer the earliest slot")
        admin.execute("LOCK TABLE skillgraph.tenant IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreBusyError, match="held the graph"):
            graph.recall("slot", user="ana")
        admin.rollback()
        assert graph.recall("slot", user="ana")


@pytest.mark.slow
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
        ).fetchone()
        assert 1 <= connections <= 10


class TransactionPooler:
    """Gives each transaction a connection to the server that nothing has happened on, as a busy PgBouncer may."""

    def __init__(self, folder: str) -> None:
        self._server = os.path.join(folder, ".s.PGSQL.5432")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.transactions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            length = struct.unpack("!I", received(client, 4))[0]
            greeting = struct.pack("!I", length) + received(client, length - 4)
            while greeting[4:8] in (struct.pack("!I", 80877103), struct.pack("!I", 80877104)):  # encryption
                client.sendall(b"N")
                length = struct.unpack("!I", received(client, 4))[0]
                greeting = struct.pack("!I", length) + received(client, length - 4)
            first, hello = self._connected(greeting)
            first.close()
            client.sendall(hello)
            while self._one_transaction(client, greeting):
                self.transactions += 1

    def _connected(self, greeting: bytes) -> tuple[socket.socket, bytes]:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        server.sendall(greeting)
        hello = b""
        while not hello.endswith(b"Z\x00\x00\x00\x05I"):
            hello += message(server)
        return server, hello

    def _one_transaction(self, client: socket.socket, greeting: bytes) -> bool:
        request = message(client)
        if request[:1] == b"X":
            return False
        server, _ = self._connected(greeting)
        with server:
            # After these the server says whether a transaction is open, or asks for the rows of a COPY.
            answered = (b"Q", b"S")
            while True:
                server.sendall(request)
                if request[:1] in answered:
                    answer = b""
                    while answer[:1] not in (b"Z", b"G"):
                        answer = message(server)
                        client.sendall(answer)
                    answered = (b"c", b"f") if answer[:1] == b"G" and request[:1] == b"Q" else (b"Q", b"S")
                    if answer[:1] == b"Z" and answer[-1:] == b"I":
                        return True
                request = message(client)


def message(of: socket.socket) -> bytes:
    head = received(of, 5)
    return head + received(of, struct.unpack("!I", head[1:])[0] - 4)


def received(of: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        some = of.recv(count - len(found))
        if not some:
            raise EOFError
        found += some
    return found


@pytest.mark.slow
def test_everything_works_behind_a_pooler_in_transaction_mode(postgres_database: Database, tmp_path: Any) -> None:
    url = postgres_database()
    parts = urlsplit(url)
    pooler = TransactionPooler(parse_qs(parts.query)["host"][0])
    pooled = f"postgresql://postgres@127.0.0.1:{pooler.port}{parts.path}?sslmode=disable"
    with open_graph(pooled) as graph:
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
    assert SkillGraph.reembed(pooled, tenant="team", embedder="hash:8") == 1
    with SkillGraph.open(pooled, tenant="copy", embedder="hash:16") as copy:
        copy.admin.import_jsonl(tmp_path / "out.jsonl")
        assert copy.recall("slot", user="ana")[0].skill.id == kept.id
    assert SkillGraph.tenants(pooled) == ["copy", "team"]
    pooler.close()
    assert pooler.transactions > 50
