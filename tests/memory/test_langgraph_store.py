"""What LangGraph's stores promise, of ours, and a real agent that remembers by it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import SkillGraph

pytestmark = pytest.mark.slow  # importing langgraph takes seconds
pytest.importorskip("igraph")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[SkillGraph]:
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash") as opened:
        yield opened


@pytest.fixture
def store(graph: SkillGraph) -> Any:
    pytest.importorskip("langgraph")
    from agentfw_memory.adapters.langgraph import SkillGraphStore

    return SkillGraphStore(graph)


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


def test_an_item_that_isnt_indexed_is_found_by_its_key_and_comes_after_the_others(
    store: Any, graph: SkillGraph
) -> None:
    store.put(("notes",), "indexed", {"text": "green tea", "secret": "zanzibar"}, index=["text"])
    store.put(("notes",), "not", {"text": "green tea"}, index=False)
    store.put(("notes",), "all", {"text": "coffee", "tags": ["hot"], "nested": {"number": 7}})

    found = store.search(("notes",), query="green tea")
    cut = store.search(("notes",), query="green tea", limit=2)

    assert [(item.key, item.score is None) for item in found] == [("indexed", False), ("all", False), ("not", True)]
    assert keys(cut) == ["indexed", "all"]
    assert store.get(("notes",), "not").value == {"text": "green tea"}
    assert {skill.text for skill in graph.skills(owner="notes")} == {"green tea", "not", "coffee\nhot\n7"}


def test_the_fields_that_are_searched_can_be_chosen_for_all_items(graph: SkillGraph) -> None:
    pytest.importorskip("langgraph")
    from agentfw_memory.adapters.langgraph import SkillGraphStore

    store = SkillGraphStore(graph, fields=["title", "parts[*].text"])
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

    def found(wanted: dict[str, Any], query: str | None = None) -> list[str]:
        return keys(store.search(("docs",), query=query, filter=wanted))

    assert found({"access-level": "public"}) == ["1"] == found({"access-level": "public"}, "public")
    assert found({"user.level": {"$gt": 3}}) == ["2"] == found({"user.level": {"$gt": 3}}, "public")
    assert found({"access-level": {"$in": ["private", "secret"]}}) == ["2"]
    assert found({"on": True}) == ["1"]
    assert found({"user.level": {"$lt": math.inf}, "tags": ["b"]}) == ["2"]
    assert found({"missing": "public' OR '1'='1"}) == []
    for query in (None, "public"):
        with pytest.raises(ValueError, match="Invalid filter key"):
            found({"access') = 'public' OR '1'='1": "x"}, query)
        with pytest.raises(ValueError, match="Unsupported operator"):
            found({"on": {"$near": 1}}, query)


def test_a_batch_reads_what_was_there_and_the_last_write_of_a_key_counts(store: Any) -> None:
    from langgraph.store.base import GetOp, PutOp, SearchOp

    store.put(("n",), "k", {"v": 0})

    results = store.batch(
        [
            PutOp(("n",), "k", {"v": 1}),
            GetOp(("n",), "k"),
            PutOp(("n",), "k", {"v": 2}),
            PutOp(("n",), "new", {"v": 3}),
            SearchOp(("n",)),
        ]
    )

    assert (results[1].value, [item.value for item in results[4]]) == ({"v": 0}, [{"v": 0}])
    assert (store.get(("n",), "k").value, store.get(("n",), "new").value) == ({"v": 2}, {"v": 3})


def test_an_item_ends_when_its_time_is_over_unless_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langgraph")
    from agentfw_memory.adapters import langgraph

    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    with SkillGraph.open(tmp_path / "ttl.db", tenant="team", embedder="hash", clock=clock) as graph:
        store = langgraph.SkillGraphStore(graph, ttl={"default_ttl": 1})
        for key, ttl in (("read", 1), ("unread", 1), ("forever", None)):
            store.put(("n",), key, {"v": key}, ttl=ttl)
        store.put(("n",), "default", {"v": 1})
        clock.now += 50
        assert store.get(("n",), "read") is not None
        assert store.get(("n",), "default", refresh_ttl=False) is not None
        clock.now += 50

        assert sorted(keys(store.search(("n",), refresh_ttl=False))) == ["forever", "read"]
        clock.now += 50
        assert keys(store.search(("n",))) == ["forever"]


def test_a_langgraph_agent_remembers_across_threads(store: Any) -> None:
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
