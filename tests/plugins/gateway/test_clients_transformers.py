"""Real clients in front of a language model in this process: with tools and streaming, as without the gateway.

The model has learned one conversation by heart, so that its answers are known.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw import Generation, Message, Session, Task
from agentfw.episode import Call
from agentfw.request import Action, Sampling
from agentfw.turns.session import Reply
from agentfw_plugins.models.conversation import tagged

from .conftest import Served, served

QUESTION, ANSWER = "Weather in Rome?", "It is sunny."
CALL = Call("weather", {"city": "Rome"}, "call_0_0")
# As LangChain describes the function below, so that all clients ask in the same words.
SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"], "type": "object"}
ACTION = Action("weather", "The weather of a city", SCHEMA)
TOOL = {"type": "function", "function": {"name": "weather", "description": ACTION.description, "parameters": SCHEMA}}
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 60}


def weather(city: str) -> str:
    """The weather of a city"""
    return {"Rome": "sunny"}[city]


@pytest.fixture(scope="module")
def taught(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that calls the tool, and then says what it found."""
    import shutil

    import torch
    from transformers import AutoModelForCausalLM

    from agentfw_plugins.models import Chat

    folder = tmp_path_factory.mktemp("taught") / "model"
    shutil.copytree(small_model, folder)
    chat, messages = Chat(folder), [Message("user", QUESTION)]
    text = tagged(CALL.name, dict(CALL.arguments))
    call = chat.answer(text)
    first = Generation(text, (CALL,), prompt_ids=tuple(chat.prompt(messages, [ACTION])), token_ids=tuple(call))
    messages += [Message("assistant", text, (CALL,)), Message("tool", "sunny", answers=CALL.id)]
    lessons = [(first.prompt_ids, call), (chat.prompt(messages, [ACTION], first), chat.answer(ANSWER))]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    longest = max(len(prompt) + len(answer) for prompt, answer in lessons)
    ids, labels = torch.zeros(2, longest, dtype=torch.long), torch.full((2, longest), -100)
    for row, (prompt, answer) in enumerate(lessons):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor([*prompt, *answer])
        labels[row, len(prompt) : end] = torch.tensor([*answer])
    for _ in range(200):
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if loss.item() < 0.005:
            break
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gateway(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    assignments = [f"policy.model={taught}", "policy.device=cpu"]
    with served(tmp_path_factory.mktemp("runs"), policy="transformers", assignments=assignments) as running:
        yield running


@pytest.fixture(scope="module")
def direct(taught: Path) -> list[Reply]:
    """The answers of the same policy without the gateway."""
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    async def ask() -> list[Reply]:
        policy = TransformersPolicy(TransformersSettings(model=str(taught), device="cpu"))
        session, messages = Session(policy, Task(0, seed=7)), [Message("user", QUESTION)]
        first = await session.answer(messages, [ACTION], Sampling(**GREEDY))
        told = [Message("tool", weather(**call.arguments), answers=call.id) for call in first.calls]
        second = await session.answer([*messages, first.message, *told], [ACTION], Sampling(**GREEDY))
        await policy.close()
        return [first, second]

    return asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_openai_gets_the_calls_and_words_of_the_policy(gateway: Served, direct: list[Reply], stream: bool) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=gateway.session(f"chat-{stream}"), api_key="none")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    given = {"model": "transformers", "messages": messages, "tools": [TOOL], **GREEDY}

    def ask() -> Any:
        if not stream:
            return client.chat.completions.create(**given).choices[0].message
        with client.chat.completions.stream(**given) as events:
            return events.get_final_completion().choices[0].message

    first = ask()
    (call,) = first.tool_calls
    messages += [first.model_dump(include={"role", "content", "tool_calls"})]
    messages += [{"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}]
    second = ask()

    assert second.content == ANSWER
    turns = gateway.live.sessions[f"chat-{stream}"].episode.turns
    assert [turn.token_ids for turn in turns] == [reply.turn.token_ids for reply in direct]
    assert [turn.prompt_ids for turn in turns] == [reply.turn.prompt_ids for reply in direct]


@pytest.mark.slow
def test_langgraph_uses_the_tool(gateway: Served) -> None:
    models = pytest.importorskip("langchain_openai")
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    url = gateway.session("langgraph")
    model = models.ChatOpenAI(model="transformers", base_url=url, api_key="none", streaming=True, **GREEDY)
    agent = prebuilt.create_react_agent(model, [weather])

    steps = list(agent.stream({"messages": [("user", QUESTION)]}, stream_mode="values"))

    assert steps[-1]["messages"][-1].content == ANSWER
    turns = gateway.live.sessions["langgraph"].episode.turns
    assert [turn.calls[0].name if turn.calls else turn.text for turn in turns] == ["weather", ANSWER]
