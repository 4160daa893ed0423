"""Completions, embeddings and counts of tokens, with the official clients: passed on, or done here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from chat_server import Reply, chunks

from agentfw import Message, Request
from agentfw.episode import Call
from agentfw.request import Action
from agentfw_plugins.models.locate import locate
from agentfw_plugins.models.small_model import SmallChat

from .conftest import Serve, Served
from .native_features import COMPLETION, EMBEDDED
from .upstream import Start

TINY = ("policy.model=tiny", "policy.temperature=0")


# -- completions -------------------------------------------------------------------------------------------------------


def test_a_completion_is_passed_on_as_it_is_and_recorded(upstream: Start) -> None:
    gateway = upstream(Reply(COMPLETION, headers={"x-request-id": "r-1"}), assignments=('policy.model=""',))

    answer = gateway.openai().completions.with_raw_response.create(
        model="served", prompt="Once upon a time", echo=False, suffix="!", extra_body={"top_k": 3}
    )

    assert gateway.server.paths == ["completions"]
    assert gateway.server.bodies == [
        {"model": "served", "prompt": "Once upon a time", "echo": False, "suffix": "!", "top_k": 3}
    ]
    assert answer.content == json.dumps(COMPLETION).encode()
    assert answer.headers["x-request-id"] == "r-1"
    episode = gateway.episode()
    [turn] = episode.turns
    assert (turn.text, turn.finish, turn.usage.sampled) == (" there was", "length", 2)
    assert [message.content for message in episode.messages] == ["Once upon a time"]


def test_a_streamed_completion_is_passed_on_line_by_line(upstream: Start) -> None:
    pieces = [{**COMPLETION, "choices": [{"text": text, "index": 0, "finish_reason": None}]} for text in (" a", " b")]
    reply = chunks(*pieces)
    gateway = upstream(reply)

    answer = gateway.openai().completions.with_raw_response.create(model="served", prompt="x", stream=True)

    assert answer.http_response.read() == reply.body
    assert gateway.episode().turns[0].text == " a b"


def test_a_policy_in_this_process_goes_on_with_the_text(serve: Serve) -> None:
    gateway = serve(policy="tiny", assignments=TINY)

    answer = gateway.openai().completions.create(model="agentfw", prompt="Good morning", max_tokens=5)
    streamed = gateway.openai("other").completions.create(
        model="agentfw", prompt="Good morning", max_tokens=5, stream=True, stream_options={"include_usage": True}
    )

    pieces = list(streamed)
    [turn] = gateway.episode().turns
    chat = SmallChat(locate("tiny"))
    said = [Message("user", "Good morning")]
    assert turn.prompt_ids == chat.prompt_of(Request(said, plain=True)) != chat.prompt(said), "without a chat template"
    assert answer.object == "text_completion"
    assert answer.choices[0].text == turn.text
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(turn.token_ids) <= 5
    assert "".join(choice.text for piece in pieces for choice in piece.choices) == turn.text
    assert pieces[-1].usage == answer.usage


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"extra_body": {"top_k": 3}}, "top_k"),
    ],
)
def test_what_such_a_policy_cannot_do_is_refused_by_name(
    tiny_gateway: Served, more: dict[str, Any], field: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        tiny_gateway.openai().completions.create(**{"model": "agentfw", "prompt": "x", **more})

    assert refused.value.param == field


def test_a_policy_that_only_chats_refuses_completions(serve: Serve) -> None:
    with pytest.raises(openai.BadRequestError, match="completions is not supported by this policy"):
        serve().openai().completions.create(model="agentfw", prompt="x")


# -- embeddings --------------------------------------------------------------------------------------------------------


def test_embeddings_are_passed_on_with_the_model_that_was_asked_for(upstream: Start) -> None:
    gateway = upstream(Reply(EMBEDDED))

    found = gateway.openai().embeddings.create(model="e5", input="tea", encoding_format="float", dimensions=2)

    assert gateway.server.paths == ["embeddings"]
    assert gateway.server.bodies == [{"model": "e5", "input": "tea", "encoding_format": "float", "dimensions": 2}]
    assert found.data[0].embedding == [0.5, 0.25]
    assert not gateway.live.sessions, "they belong to no session"


def test_what_is_not_there_is_named(tiny_gateway: Served) -> None:
    with pytest.raises(openai.NotFoundError, match="no embedding model"):
        tiny_gateway.openai().embeddings.create(model="agentfw", input="x")
    with pytest.raises(openai.NotFoundError, match="the gateway has no POST /s/tea/v1/images/generations"):
        tiny_gateway.openai().images.generate(model="agentfw", prompt="x")


# -- counts ------------------------------------------------------------------------------------------------------------

TOOL: Any = {"name": "weather", "description": "The weather", "input_schema": {"type": "object", "properties": {}}}


def test_tokens_are_counted_with_the_template_and_the_tools(tiny_gateway: Served) -> None:
    asked: Any = [
        {"role": "user", "content": "Weather in Rome?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]},
    ]

    counted = tiny_gateway.anthropic().messages.count_tokens(
        model="agentfw", messages=asked, tools=[TOOL], system="Be brief."
    )

    said = [
        Message("system", "Be brief."),
        Message("user", "Weather in Rome?"),
        Message("assistant", "", (Call("weather", {}, "c"),)),
        Message("tool", "sunny", (), "c"),
    ]
    action = Action("weather", "The weather", {"type": "object", "properties": {}})
    assert counted.input_tokens == len(SmallChat(locate("tiny")).prompt(said, [action]))
    assert not tiny_gateway.live.sessions


def test_a_count_is_that_of_the_server_and_none_is_made_up_where_it_has_none(upstream: Start) -> None:
    counts, has_none = upstream(Reply({"input_tokens": 42}), apis=("messages",)), upstream()
    asked: Any = {"model": "served", "messages": [{"role": "user", "content": "x"}]}

    assert counts.anthropic().messages.count_tokens(**asked).input_tokens == 42
    assert counts.server.paths == ["messages/count_tokens"]
    with pytest.raises(anthropic.BadRequestError, match="count_tokens is not supported"):
        has_none.anthropic().messages.count_tokens(**asked)


@pytest.fixture(scope="module")
def tiny_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from .conftest import served

    with served(tmp_path_factory.mktemp("runs"), policy="tiny", assignments=TINY) as running:
        yield running
