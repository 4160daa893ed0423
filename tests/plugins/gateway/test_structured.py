"""Answers of a shape: client libraries get them from a server behind the gateway, and from a model in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import Reply, chunks, completion

from .conftest import Served, served
from .structured_clients import ANSWER, CLIENTS, Weather
from .upstream import passing

pytest.importorskip("openai")


@pytest.fixture(scope="module")
def local(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pytest.importorskip("llguidance")
    settings = [f"policy.model={small_model}", "policy.device=cpu", "policy.context=2000"]
    with served(tmp_path_factory.mktemp("runs"), policy="transformers", assignments=settings) as running:
        yield running


def answer(body: dict[str, Any]) -> Reply:
    """As a server answers that follows the schema. One without a schema gets no JSON."""
    said = ANSWER if body["response_format"]["type"] in ("json_schema", "json_object") else "sunny"
    if not body.get("stream"):
        return completion(said)
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    delta = {"role": "assistant", "content": said}
    return chunks({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_get_it_from_a_server(client: str, tmp_path: Path) -> None:
    with passing(tmp_path, answer) as gateway:
        found = CLIENTS[client](gateway.session("shape"), "served")

    assert Weather.model_validate(found) == Weather(city="Rome", sky="sunny")


@pytest.mark.slow
@pytest.mark.parametrize("client", [name for name in CLIENTS if "json_mode" not in name])
def test_clients_get_it_from_a_model_in_this_process(client: str, local: Served) -> None:
    name = f"client-{list(CLIENTS).index(client)}"
    found = CLIENTS[client](local.session(name), "transformers")

    assert isinstance(found, Weather)  # of a model that never learned anything
    (turn,) = local.live.sessions[name].episode.turns
    assert turn.constrained


def post(gateway: Served, **body: Any) -> httpx.Response:
    asked = {"model": "transformers", "messages": [{"role": "user", "content": "?"}], **body}
    return httpx.post(f"{gateway.session('plain')}/chat/completions", json=asked, timeout=120)


@pytest.mark.parametrize(
    ("form", "status", "field"),
    [
        ({"type": "text"}, 200, None),
        ({"type": "json_object"}, 200, None),
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
            httpx.post(f"{gateway.session('s')}/chat/completions", json={**asked, **more})
        turns = gateway.live.sessions["s"].episode.turns

    assert [turn.constrained for turn in turns] == [True, True, False]
