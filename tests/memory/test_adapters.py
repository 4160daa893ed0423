"""The skill graph as a store of LangGraph, and as an MCP server that is asked by a real client over pipes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentfw_memory import SkillGraph

pytest.importorskip("igraph")


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=1_000.0)


@pytest.fixture
def graph(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[SkillGraph]:
    monkeypatch.setattr(time, "time", lambda: clock.now)
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", clock=time.time) as opened:
        yield opened


def store_of(graph: SkillGraph, **options: Any) -> Any:
    pytest.importorskip("langgraph")
    from agentfw_memory.adapters.langgraph import SkillGraphStore

    return SkillGraphStore(graph, **options)


@pytest.fixture
def store(graph: SkillGraph) -> Any:
    return store_of(graph)


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


def test_an_item_that_isnt_indexed_is_found_by_its_key_and_comes_last(store: Any, graph: SkillGraph) -> None:
    store.put(("notes",), "indexed", {"text": "green tea", "secret": "zanzibar"}, index=["text"])
    store.put(("notes",), "not", {"text": "green tea"}, index=False)
    store.put(("notes",), "all", {"text": "coffee", "tags": ["hot"], "nested": {"number": 7}})

    found = store.search(("notes",), query="green tea")
    cut = store.search(("notes",), query="green tea", limit=2)

    assert [(item.key, item.score is None) for item in found] == [("indexed", False), ("all", False), ("not", True)]
    assert keys(cut) == ["indexed", "all"]
    assert [keys(store.search(("notes",), query="green tea", limit=1, offset=one)) for one in (1, 2)] == [
        ["all"],
        ["not"],
    ]
    assert store.get(("notes",), "not").value == {"text": "green tea"}
    assert {skill.text for skill in graph.skills(owner="notes")} == {"green tea", "not", "coffee\nhot\n7"}


def test_the_fields_that_are_searched_can_be_chosen_for_all_items(graph: SkillGraph) -> None:
    store = store_of(graph, fields=["title", "parts[*].text"])
    store.put(("notes",), "1", {"title": "tea", "parts": [{"text": "green"}, {"text": "black"}], "other": "milk"})

    assert [skill.text for skill in graph.skills(owner="notes")] == ["tea\ngreen\nblack"]


def test_labels_and_keys_may_hold_anything(store: Any) -> None:
    label = "a/b%\n\t" + "ü" * 20
    for namespace in (("users", "alice"), ("users", "alice\n"), ("users", label), ("users", "alice", "deep")):
        store.put(namespace, f"key\n{'k' * 500}", {"v": list(namespace)})

    for namespace in (("users", "alice"), ("users", "alice\n"), ("users", label)):
        assert store.get(namespace, f"key\n{'k' * 500}").value == {"v": list(namespace)}
    assert store.list_namespaces(suffix=["alice"]) == [("users", "alice")]
    assert store.list_namespaces(prefix=["users", "alice"]) == [("users", "alice"), ("users", "alice", "deep")]
    assert store.list_namespaces(prefix=["users", label]) == [("users", label)]
    assert len(store.list_namespaces(prefix=["users", "*"], max_depth=1)) == 1


def test_a_prefix_ends_at_a_label_and_may_be_a_list(store: Any) -> None:
    for namespace in (("foo",), ("foo", "child"), ("foobar",), ("fo",), ("Foo",)):
        store.put(namespace, "k", {"v": 1})

    assert {item.namespace for item in store.search(["foo"])} == {("foo",), ("foo", "child")}
    assert {item.namespace for item in store.search(("fo",))} == {("fo",)}
    assert len(store.search(())) == 5


def test_filters_reach_into_items_and_bad_ones_are_refused(store: Any) -> None:
    store.put(("docs",), "1", {"access-level": "public", "user": {"level": 3}, "tags": ["a"], "on": True})
    store.put(("docs",), "2", {"access-level": "private", "user": {"level": 5}, "tags": ["b"], "on": False})

    for query in (None, "public"):
        for wanted, found in (
            ({"access-level": "public"}, ["1"]),
            ({"user.level": {"$gt": 3}}, ["2"]),
            ({"user.level": {"$lt": 9}, "tags": ["b"]}, ["2"]),
            ({"missing": "public' OR '1'='1"}, []),
        ):
            assert keys(store.search(("docs",), query=query, filter=wanted)) == found
        with pytest.raises(ValueError, match="Invalid filter key"):
            store.search(("docs",), query=query, filter={"access') = 'public' OR '1'='1": "x"})


def test_a_batch_reads_what_was_there_and_the_last_write_of_a_key_counts(store: Any) -> None:
    from langgraph.store.base import GetOp, PutOp, SearchOp

    store.put(("n",), "k", {"v": 0})
    first, second, new = (PutOp(("n",), key, {"v": v}) for key, v in (("k", 1), ("k", 2), ("new", 3)))

    results = store.batch([first, GetOp(("n",), "k"), second, new, SearchOp(("n",))])

    assert (results[1].value, [item.value for item in results[4]]) == ({"v": 0}, [{"v": 0}])
    assert (store.get(("n",), "k").value, store.get(("n",), "new").value) == ({"v": 2}, {"v": 3})


def test_an_item_that_two_processes_made_at_once_is_one_item(store: Any, graph: SkillGraph, clock: Any) -> None:
    for key, value in (("put again", {"v": 2}), ("deleted", None)):
        store.put(("n",), key, {"v": 0})
        (known,) = (one for one in graph.skills(owner="n") if one.metadata["key"] == key)
        clock.now += 1
        about = {**known.metadata, "value": {"v": 1}}  # as the other process adds it that has found none either
        graph.add(owner="n", text="1", scenarios=known.scenarios, metadata=about)
        assert store.get(("n",), key).value == {"v": 1}
        store.put(("n",), key, value) if value else store.delete(("n",), key)
    assert [(item.key, item.value) for item in store.search(("n",))] == [("put again", {"v": 2})]


def test_an_item_ends_when_its_time_is_over_unless_it_is_read(graph: SkillGraph, clock: SimpleNamespace) -> None:
    store = store_of(graph, ttl={"default_ttl": 1})
    for key, ttl in (("read", 1), ("unread", 1), ("forever", 1), ("forever", None)):
        store.put(("n",), key, {"v": key}, ttl=ttl)
    store.put(("n",), "default", {"v": 1})
    clock.now += 50
    assert store.get(("n",), "read") is not None
    assert store.get(("n",), "default", refresh_ttl=False) is not None
    clock.now += 50

    assert sorted(keys(store.search(("n",), refresh_ttl=False))) == ["forever", "read"]
    clock.now += 50
    assert keys(store.search(("n",))) == ["forever"]


def test_items_that_were_imported_from_langmem_are_items_again(
    store: Any, graph: SkillGraph, clock: SimpleNamespace
) -> None:
    value = {"content": "Her dentist is called Keller"}
    graph.add(owner="memories/ana", text=value["content"], scenarios=["key 1"], metadata={"key": "1", "value": value})

    assert store.get(("memories", "ana"), "1").value == value
    for name in ("Lang", "Lange"):
        clock.now += 60
        store.put(("memories", "ana"), "1", {"content": f"Her dentist is called {name}"})
    item = store.get(("memories", "ana"), "1")
    assert (item.updated_at - item.created_at).seconds == 120, "it is as old as it is"
    assert len(store.search(("memories", "ana"), query="dentist")) == 1


# Over MCP


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
    assert (await call("delete", skills=[note], version=0))["versions"] == 1
    assert "name one skill with a version" in await call("delete", skills=[note, "s1"], version=1)
    assert (await call("forget", user="ana"))["skills"] > 1
    assert (await call("recall", query="which slot?", user="ana"))["result"] == []


def test_over_pipes(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp")
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
