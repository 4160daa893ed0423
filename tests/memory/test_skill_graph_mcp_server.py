"""The skill graph as an MCP server, asked by a real client: over pipes, and over HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw_memory import BadInputError, SkillGraph, StorageError
from agentfw_memory.graph.exchange.mcp_server import serve_http

mcp = pytest.importorskip("mcp")

TOKEN = "a-token-for-this-test-alone"
STDIO = """
import sys
from agentfw_memory import SkillGraph
from agentfw_memory.graph.exchange.mcp_server import serve_stdio
with SkillGraph.open(sys.argv[1], tenant="team", embedder="hash") as graph:
    serve_stdio(graph)
"""
HTTP = """
import sys
from agentfw_memory import SkillGraph
from agentfw_memory.graph.exchange.mcp_server import serve_http
with SkillGraph.open(sys.argv[1], tenant="team", embedder="hash") as graph:
    serve_http(graph, port=int(sys.argv[2]), token=sys.argv[3])
"""
TRIP = {"id": "t1", "user": "ana", "query": "move it", "outcome": "Ana prefers mornings."}


async def exchange(client: Any) -> None:
    """All that the server can do, and what it refuses."""
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert tools == {"recall", "list", "history", "add", "update", "retire", "delete", "learn", "hear", "forget"}

    async def call(name: str, **arguments: Any) -> Any:
        answer = await client.call_tool(name, arguments)
        text = answer.content[0].text if answer.content else ""
        return text if answer.is_error else answer.structured_content

    added = await call("add", owner="ana", text="Offer the earliest slot first", tools=["calendar"])
    assert added["tools"] == ["calendar"]
    assert len((await call("learn", trajectory=TRIP, reward=0.9))["added"]) == 1
    assert (await call("learn", trajectory=TRIP, reward=0.9))["known_already"]
    heard = await call("hear", text="I'm allergic to peanuts.", user="cleo", id="m1")
    assert len(heard["kept"]) == 1
    assert (await call("hear", text="I'm allergic to peanuts.", user="cleo", id="m1"))["known_already"]
    await call("delete", skills=heard["kept"])
    hits = (await call("recall", query="which slot is the earliest?", user="ana"))["result"]
    assert hits[0]["skill"]["text"] == "Offer the earliest slot first"
    assert hits[0]["why"]["path"] == "similar to the query"
    assert (await call("recall", query="which slot?", user="ben"))["result"] == []
    assert "the query is empty; pass some text" in await call("recall", query=" ", user="ana")
    assert "not a trajectory" in await call("learn", trajectory={"mood": "good"}, reward=1)
    note = (await call("add", owner="ana", text="Ask twice", metadata={"kind": "note"}, expires_at=4e9))["id"]
    where = {"kind": {"$in": ["note"]}}
    assert [one["id"] for one in (await call("list", owner="ana", where=where))["result"]] == [note]
    assert (await call("recall", query="ask", user="ana", where=where))["result"][0]["skill"]["id"] == note
    assert (await call("update", skill=note, text="Ask once"))["metadata"] == {"kind": "note"}
    assert [one["text"] for one in (await call("history", skill=note))["versions"]] == ["Ask twice", "Ask once"]
    assert await call("retire", skill=note) == {"retired": note}
    assert f'unknown skill "{note}"' in await call("retire", skill=note)
    assert "Unsupported operator" in await call("list", owner="ana", where={"kind": {"$near": 1}})
    assert (await call("delete", skills=[note], version=0))["versions"] == 1
    assert [one["number"] for one in (await call("history", skill=note))["versions"]] == [1]
    assert "name one skill with a version" in await call("delete", skills=[note, "s1"], version=1)
    assert (await call("delete", skills=[note]))["versions"] == 1
    assert f'unknown skill "{note}"' in await call("history", skill=note)
    assert (await call("forget", user="ana"))["skills"] == 2
    assert (await call("recall", query="which slot?", user="ana"))["result"] == []


@pytest.mark.slow
def test_over_pipes(tmp_path: Path) -> None:
    async def talk() -> None:
        parameters = mcp.StdioServerParameters(command=sys.executable, args=["-c", STDIO, str(tmp_path / "a.db")])
        async with mcp.Client(mcp.stdio_client(parameters)) as client:
            await exchange(client)

    asyncio.run(asyncio.wait_for(talk(), 120))
    with SkillGraph.open(tmp_path / "a.db", tenant="team") as graph:
        assert graph.admin.stats().nodes["skill"] == 0


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", HTTP, str(tmp_path / "a.db"), str(port), TOKEN])
    try:
        until = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
def test_over_http_with_the_token(address: str) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def talk() -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
            mcp.Client(streamable_http_client(address, http_client=http)) as client,
        ):
            await exchange(client)

    asyncio.run(asyncio.wait_for(talk(), 120))


@pytest.mark.slow
def test_nobody_is_answered_without_the_token(address: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    headers = {"content-type": "application/json", "accept": "application/json"}
    with httpx.Client(trust_env=False) as client:
        for brought in ("", "Bearer", f"Bearer {TOKEN}x", TOKEN, "Basic YTpi"):
            for path in ("", "/other"):
                answer = client.post(f"{address}{path}", content=body, headers={**headers, "authorization": brought})
                assert answer.status_code == 401
                assert "recall" not in answer.text


def test_a_port_that_is_taken_is_told() -> None:
    with (
        socket.socket() as taken,
        SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph,
    ):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StorageError, match="can't listen on"):
            serve_http(graph, port=taken.getsockname()[1], token=TOKEN)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks into /proc for who listens where")
def test_it_listens_on_this_machine_alone(address: str) -> None:
    port = f"{int(address.rsplit(':', 1)[1].removesuffix('/mcp')):04X}"
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        if os.path.exists(f"/proc/net/{table}")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    assert {row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port}")} == {f"0100007F:{port}"}


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with (
        SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph,
        pytest.raises(BadInputError, match="can be guessed"),
    ):
        serve_http(graph, port=1, token="secret")
