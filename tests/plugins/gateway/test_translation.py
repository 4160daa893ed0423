"""Responses and messages in front of a chat completions server: what has a counterpart is translated, both ways, and
what has none is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from chat_server import Reply, chunks, completion, refusal
from openai.types.chat import ChatCompletion

from agentfw_plugins.protocols import Body as RequestBody
from agentfw_plugins.protocols import Protocol, protocols

from .conftest import CLIENT, Serve, Served
from .features import HEAD, HELLO, MESSAGES, NO_MESSAGES, NO_RESPONSES, RESPONSES, RICH, STREAM
from .native_features import MESSAGE, RESPONSE, message_stream, response_stream
from .upstream import Passing, Start, passing

NUMBERS = count()
Body = dict[str, Any]


def post(gateway: Served, path: str, body: Body) -> httpx.Response:
    return CLIENT.post(
        f"{gateway.session(f'tea-{next(NUMBERS)}')}/{path}", json={"model": "openai", **body}, timeout=60
    )


def asked(gateway: Passing) -> Body:
    return {key: value for key, value in gateway.asked[-1].items() if key != "model"}


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passing]:
    """One gateway in front of a server that always answers the same, each test with a session of its own."""
    with passing(tmp_path_factory.mktemp("runs"), completion("fine")) as gateway:
        yield gateway


@pytest.mark.parametrize("path", ["messages", "responses"])
def test_a_stream_is_translated_where_the_server_counts_no_tokens(upstream: Start, path: str) -> None:
    def strict(body: Body) -> Reply:
        return refusal(422, "stream_options: not permitted") if "stream_options" in body else STREAM

    gateway = upstream(strict, counts=True)
    said = {"input": "hi"} if path == "responses" else {"messages": HELLO, "max_tokens": 9}

    answers = [post(gateway, path, {**said, "stream": True}) for _ in range(2)]

    assert ["Sun" in answer.text for answer in answers] == [True, True]
    assert ["stream_options" in body for body in gateway.server.bodies] == [True, False, False]


# -- responses ---------------------------------------------------------------------------------------------------------


def test_a_request_for_a_response_is_translated_or_refused_by_the_fields_name(fine: Passing) -> None:
    for name, (given, wanted) in RESPONSES.items():
        answer = post(fine, "responses", {"input": "hi", **given})

        assert answer.status_code == 200, (name, answer.text)
        assert asked(fine) == {"messages": HELLO, **wanted}, name
    before = len(fine.asked)
    for given, field in NO_RESPONSES:
        answer = post(fine, "responses", {"input": "hi", **given})

        error = answer.json()["error"]
        assert (answer.status_code, error["param"], error["code"]) == (400, field, "unsupported_parameter")
    assert len(fine.asked) == before


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_has_all_of_the_answer(upstream: Start, stream: bool) -> None:
    gateway = upstream(STREAM if stream else RICH, counts=True)
    client = gateway.openai()

    if stream:
        with client.responses.stream(model="openai", input="hi") as events:
            told: list[Any] = list(events)
            answer = events.get_final_response()
        assert [event.type for event in told].count("response.output_item.done") == 3
        assert [event.sequence_number for event in told] == list(range(len(told)))
    else:
        answer = client.responses.create(model="openai", input="hi", temperature=0.5)
        assert (answer.temperature, answer.top_p, answer.tool_choice) == (0.5, None, "auto"), "as OpenAI repeats them"

    thought, message, call = answer.output
    assert thought.content[0].text == "Hm."
    assert message.content[0].text == answer.output_text == "Sunny."
    assert (call.call_id, call.name, call.arguments) == ("call-weather", "weather", '{"city": "Rome"}')
    assert (answer.usage.input_tokens, answer.usage.input_tokens_details.cached_tokens) == (9, 4)
    assert answer.usage.output_tokens_details.reasoning_tokens == 2
    assert answer.status == "completed"


def test_refusals_and_cuts_of_a_response(upstream: Start) -> None:
    gateway = upstream(
        completion(None, message={"refusal": "No."}),
        completion("", finish_reason="content_filter"),
        completion("on and", finish_reason="length"),
    )

    refused, filtered, cut = (post(gateway, "responses", {"input": "hi"}).json() for _ in range(3))

    assert refused["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert filtered["incomplete_details"] == {"reason": "content_filter"}
    assert cut["incomplete_details"] == {"reason": "max_output_tokens"}


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_message_is_translated_or_refused_by_the_fields_name(fine: Passing) -> None:
    for name, (given, wanted) in MESSAGES.items():
        answer = post(fine, "messages", {"messages": HELLO, "max_tokens": 50, **given})

        assert answer.status_code == 200, (name, answer.text)
        assert asked(fine) == {"messages": HELLO, "max_tokens": 50, **wanted}, name
    before = len(fine.asked)
    for given, field in NO_MESSAGES:
        answer = post(fine, "messages", {"messages": HELLO, "max_tokens": 50, **given})

        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
        assert error["message"].startswith(field)
    assert len(fine.asked) == before


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_has_all_of_the_answer(upstream: Start, stream: bool) -> None:
    gateway = upstream(STREAM if stream else RICH, counts=True)
    client = gateway.anthropic()
    given: Any = {"model": "openai", "messages": HELLO, "max_tokens": 50}

    if stream:
        with client.messages.stream(**given) as events:
            answer = events.get_final_message()
    else:
        answer = client.messages.create(**given)

    thought, said, call = answer.content
    assert (thought.thinking, said.text) == ("Hm.", "Sunny.")
    assert (call.id, call.name, call.input) == ("call-weather", "weather", {"city": "Rome"})
    assert answer.stop_reason == "tool_use"
    assert (answer.usage.input_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (5, 4, 5)


@pytest.mark.parametrize(
    ("path", "given"), [("responses", {"input": "hi"}), ("messages", {"messages": HELLO, "max_tokens": 5})]
)
@pytest.mark.parametrize("last", [{"error": {"message": "oh dear"}}, b"data: {half\n\n"])
def test_a_stream_that_fails_ends_with_an_error(upstream: Start, path: str, given: Body, last: object) -> None:
    begun = {**HEAD, "choices": [{"index": 0, "delta": {"content": "Sun"}}]}
    gateway = upstream(chunks(begun, last, done=False), counts=True)

    answer = post(gateway, path, {**given, "stream": True})

    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] == "error"
    assert any("Sun" in json.dumps(event) for event in events)


# -- servers of other protocols ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "reply", "stream"),
    [("messages", MESSAGE, message_stream()), ("responses", RESPONSE, response_stream())],
)
def test_a_server_that_speaks_no_chat_completions_answers_programs_that_do(
    upstream: Start, protocol: str, reply: Body, stream: Reply
) -> None:
    settings = (f"policy.protocol={protocol}", "policy.apis=[]")
    gateway = upstream(Reply(reply), stream, apis=(protocol,), assignments=settings)

    ask = {"messages": HELLO, "max_tokens": 9, "tools": [{"type": "function", "function": {"name": "weather"}}]}
    answer = post(gateway, "chat/completions", ask)
    given: Any = {"model": "openai", **ask}
    with gateway.openai("streamed").chat.completions.stream(**given) as events:
        pieces = [event for event in events if event.type == "chunk"]
        streamed = events.get_final_completion()
    refused = post(gateway, "chat/completions", {"messages": HELLO, "logit_bias": {"7": 1}})

    assert gateway.server.paths == [protocol, protocol]
    assert gateway.asked[0]["max_tokens" if protocol == "messages" else "max_output_tokens"] == 9
    whole = ChatCompletion.model_validate(answer.json())
    assert len({piece.chunk.id for piece in pieces}) == 1
    for found in (whole, streamed):
        [choice] = found.choices
        assert found.id == "chatcmpl-7"
        assert (choice.message.role, choice.message.content) == ("assistant", "Sunny.")
        assert choice.finish_reason == "tool_calls"
        calls: Any = choice.message.tool_calls
        [call] = calls
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"city": "Rome"}
        assert found.usage is not None
        assert (found.usage.prompt_tokens, found.usage.total_tokens) == (9, 14)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logit_bias")
    turns = [turn for one in gateway.live.sessions.values() for turn in one.episode.turns]
    assert [(turn.text, turn.usage.sampled) for turn in turns] == [("Sunny.", 5), ("Sunny.", 5)]


class _Broken(Protocol):
    name, path, title = "gossip", "gossip", 'protocol "gossip" of gossip 1.0'

    def read_request(self, body: RequestBody) -> RequestBody:
        raise KeyError("hush")


def test_a_protocol_that_fails_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(protocols(), "gossip", _Broken())
    gateway = serve()

    answer = post(gateway, "gossip", {})

    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "protocol \"gossip\" of gossip 1.0 failed: KeyError: 'hush'"
