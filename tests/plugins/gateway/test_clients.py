"""Unmodified programs on real clients: with tools and streaming they get what the policy answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Served

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
def test_openai_responses(gateway: Served) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=gateway.session("responses"), api_key="none")
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = [{"type": "function", **TOOL, "strict": False}]
    with client.responses.stream(model="scripted", input=items, tools=tools) as events:
        list(events)
        first = events.get_final_response()
    call = next(item for item in first.output if item.type == "function_call")
    items += [{"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]

    assert client.responses.create(model="scripted", input=items, tools=tools).output_text == ANSWER


@pytest.mark.slow
def test_anthropic_messages(gateway: Served) -> None:
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=f"{gateway.url}/s/anthropic", api_key="none")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tool = {"name": "weather", "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    given: dict[str, Any] = {"model": "scripted", "messages": messages, "tools": [tool], "max_tokens": 100}
    with client.messages.stream(**given) as events:
        first = events.get_final_message()
    used = next(part for part in first.content if part.type == "tool_use")
    messages += [{"role": "assistant", "content": [part.model_dump(exclude_none=True) for part in first.content]}]
    result = {"type": "tool_result", "tool_use_id": used.id, "content": weather(**used.input)}
    messages += [{"role": "user", "content": [result]}]

    assert first.stop_reason == "tool_use"
    assert client.messages.create(**given).content[0].text == ANSWER
