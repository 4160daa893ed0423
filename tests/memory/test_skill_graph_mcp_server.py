"""The skill graph as an MCP server, asked by a real client over pipes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import SkillGraph

mcp = pytest.importorskip("mcp")

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
    with SkillGraph.open(tmp_path / "a.db", tenant="another", embedder="hash") as graph:
        theirs = [graph.add(owner="ben", text=f"The earliest slot {n}", visibility="shared").id for n in range(9)][-1]
    words = ["-m", "agentfw_cli.main", "memory", "serve", "--store", str(tmp_path / "a.db"), "--tenant", "team"]

    async def talk() -> None:
        parameters = mcp.StdioServerParameters(command=sys.executable, args=[*words, "--embedder", "hash"])
        async with mcp.Client(mcp.stdio_client(parameters)) as client:
            await exchange(client)
            answer = await client.call_tool("history", {"skill": theirs})
            assert answer.is_error, "it is another tenant's"

    asyncio.run(asyncio.wait_for(talk(), 120))
    with SkillGraph.open(tmp_path / "a.db", tenant="team") as graph:
        assert graph.admin.stats().nodes["skill"] == 0
