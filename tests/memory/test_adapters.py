"""LangGraph: the skill graph as its store, in a real agent."""

from __future__ import annotations

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
