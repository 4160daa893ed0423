"""LangGraph: the skill graph as its store, in a real agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import SkillGraph

pytestmark = pytest.mark.slow  # importing these packages takes seconds
pytest.importorskip("igraph")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[SkillGraph]:
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash") as opened:
        yield opened


# LangGraph


def store_of(graph: SkillGraph) -> Any:
    pytest.importorskip("langgraph")
    from agentfw_memory.adapters.langgraph import SkillGraphStore

    return SkillGraphStore(graph)


def test_a_langgraph_agent_remembers_across_threads(graph: SkillGraph) -> None:
    store = store_of(graph)
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.config import get_store
    from langgraph.graph import END, START, MessagesState, StateGraph

    def answer(state: Any) -> dict[str, Any]:
        said, store = state["messages"][-1].content, get_store()
        found = store.search(("notes", "ana"), query=said, limit=1)
        store.put(("notes", "ana"), f"note {len(state['messages'])} {said[:9]}", {"said": said})
        return {"messages": [("ai", found[0].value["said"] if found else "nothing")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    agent = builder.compile(store=store, checkpointer=InMemorySaver())

    def ask(thread: str, text: str) -> str:
        told = agent.invoke({"messages": [("human", text)]}, {"configurable": {"thread_id": thread}})
        return str(told["messages"][-1].content)

    first = ask("monday", "my dentist is called Keller")
    ask("monday", "I like green tea")
    other_thread = ask("tuesday", "who is the dentist?")

    assert (first, other_thread) == ("nothing", "my dentist is called Keller")


def test_items_are_put_read_changed_and_deleted_and_survive_the_process(graph: SkillGraph, tmp_path: Path) -> None:
    store = store_of(graph)
    store.put(("a", "b/c"), "k", {"x": 1, "nested": {"y": [True, None]}})
    store.put(("a", "b/c"), "same", {"x": 1, "nested": {"y": [True, None]}})
    store.put(("a", "b/c"), "k", {"x": 2})
    store.put(("other",), "k", {"x": 3})
    store.delete(("a", "b/c"), "same")
    graph.close()

    with SkillGraph.open(tmp_path / "skills.db", tenant="team") as again:
        store = store_of(again)
        item = store.get(("a", "b/c"), "k")

        assert (item.namespace, item.key, item.value) == (("a", "b/c"), "k", {"x": 2})
        assert store.get(("a", "b/c"), "same") is None
        assert store.get(("a", "b"), "k") is None
        assert store.get(("other",), "k").value == {"x": 3}


def test_a_filter_is_applied_before_the_limit(graph: SkillGraph) -> None:
    store = store_of(graph)
    for place in range(40):
        store.put(("notes",), str(place), {"text": f"tea {place}", "kind": "rare" if place % 20 == 7 else "common"})

    found = store.search(("notes",), query="tea", filter={"kind": "rare"}, limit=2)
    above = store.search(("notes",), filter={"kind": {"$ne": "common"}}, limit=10)

    assert {item.key for item in found} == {"7", "27"} == {item.key for item in above}


def test_no_search_crosses_a_namespace(graph: SkillGraph) -> None:
    store = store_of(graph)
    store.put(("notes", "ana"), "1", {"text": "green tea"})
    store.put(("notes", "ben"), "1", {"text": "green tea with milk"})

    async def asked() -> list[Any]:
        return list(await store.asearch(("notes", "ana"), query="green tea with milk"))

    assert [item.value["text"] for item in asyncio.run(asked())] == ["green tea"]
    assert len(store.search(("notes",), query="green tea")) == 2
    assert store.list_namespaces(prefix=("notes",)) == [("notes", "ana"), ("notes", "ben")]
    assert store.list_namespaces(suffix=("ben",)) == [("notes", "ben")]
    assert store.list_namespaces(max_depth=1) == [("notes",)]
