"""Unmodified programs on real clients: with tools and streaming they get what the policy answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from agentfw import Message, Session, Task
from agentfw.request import Sampling
from agentfw_plugins.policies.scripted import ScriptedPolicy

from .conftest import Served, rule

QUESTION = "What is the weather in Rome?"
ANSWER = "The weather is sunny."
TOOL = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def weather(city: str) -> str:
    """The weather of a city."""
    return {"Rome": "sunny"}[city]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_openai_chat_completions(gateway: Served, stream: bool) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=gateway.session(f"chat-{stream}"), api_key="none")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = [{"type": "function", "function": TOOL}]

    def ask() -> Any:
        if not stream:
            return client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices[0].message
        with client.chat.completions.stream(model="scripted", messages=messages, tools=tools) as events:
            return events.get_final_completion().choices[0].message

    first = ask()
    call = first.tool_calls[0]
    messages += [first.model_dump(include={"role", "content", "tool_calls"})]
    messages += [{"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}]
    second = ask()

    assert second.content == ANSWER
    episode = gateway.live.sessions[f"chat-{stream}"].episode
    assert len(episode.messages) == 3, "what the client sent back is what it was answered"


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_openai_responses(gateway: Served, stream: bool) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=gateway.session(f"responses-{stream}"), api_key="none")
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = [{"type": "function", **TOOL, "strict": False}]

    def ask() -> Any:
        if not stream:
            return client.responses.create(model="scripted", input=items, tools=tools)
        with client.responses.stream(model="scripted", input=items, tools=tools) as events:
            list(events)
            return events.get_final_response()

    call = next(item for item in ask().output if item.type == "function_call")
    items += [{"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]

    assert ask().output_text == ANSWER


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_anthropic_messages(gateway: Served, stream: bool) -> None:
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=f"{gateway.url}/s/anthropic-{stream}", api_key="none")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tool = {"name": "weather", "description": TOOL["description"], "input_schema": TOOL["parameters"]}

    def ask() -> Any:
        given = {"model": "scripted", "messages": messages, "tools": [tool], "max_tokens": 100}
        if not stream:
            return client.messages.create(**given)
        with client.messages.stream(**given) as events:
            return events.get_final_message()

    first = ask()
    used = next(part for part in first.content if part.type == "tool_use")
    messages += [{"role": "assistant", "content": [part.model_dump(exclude_none=True) for part in first.content]}]
    result = {"type": "tool_result", "tool_use_id": used.id, "content": weather(**used.input)}
    messages += [{"role": "user", "content": [result]}]

    assert first.stop_reason == "tool_use"
    assert ask().content[0].text == ANSWER


@pytest.mark.slow
def test_langgraph(gateway: Served) -> None:
    models = pytest.importorskip("langchain_openai")
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    model = models.ChatOpenAI(model="scripted", base_url=gateway.session("langgraph"), api_key="none", streaming=True)
    agent = prebuilt.create_react_agent(model, [weather])

    steps = list(agent.stream({"messages": [("user", QUESTION)]}, stream_mode="values"))

    assert steps[-1]["messages"][-1].content == ANSWER
    assert len(gateway.live.sessions["langgraph"].episode.messages) == 3


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_openai_agents_sdk(gateway: Served, protocol: str) -> None:
    agents = pytest.importorskip("agents")
    openai = pytest.importorskip("openai")
    agents.set_tracing_disabled(True)

    async def run() -> tuple[str, str]:
        client = openai.AsyncOpenAI(base_url=gateway.session(f"agents-{protocol}"), api_key="none")
        kind = agents.OpenAIChatCompletionsModel if protocol == "chat" else agents.OpenAIResponsesModel
        agent = agents.Agent(
            name="guide", model=kind(model="scripted", openai_client=client), tools=[agents.function_tool(weather)]
        )
        whole = await agents.Runner.run(agent, QUESTION)
        streamed = agents.Runner.run_streamed(agent, QUESTION)
        async for _ in streamed.stream_events():
            pass
        return str(whole.final_output), str(streamed.final_output)

    assert asyncio.run(run()) == (ANSWER, ANSWER)


@pytest.mark.slow
def test_pydantic_ai(gateway: Served) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=gateway.session("pydantic"), api_key="none")
    agent = pydantic_ai.Agent(OpenAIChatModel("scripted", provider=provider), tools=[weather])

    async def streamed() -> str:
        async with agent.run_stream(QUESTION) as events:
            return str(await events.get_output())

    assert agent.run_sync(QUESTION).output == ANSWER
    assert asyncio.run(streamed()) == ANSWER


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl(gateway: Served) -> None:
    given = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "stream": True}

    done = subprocess.run(
        ["curl", "-sN", f"{gateway.session('curl')}/chat/completions", "-d", json.dumps(given)],
        capture_output=True,
        text=True,
        check=True,
    )

    lines = [line.removeprefix("data: ") for line in done.stdout.splitlines() if line]
    assert lines[-1] == "[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "You said: hello"


@pytest.mark.slow
def test_the_answers_are_those_without_the_gateway(gateway: Served) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=gateway.session("same"), api_key="none")
    session = Session(ScriptedPolicy(rule=rule), Task(0, 7))
    conversation: list[Message] = []

    def pairs() -> Iterator[tuple[str, str]]:
        for word in ("one", "two", "three"):
            conversation.append(Message("user", word))
            told = [{"role": message.role, "content": message.content} for message in conversation]
            served = client.chat.completions.create(model="scripted", messages=told).choices[0].message.content
            direct = asyncio.run(session.answer(conversation, (), Sampling())).text
            conversation.append(Message("assistant", direct))
            yield served, direct

    assert all(served == direct for served, direct in pairs())
