"""An embedder on a server: batches, a cache, and what happens when the server is wrong or gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from agentfw_memory import BadInputError, NewSkill, SkillGraph, StorageError
from agentfw_memory.graph.index import embedders
from agentfw_memory.graph.index.embedders import HashEmbedder, open_embedder

Vectors = list[list[float]]


class Server:
    """A real HTTP server with hashed vectors. `answer` may be replaced to misbehave."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.statuses: list[int] = []
        self.keys: set[str | None] = set()
        self.answer: Callable[[list[str]], Vectors] = lambda texts: HashEmbedder(32).embed(texts).tolist()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.keys.add(self.headers.get("authorization"))
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = server.statuses.pop(0) if server.statuses else 200
                server.asked.append(body["input"])
                rows = [{"index": at, "embedding": row} for at, row in enumerate(server.answer(body["input"]))]
                data = json.dumps({"data": rows[::-1]} if status == 200 else {"error": "no"}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("httpx")
    running = Server()
    monkeypatch.setenv(embedders.URL, f"http://127.0.0.1:{running.http.server_port}/v1")
    monkeypatch.setattr(embedders, "PAUSE", 0.001)
    yield running
    running.close()


def skills_in(graph: SkillGraph) -> int:
    return graph.admin.stats().nodes["skill"]


def test_texts_are_sent_in_batches(server: Server) -> None:
    texts = [f"text {place}" for place in range(150)]
    embedder = open_embedder("http:model")
    server.asked.clear()

    rows = embedder.embed(texts)
    again = embedder.embed(texts[::-1])

    assert [len(batch) for batch in server.asked] == [64, 64, 22] * 2
    assert rows == pytest.approx(HashEmbedder(32).embed(texts), abs=1e-6)
    assert np.array_equal(again, rows[::-1])


def test_a_graph_is_opened_again_where_the_server_moved_to(
    server: Server, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(embedders.KEY, "a key")
    with SkillGraph.open(tmp_path / "s.db", tenant="t", embedder="http:model") as graph:
        graph.add(owner="ana", text="offer the earliest slot")
    other = Server()
    monkeypatch.setenv(embedders.URL, f"http://127.0.0.1:{other.http.server_port}/v1/")

    with SkillGraph.open(tmp_path / "s.db", tenant="t") as graph:
        assert [hit.skill.text for hit in graph.recall("slot", user="ana")] == ["offer the earliest slot"]

    other.close()
    assert server.keys == other.keys == {"Bearer a key"}
    assert b"a key" not in (tmp_path / "s.db").read_bytes()


def test_a_server_that_is_busy_is_asked_again(server: Server) -> None:
    embedder = open_embedder("http:model")
    server.statuses = [503, 429]

    assert embedder.embed(["tea"]).shape == (1, 32)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda texts: [[1.0] * 31 for _ in texts], r"shape \(3, 31\)"),
        (lambda texts: [[float("nan")] * 32 for _ in texts], "NaN"),
        (lambda texts: [[1.0] * 32 for _ in texts][1:], "3 vectors"),
        (lambda texts: [[1.0] * (32 - place) for place, _ in enumerate(texts)], "3 vectors"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_stored(server: Server, answer: Any, problem: str) -> None:
    with SkillGraph.open(":memory:", tenant="t", embedder="http:model") as graph:
        server.answer = answer

        with pytest.raises(BadInputError, match=problem):
            graph.add_all(NewSkill("ana", f"text {place}") for place in range(3))

        assert skills_in(graph) == 0


def test_a_server_that_goes_in_the_middle_of_a_call_leaves_nothing_half_written(server: Server) -> None:
    skills = [NewSkill("ana", f"text {place}") for place in range(100)]
    with SkillGraph.open(":memory:", tenant="t", embedder="http:model") as graph:
        server.statuses = [200, *[500] * 10]

        with pytest.raises(StorageError, match="answered 500"):
            graph.add_all(skills)

        server.statuses = []
        before = skills_in(graph)
        graph.add_all(skills)

        assert (before, skills_in(graph)) == (0, 100)


def test_an_address_that_nobody_listens_on_is_a_clear_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.close()
    with pytest.raises(StorageError, match="doesn't answer"):
        open_embedder("http:model")

    monkeypatch.delenv(embedders.URL)
    with pytest.raises(BadInputError, match=embedders.URL):
        open_embedder("http:model")
