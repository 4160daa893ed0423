"""Client libraries that ask for an answer of a shape, as their documentation says.

for name, ask in CLIENTS.items():
    weather = ask("http://127.0.0.1:8765/s/tea/v1", "agentfw")     # {"city": ..., "sky": ...}
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel

QUESTION = "How is the weather in Rome?"
ANSWER = '{"city": "Rome", "sky": "sunny"}'


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Rome", "Paris"]
    sky: Literal["sunny", "cloudy"]


def chat_parse(url: str, model: str) -> Any:
    from openai import OpenAI

    said: Any = [{"role": "user", "content": QUESTION}]
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    return client.chat.completions.parse(model=model, messages=said, response_format=Weather).choices[0].message.parsed


def chat_parse_streamed(url: str, model: str) -> Any:
    from openai import OpenAI

    said: Any = [{"role": "user", "content": QUESTION}]
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    with client.chat.completions.stream(model=model, messages=said, response_format=Weather) as events:
        return events.get_final_completion().choices[0].message.parsed


def responses_parse(url: str, model: str) -> Any:
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    return client.responses.parse(model=model, input=QUESTION, text_format=Weather).output_parsed


def langchain(url: str, model: str) -> Any:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="none", max_retries=0)
    return chat.with_structured_output(Weather).invoke(QUESTION)


def langchain_json_mode(url: str, model: str) -> Any:
    """Any JSON object: only what reads it says which one."""
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="none", max_retries=0, max_completion_tokens=200)
    return chat.with_structured_output(None, method="json_mode").invoke(f"{QUESTION} Answer in JSON.")


def agents_sdk(url: str, model: str) -> Any:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    async def ask() -> Any:
        set_tracing_disabled(True)
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            chat = OpenAIChatCompletionsModel(model, client)
            return (await Runner.run(Agent("weather", model=chat, output_type=Weather), QUESTION)).final_output

    return asyncio.run(ask())


def agents_sdk_responses(url: str, model: str) -> Any:
    from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    async def ask() -> Any:
        set_tracing_disabled(True)
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            chat = OpenAIResponsesModel(model, client)
            return (await Runner.run(Agent("weather", model=chat, output_type=Weather), QUESTION)).final_output

    return asyncio.run(ask())


def pydantic_ai(url: str, model: str) -> Any:
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="none"))
    return asyncio.run(Agent(chat, output_type=NativeOutput(Weather)).run(QUESTION)).output


CLIENTS: dict[str, Callable[[str, str], Any]] = {
    "openai: chat.completions.parse": chat_parse,
    "openai: chat.completions.stream": chat_parse_streamed,
    "openai: responses.parse": responses_parse,
    "LangChain: with_structured_output": langchain,
    "LangChain: with_structured_output, json_mode": langchain_json_mode,
    "Agents SDK: output_type, chat completions": agents_sdk,
    "Agents SDK: output_type, responses": agents_sdk_responses,
    "Pydantic AI: NativeOutput": pydantic_ai,
}
