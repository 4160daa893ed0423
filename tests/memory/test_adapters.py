"""Adapters: the skill graph as the memory of LangGraph, the OpenAI Agents SDK and LlamaIndex, which are all real."""

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


# The OpenAI Agents SDK


def session_of(graph: SkillGraph, name: str, user: str = "ana") -> Any:
    pytest.importorskip("agents")
    from agentfw_memory.adapters.openai_agents import SkillGraphSession

    return SkillGraphSession(graph, session_id=name, user=user)


def test_a_runner_goes_on_with_a_session_and_finds_what_was_said_in_another(graph: SkillGraph) -> None:
    monday, tuesday = session_of(graph, "monday"), session_of(graph, "tuesday")
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
    from agents.memory import Session
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    class Counting(Model):  # type: ignore[misc]  # mypy does not follow agents
        """Answers with the number of items it was shown."""

        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **settings: Any) -> Any:
            text = ResponseOutputText(text=f"shown {len(input)}", type="output_text", annotations=[])
            message = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse(output=[message], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **settings: Any) -> Any:
            raise NotImplementedError

    agent, quiet = Agent(name="helper", model=Counting()), RunConfig(tracing_disabled=True)

    async def talk() -> list[str]:
        answers = []
        for session, text in ((monday, "my dentist is called Keller"), (monday, "yes"), (tuesday, "yes")):
            answers.append((await Runner.run(agent, text, session=session, run_config=quiet)).final_output)
        return answers

    answers = asyncio.run(talk())
    found = asyncio.run(tuesday.recall("who is the dentist?", k=1))

    assert isinstance(monday, Session)
    assert answers == ["shown 1", "shown 3", "shown 1"]
    assert found == [{"content": "my dentist is called Keller", "role": "user"}]


def test_a_session_keeps_order_and_repeats_and_can_be_cut_and_cleared(graph: SkillGraph) -> None:
    session, other = session_of(graph, "monday"), session_of(graph, "monday", user="ben")
    items = [{"role": "user", "content": text} for text in ("yes", "no", "yes")]

    async def steps() -> list[Any]:
        await session.add_items(items)
        await other.add_items(items[:1])
        seen = [await session.get_items(), await session.get_items(2), await session.pop_item()]
        seen.append(await session.get_items())
        await session.clear_session()
        return [*seen, await session.get_items(), await session.pop_item(), await other.get_items()]

    assert asyncio.run(steps()) == [items, items[1:], items[2], items[:2], [], None, items[:1]]


def test_a_session_stores_what_it_is_given(graph: SkillGraph) -> None:
    session = session_of(graph, "monday")
    items = [
        {"type": "function_call_output", "call_id": "c1", "output": "A table of flights. " * 1_500},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64," + "A" * 200_000}]},
        {"role": "user", "content": "half a character \ud83d, a NUL \x00"},
        {"type": "reasoning", "id": "r1", "summary": []},
        {"role": "user", "content": ""},
    ]

    async def steps() -> list[Any]:
        await session.add_items(items)
        found = await session.recall("which flights? " * 4_000, k=1)
        return [await session.get_items(), found, await session.recall(" ")]

    assert asyncio.run(steps()) == [items, items[:1], []]


# LlamaIndex


def test_a_llama_index_memory_recalls_what_no_longer_fits(graph: SkillGraph) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory

    from agentfw_memory.adapters.llama_index import SkillGraphBlock

    async def talk() -> str:
        block = SkillGraphBlock(graph=graph, user="ana", count=1)
        memory = Memory.from_defaults(
            session_id="monday",
            token_limit=60,
            chat_history_token_ratio=0.5,
            token_flush_size=20,
            memory_blocks=[block],
            tokenizer_fn=str.split,
        )
        await memory.aput(ChatMessage(role="user", content="my dentist is called Keller"))
        for place in range(12):
            await memory.aput(ChatMessage(role="user", content=f"filler number {place} about the weather and nothing"))
        await memory.aput(ChatMessage(role="user", content="who is the dentist?"))
        return "\n".join(message.content or "" for message in await memory.aget())

    assert "my dentist is called Keller" in asyncio.run(talk())


def block_of(graph: SkillGraph, count: int = 5) -> Any:
    pytest.importorskip("llama_index.core")
    from agentfw_memory.adapters.llama_index import SkillGraphBlock

    return SkillGraphBlock(graph=graph, user="ana", count=count)


def test_a_llama_index_block_keeps_to_the_interface_of_its_kind(graph: SkillGraph) -> None:
    block = block_of(graph, count=2)
    from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
    from llama_index.core.memory import BaseMemoryBlock

    messages = [
        ChatMessage(role="user", content="my dentist is called Keller"),
        ChatMessage(role="tool", content="a long answer about tea " * 2_000),
        ChatMessage(role="user", blocks=[TextBlock(text="the rent"), ImageBlock(url="http://example.org/a.png")]),
        ChatMessage(role="assistant", content=None),
    ]

    async def steps() -> list[Any]:
        empty = [await block.aget(), await block.aget([]), await block.aget(messages[:1])]
        await block.aput(messages, from_short_term_memory=True, session_id="monday")
        await block.aput([])
        told = await block.aget([ChatMessage(role="user", content="who is the dentist?"), messages[3]])
        long = await block.aget([ChatMessage(role="user", content="tea? " * 20_000)])
        return [*empty, told, long]

    *empty, told, long = asyncio.run(steps())

    assert isinstance(block, BaseMemoryBlock)
    assert empty == ["", "", ""]
    assert told.startswith("- user: my dentist is called Keller\n- ")
    assert long.startswith("- tool: a long answer about tea")
    kept = graph.skills(owner="ana", where={"session": "monday"})
    assert [skill.metadata["role"] for skill in kept] == ["user", "tool", "user"]


def test_a_llama_index_block_that_takes_nothing_from_the_short_term_memory(graph: SkillGraph) -> None:
    block = block_of(graph)
    from llama_index.core.base.llms.types import ChatMessage

    block.accept_short_term_memory = False
    asyncio.run(block.aput([ChatMessage(role="user", content="tea")], from_short_term_memory=True))
    assert graph.skills(owner="ana") == []


@pytest.mark.parametrize(("tokens", "left"), [(1, "- one\n- two"), (3, "- one"), (100, None)])
def test_a_llama_index_block_leaves_out_what_fits_least(graph: SkillGraph, tokens: int, left: str | None) -> None:
    assert asyncio.run(block_of(graph).atruncate("- one\n- two\n- three", tokens)) == left
