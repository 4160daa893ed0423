"""Official clients: with tools and streaming they get what the policy answers, and answers of a shape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from chat_server import completion
from pydantic import BaseModel

from agentfw import Message
from agentfw.episode import Call
from agentfw.request import Action

from .conftest import CLIENT, Served, served
from .upstream import passing

Body = dict[str, Any]
QUESTION = "What is the weather in Rome?"
SAID: list[Any] = [{"role": "user", "content": QUESTION}]
ANSWER = "The weather is sunny."
TOOL: Body = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def weather(city: str) -> str:
    """The weather of a city."""
    return {"Rome": "sunny"}[city]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_openai_chat_completions(gateway: Served, stream: bool) -> None:
    chat = gateway.openai(f"chat-{stream}").chat.completions
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    given: Body = {"model": "scripted", "messages": messages, "tools": [{"type": "function", "function": TOOL}]}

    def ask() -> Any:
        if not stream:
            return chat.create(**given).choices[0].message
        with chat.stream(**given) as events:
            return events.get_final_completion().choices[0].message

    first = ask()
    call = first.tool_calls[0]
    messages += [first.model_dump(include={"role", "content", "tool_calls"})]
    messages += [{"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}]

    assert ask().content == ANSWER
    assert len(gateway.episode(f"chat-{stream}").messages) == 3, "what the client sent back is what it was answered"


# -- answers of a shape ------------------------------------------------------------------------------------------------


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Rome", "Paris"]
    sky: Literal["sunny", "cloudy"]


def chat_parse(gateway: Served, session: str) -> Any:
    chat = gateway.openai(session).chat.completions.parse(model="transformers", messages=SAID, response_format=Weather)
    return chat.choices[0].message.parsed


def chat_parse_streamed(gateway: Served, session: str) -> Any:
    chat = gateway.openai(session).chat.completions
    with chat.stream(model="transformers", messages=SAID, response_format=Weather) as events:
        return events.get_final_completion().choices[0].message.parsed


def responses_parse(gateway: Served, session: str) -> Any:
    responses = gateway.openai(session).responses
    return responses.parse(model="transformers", input=SAID, text_format=Weather).output_parsed


def agents_sdk(gateway: Served, session: str) -> Any:
    from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    async def ask() -> Any:
        set_tracing_disabled(True)
        async with AsyncOpenAI(base_url=gateway.session(session), api_key="none", max_retries=0) as client:
            chat = OpenAIResponsesModel("transformers", client)
            return (await Runner.run(Agent("weather", model=chat, output_type=Weather), QUESTION)).final_output

    return asyncio.run(ask())


def pydantic_ai(gateway: Served, session: str) -> Any:
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=gateway.session(session), api_key="none")
    agent = Agent(OpenAIChatModel("transformers", provider=provider), output_type=NativeOutput(Weather))
    return asyncio.run(agent.run(QUESTION)).output


@pytest.fixture(scope="module")
def local(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pytest.importorskip("llguidance")
    settings = [f"policy.model={small_model}", "policy.device=cpu", "policy.context=2000"]
    with served(tmp_path_factory.mktemp("runs"), policy="transformers", assignments=settings) as running:
        yield running


@pytest.mark.parametrize(
    "parse",
    [
        *(chat_parse, chat_parse_streamed, responses_parse),
        *(pytest.param(one, marks=pytest.mark.nightly) for one in (agents_sdk, pydantic_ai)),
    ],
)
def test_clients_get_it_from_a_model_in_this_process(parse: Callable[[Served, str], Any], local: Served) -> None:
    found = parse(local, parse.__name__)

    assert isinstance(found, Weather)  # of a model that never learned anything
    (turn,) = local.episode(parse.__name__).turns
    assert turn.constrained


def post(gateway: Served, **body: Any) -> httpx.Response:
    asked = {"model": "agentfw", "messages": [{"role": "user", "content": "?"}], **body}
    return CLIENT.post(f"{gateway.session('plain')}/chat/completions", json=asked)


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"response_format": {"type": "text"}}, 200, None),
        ({"response_format": {"type": "grammar"}}, 400, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, 400, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}}, 400, None),
        ({"response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": TOOL}]}, 400, None),
    ],
)
def test_shapes_are_followed_or_refused_by_name(local: Served, asked: Body, status: int, field: str | None) -> None:
    found = post(local, **asked, max_tokens=30)

    assert found.status_code == status
    if field:
        assert found.json()["error"]["param"] == field


def test_answers_of_a_server_by_a_schema_are_marked_as_such(tmp_path: Path) -> None:
    with passing(tmp_path, completion("{}")) as gateway:
        for more in ({"response_format": {"type": "json_object"}}, {"top_k": 3}, {"response_format": {"type": "text"}}):
            post(gateway, **more)

        assert [turn.constrained for turn in gateway.episode("plain").turns] == [True, True, False]


def test_tokens_are_counted_with_the_template_and_the_tools(local: Served, small_model: Path) -> None:
    from agentfw_plugins.models import Chat

    asked: Any = [
        {"role": "user", "content": "Weather in Rome?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]},
    ]
    tool = {"name": "weather", "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    sessions = len(local.live.sessions)

    counted = local.anthropic().messages.count_tokens(model="agentfw", messages=asked, tools=[tool], system="Be brief.")

    said = [
        Message("system", "Be brief."),
        Message("user", "Weather in Rome?"),
        Message("assistant", "", (Call("weather", {}, "c"),)),
        Message("tool", "sunny", (), "c"),
    ]
    action = Action("weather", "The weather of a city", tool["input_schema"])
    assert counted.input_tokens == len(Chat(small_model).prompt(said, [action]))
    assert len(local.live.sessions) == sessions
