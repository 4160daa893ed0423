"""Requests in front of a server that speaks their protocol reach it as they are, and so back."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import httpx
import pytest
from chat_server import Reply, completion
from waiting import until

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.protocols import BadRequest, protocols
from agentfw_plugins.protocols.chat import recorded
from agentfw_plugins.protocols.protocol import read_body

from .conftest import CLIENT, EARS
from .features import HELLO, SCHEMA
from .mutations import mutated
from .native_features import MESSAGE, RESPONSE, message_stream, response_stream
from .test_google import ANSWER, SPEAKS_IT, streamed
from .test_google import ASK as GOOGLE
from .test_google import post as post_to_google
from .upstream import Passing, Start

Body = dict[str, Any]
BOTH = ("responses", "messages")
ASK_RESPONSE: Body = {
    "model": "served",
    "previous_response_id": "resp_1",
    "background": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "tools": [{"type": "web_search"}, {"type": "function", "name": "weather", "parameters": SCHEMA}],
    "input": [
        {"type": "item_reference", "id": "x"},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "abc"},
        {"role": "user", "content": [{"type": "input_text", "text": "Rome?"}, {"type": "input_image", "file_id": "f"}]},
    ],
}
ASK_MESSAGE: Body = {
    "model": "served",
    "max_tokens": 2000,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}],
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}, {"name": "weather", "input_schema": SCHEMA}],
    "metadata": {"user_id": "ada"},
    "messages": [
        {"role": "user", "content": "Rome?"},
        {
            "role": "assistant",
            "content": [
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "h", "signature": "s"},
                {"type": "text", "text": "Which day?"},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "Today", "citations": {"enabled": True}}]},
    ],
}
ASK_GOOGLE: Body = {**GOOGLE, "cachedContent": "cachedContents/7", "tools": [{"googleSearch": {}}, *GOOGLE["tools"]]}
ASKED = {"responses": ASK_RESPONSE, "messages": ASK_MESSAGE, "google": ASK_GOOGLE}
ANSWERED = {"responses": RESPONSE, "messages": MESSAGE, "google": ANSWER}
STREAMS = {"responses": response_stream, "messages": message_stream, "google": streamed}
SPEAKS: dict[str, Body] = {"google": {"assignments": SPEAKS_IT}}


@pytest.fixture
def upstream(upstream: Start) -> Start:
    return partial(upstream, apis=BOTH)


def post(gateway: Passing, path: str, body: Body, query: str = "", **headers: str) -> httpx.Response:
    if path == "google":
        return post_to_google(gateway, body, query, headers)
    raw = json.dumps(body, indent=1).encode()
    return CLIENT.post(f"{gateway.session('tea')}/{path}{query}", content=raw, headers=headers)


def post_streaming(gateway: Passing, path: str) -> httpx.Response:
    if path == "google":
        return post_to_google(gateway, ASK_GOOGLE, "?alt=sse", method="streamGenerateContent")
    return post(gateway, path, {**ASKED[path], "stream": True})


@pytest.mark.parametrize("path", ASKED)
def test_a_request_and_its_answer_keep_their_bytes_and_the_record_has_what_was_said(upstream: Start, path: str) -> None:
    reply = Reply(json.dumps(ANSWERED[path], indent=2).encode(), headers={"request-id": "r-1"})
    gateway = upstream(reply, STREAMS[path](), **SPEAKS.get(path, {}))
    sent = {"anthropic-version": "2023-06-01", "anthropic-beta": "b"}

    answer = post(gateway, path, ASKED[path], "?beta=true", **sent)
    stream = post_streaming(gateway, path)

    assert gateway.server.raw[0] == json.dumps(ASKED[path], indent=1).encode()
    assert gateway.server.paths[0] == f"{'models/served:generateContent' if path == 'google' else path}?beta=true"
    assert sent.items() <= gateway.server.headers[0].items()
    assert answer.content == reply.body
    assert (answer.headers["request-id"], answer.headers["x-agentfw-session"]) == ("r-1", "tea")
    assert stream.content == STREAMS[path]().body
    assert stream.headers["content-type"].startswith("text/event-stream")
    for turn in gateway.episode().turns:
        assert (turn.text, turn.finish) == ("Sunny.", "stop")
        [call] = turn.calls
        assert (call.name, call.arguments) == ("weather", {"city": "Rome"})
        assert call.id == "c" or path == "google", "which has no id for it"
        assert (turn.usage.prompt, turn.usage.cached, turn.usage.sampled) == (9, 4, 5)
    said = [message.content for message in gateway.episode().messages if message.role == "user"]
    assert said[0].startswith("Rome?")
    search = "googleSearch" if path == "google" else "web_search"
    assert [action["name"] for action in gateway.episode().actions[""]] == [search, "weather"]


@pytest.mark.parametrize("path", ASKED)
def test_a_stream_that_is_cut_off_ends_with_an_error_of_its_format(upstream: Start, path: str) -> None:
    lines = STREAMS[path]().body
    assert isinstance(lines, bytes)
    cut = lines[: lines.index(b"Sunny." if path == "messages" else b"ny.")]
    cut = cut[: cut.rindex(b"data:")]
    gateway = upstream(Reply(cut, headers={"content-type": "text/event-stream"}), **SPEAKS.get(path, {}))

    answer = post_streaming(gateway, path)

    told = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    if path == "google":
        assert told[-1]["error"]["code"] == 502
    else:
        assert told[-1]["type"] == "error"
        assert b"event: error\n" in answer.content
    assert gateway.episode().turns[0].finish == "interrupted"


@pytest.mark.parametrize("path", BOTH)
def test_a_refusal_comes_back_as_it_is_and_what_is_wrong_is_up_to_the_server(upstream: Start, path: str) -> None:
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "r"}
    strange = {"error": {"message": "what is this?"}}
    error = {"code": "server_error", "message": "oh dear"}
    failed = {"id": "r", "status": "failed", "output": [], "content": [], "error": error}
    gateway = upstream(Reply(busy, 529, {"retry-after": "3"}), Reply(strange, 400), Reply(failed))

    refused = post(gateway, path, ASKED[path])
    wrong = post(gateway, path, {"model": "served", "input": 7, "messages": "no", "max_tokens": "x"})

    assert (refused.status_code, refused.json(), refused.headers["retry-after"]) == (529, busy, "3")
    assert (wrong.status_code, wrong.json()) == (400, strange)
    if path == "responses":
        gave_up = post(gateway, path, ASKED[path])
        assert (gave_up.status_code, gave_up.json()) == (502, failed)
    if path == "messages":  # no database has a user of this name
        assert post(gateway, path, {**ASKED[path], "metadata": {"user_id": "a\0b"}}).status_code == 400


def test_nothing_in_a_request_keeps_it_from_its_server() -> None:
    spoken = {protocols()[name].path: protocols()[name] for name in ("responses", "messages", "completions")}
    tried = Counter[str]()
    for number in range(1500):
        path, raw, _ = mutated(number)
        protocol = spoken.get(path.rpartition("/v1/")[2])
        if protocol is None:
            continue
        tried[protocol.name] += 1
        try:
            body = read_body(raw)
            model = body.name("model")
        except BadRequest:
            continue
        asked = recorded(protocol, body)
        assert asked.model == model
        assert asked.messages

    assert min(tried[protocol.name] for protocol in spoken.values()) > 50


def test_conversations_that_a_server_keeps_are_not_for_keys_of_users(upstream: Start, keys: KeyFile) -> None:
    ada = {"authorization": f"Bearer {keys.add('ada', user='ada')}"}
    gateway = upstream(Reply(RESPONSE), limits=Limits(key_file=keys.path))
    plain = {"model": "served", "input": [{"role": "user", "content": "hi"}]}
    kept: dict[str, Body] = {
        "previous_response_id": {"previous_response_id": "resp_of_eve"},
        "conversation": {"conversation": {"id": "conv_of_eve"}},
        "input[0].type": {"input": [{"type": "item_reference", "id": "msg_of_eve"}]},
    }

    for field, more in kept.items():
        refused = post(gateway, "responses", {**plain, **more}, **ada)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)
    assert not gateway.asked
    assert post(gateway, "responses", plain, **ada).status_code == 200


def test_an_answer_that_is_sent_back_belongs_to_the_conversation(upstream: Start) -> None:
    gateway = upstream(Reply(RESPONSE))
    asked = {"model": "served", "input": [{"role": "user", "content": "Rome?"}]}
    post(gateway, "responses", asked)
    result = {"type": "function_call_output", "call_id": "c", "output": "22 degrees"}

    post(gateway, "responses", {**asked, "input": [*asked["input"], *RESPONSE["output"][2:], result]})

    assert gateway.episode().turns[1].shown == (0, 1, 2)


def test_what_is_remembered_is_added_where_the_format_has_it(upstream: Start) -> None:
    gateway = upstream(Reply(MESSAGE), Reply(MESSAGE), Reply(RESPONSE), memories=[EARS])
    fact = {"model": "served", "max_tokens": 9, "messages": [{"role": "user", "content": "I live in Berlin."}]}
    CLIENT.post(f"{gateway.url}/s/one/v1/messages?user=ada", json=fact)
    until(lambda: gateway.remembered("ada"))

    ask = {**fact, "system": [{"type": "text", "text": "Be brief."}], "messages": HELLO}
    CLIENT.post(f"{gateway.url}/s/two/v1/messages?user=ada", json=ask)
    CLIENT.post(f"{gateway.url}/s/three/v1/responses?user=ada", json={"model": "served", "input": "Where do I live?"})

    by_messages, by_responses = gateway.asked[1:]
    assert by_messages["system"][0] == {"type": "text", "text": "Be brief."}
    assert "Berlin" in by_messages["system"][1]["text"]
    assert "Berlin" in by_responses["instructions"]
    assert gateway.server.paths[-2:] == ["messages", "responses"], "the user is the gateway's business"


def test_who_names_no_user_is_told_nothing_of_what_was_recalled_for_the_sessions_user(upstream: Start) -> None:
    gateway = upstream(Reply(MESSAGE), Reply(MESSAGE), Reply(MESSAGE), memories=[EARS])
    fact = {"model": "served", "max_tokens": 9, "messages": [{"role": "user", "content": "I live in Berlin."}]}
    CLIENT.post(f"{gateway.url}/s/one/v1/messages?user=ada", json=fact)
    until(lambda: gateway.remembered("ada"))

    for user in ("?user=ada", ""):
        CLIENT.post(f"{gateway.url}/s/two/v1/messages{user}", json={**fact, "messages": HELLO})

    asked_by_ada, asked_by_nobody = (json.dumps(body) for body in gateway.asked[1:])
    assert "Berlin" in asked_by_ada
    assert "Berlin" not in asked_by_nobody


def test_another_protocol_than_the_servers_is_translated_and_token_ids_are_asked_for(upstream: Start) -> None:
    token = {"token_ids": [5], "logprobs": {"content": [{"token": "a", "logprob": -0.5, "bytes": [97]}]}}
    gateway = upstream(completion("fine", **token), owner="vllm", apis=("messages",))

    answer = post(gateway, "responses", {"model": "served", "input": "hi"})

    assert gateway.server.paths == ["chat/completions"]
    assert answer.json()["output"][0]["content"][0]["text"] == "fine"
    assert gateway.episode().turns[0].token_ids == (5,)


def test_the_key_goes_into_the_header_that_the_server_reads(upstream: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    import anthropic  # here, because it takes seconds

    monkeypatch.setenv("CLAUDE_KEY", "sk-secret-key-of-a-server")
    settings = ("policy.api_key_env=CLAUDE_KEY", "policy.api_key_header=x-api-key")
    gateway = upstream(Reply(MESSAGE), assignments=settings)
    client = anthropic.Anthropic(base_url=f"{gateway.url}/s/tea", api_key="of the gateway", max_retries=0)

    client.messages.create(model="served", max_tokens=9, messages=[{"role": "user", "content": "hi"}])

    headers = gateway.server.headers[-1]
    assert headers["x-api-key"] == "sk-secret-key-of-a-server"
    assert "authorization" not in headers
