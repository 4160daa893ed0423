"""Answers of a shape: client libraries get them from a server behind the gateway, and from a model in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from chat_server import completion
from pydantic import BaseModel

from .conftest import CLIENT, Served, served
from .upstream import passing

pytest.importorskip("openai")

QUESTION = "How is the weather in Rome?"


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


Client = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def local(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pytest.importorskip("llguidance")
    settings = [f"policy.model={small_model}", "policy.device=cpu", "policy.context=2000"]
    with served(tmp_path_factory.mktemp("runs"), policy="transformers", assignments=settings) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("client", [chat_parse, chat_parse_streamed, responses_parse])
def test_clients_get_it_from_a_model_in_this_process(client: Client, local: Served) -> None:
    found = client(local.session(client.__name__), "transformers")

    assert isinstance(found, Weather)  # of a model that never learned anything
    (turn,) = local.live.sessions[client.__name__].episode.turns
    assert turn.constrained


def post(gateway: Served, **body: Any) -> httpx.Response:
    asked = {"model": "transformers", "messages": [{"role": "user", "content": "?"}], **body}
    return CLIENT.post(f"{gateway.session('plain')}/chat/completions", json=asked)


@pytest.mark.parametrize(
    ("form", "status", "field"),
    [
        ({"type": "text"}, 200, None),
        ({"type": "grammar"}, 400, "response_format.type"),
        ({"type": "json_schema"}, 400, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}, 400, None),
    ],
)
def test_forms_are_followed_or_refused_by_name(
    local: Served, form: dict[str, Any], status: int, field: str | None
) -> None:
    found = post(local, response_format=form, max_tokens=30)

    assert found.status_code == status
    if status == 400:
        assert found.json()["error"]["param"] == field


def test_a_form_with_tools_is_refused_by_name(local: Served) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}

    found = post(local, response_format={"type": "json_object"}, tools=[tool]).json()["error"]

    assert (found["param"], found["code"]) == ("response_format", "unsupported_parameter")


def test_answers_of_a_server_by_a_schema_are_marked_as_such(tmp_path: Path) -> None:
    asked = {"model": "served", "messages": [{"role": "user", "content": "?"}]}
    with passing(tmp_path, completion("{}")) as gateway:
        for more in ({"response_format": {"type": "json_object"}}, {"top_k": 3}, {"response_format": {"type": "text"}}):
            CLIENT.post(f"{gateway.session('s')}/chat/completions", json={**asked, **more})
        turns = gateway.live.sessions["s"].episode.turns

    assert [turn.constrained for turn in turns] == [True, True, False]
