"""In front of a chat completions server everything that isn't ours passes through unchanged, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import USAGE, Reply, chunks, completion, refusal

from agentfw_plugins.gateway.live import Limits

from .conftest import CLIENT
from .features import ANSWERS, CONVERSATION, FIELDS, TOOL
from .upstream import Passing, Start, passing

Body = dict[str, Any]
ASK: Body = {"model": "openai", "messages": [{"role": "user", "content": "Which tea?"}]}


def post(
    gateway: Passing, body: Body, path: str = "chat/completions", session: str = "tea", **headers: str
) -> httpx.Response:
    return CLIENT.post(f"{gateway.session(session)}/{path}", json=body, headers=headers)


def chunk(delta: Body, **choice: Any) -> Body:
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 3, "model": "served"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_reaches_the_server_as_it_is(upstream: Start) -> None:
    gateway = upstream(completion("fine"))
    sent = {"model": "openai", "messages": CONVERSATION, **FIELDS}
    raw = b'{ "model":"served",  "messages":[{"role":"user","content":"\\u00e9"}], "top_p": 0.10 }'

    ours = {"cookie": "c=1", "x-forwarded-for": "10.0.0.9", "x-agentfw-user": "ada"}
    answer = post(gateway, sent, **{"openai-organization": "org", "x-stainless-retry-count": "0", **ours})
    CLIENT.post(f"{gateway.session('raw')}/chat/completions", content=raw, headers={b"x-title": "東京".encode()})

    assert gateway.server.headers[-1]["x-title"].encode("latin-1").decode() == "東京"
    assert answer.status_code == 200, answer.text
    assert gateway.asked[0] == {**sent, "model": "served"}
    assert gateway.server.raw[-1] == raw, "a body that needs no change keeps its bytes"
    headers = gateway.server.headers[0]
    assert (headers["openai-organization"], headers["x-stainless-retry-count"]) == ("org", "0")
    assert not ours.keys() & headers.keys()
    said = [(message.role, message.content) for message in gateway.episode().messages]
    assert said[0] == ("system", "Be brief.")
    assert said[1][1].startswith("What is this?\n\n[image_url ")
    assert [action["name"] for action in gateway.episode().actions[""]] == ["weather", "grep"]


def test_the_model_and_the_sampling_are_those_of_the_run_where_the_client_leaves_them_open(upstream: Start) -> None:
    gateway = upstream(
        completion("fine"), assignments=('policy.model=""', "sampling.temperature=0.5", "sampling.max_tokens=20")
    )

    post(gateway, {**ASK, "model": "gpt-x"})
    post(gateway, {**ASK, "model": "agentfw", "temperature": 0, "max_completion_tokens": 9})

    first, second = gateway.asked
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("gpt-x", 0.5, 20)
    assert (second["model"], second["temperature"], second["max_completion_tokens"]) == ("served", 0, 9)
    assert "max_tokens" not in second


# -- answers -----------------------------------------------------------------------------------------------------------


def test_an_answer_comes_back_as_it_is(upstream: Start) -> None:
    headers = {"x-request-id": "r-1", "openai-processing-ms": "12"}
    theirs = {"set-cookie": "s=1", "location": "http://10.0.0.3/", "access-control-allow-origin": "*"}
    gateway = upstream(*(Reply(reply.body, headers=headers | theirs) for reply in ANSWERS.values()))

    for number, (name, reply) in enumerate(ANSWERS.items()):
        session = f"tea-{number}"
        answer = post(gateway, {**ASK, "tools": [TOOL]}, session=session)

        assert answer.content == json.dumps(reply.body).encode(), name
        assert {header: answer.headers[header] for header in headers} == headers
        assert not theirs.keys() & answer.headers.keys()
        assert answer.headers["x-agentfw-session"] == session
        assert [turn.calls for turn in gateway.episode(session).turns] == [()], name


def test_several_choices_are_several_turns(upstream: Start) -> None:
    two = completion("green")
    black = {"index": 1, "message": {"role": "assistant", "content": "black"}, "finish_reason": "stop"}
    two.body["choices"].append(black)  # type: ignore[index]
    gateway = upstream(two)

    answer = post(gateway, {**ASK, "n": 2})

    assert answer.json() == two.body
    assert [turn.text for turn in gateway.episode().turns] == ["green", "black"]
    assert gateway.episode().usage.sampled == 5


def test_a_stream_comes_back_as_it_is(upstream: Start) -> None:
    called = {"index": 0, "id": "c-9", "type": "function", "function": {"name": "weather", "arguments": '{"ci'}}
    reply = chunks(
        b": keep-alive\n\n",
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "Sun <b> `x` {"}, logprobs={"content": []}),
        chunk({"tool_calls": [called]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'ty": 1}'}}]}),
        chunk({}, finish_reason="tool_calls"),
    )
    gateway = upstream(reply)

    answer = post(gateway, {**ASK, "stream": True, "tools": [TOOL]})

    assert answer.content == reply.body
    assert gateway.asked[-1] == {**ASK, "model": "served", "stream": True, "tools": [TOOL]}
    [turn] = gateway.episode().turns
    assert (turn.text, [call.arguments for call in turn.calls]) == ("Sun <b> `x` {", [{"city": 1}])


# -- what is added -----------------------------------------------------------------------------------------------------


def with_tokens(body: Body) -> Reply:
    assert (body["logprobs"], body["return_token_ids"]) == (True, True)
    logprobs = {"content": [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2.0}]}
    more = {"token_ids": [1, 2], "logprobs": logprobs}
    if body.get("stream"):
        assert body["stream_options"] == {"include_usage": True}
        counts = {**chunk({}), "choices": [], "usage": USAGE}
        return chunks(
            {**chunk({"content": "fine"}, **more), "prompt_token_ids": [8, 9], "usage": None},
            {**chunk({}, finish_reason="stop"), "usage": USAGE},  # as servers do that count all the time
            counts,
        )
    return completion("fine", **more, top={"prompt_token_ids": [8, 9]})


def test_token_ids_are_asked_for_where_the_server_gives_them_and_not_shown(upstream: Start) -> None:
    gateway = upstream(with_tokens, counts=True, owner="vllm")

    whole = post(gateway, ASK).json()
    streamed = post(gateway, {**ASK, "stream": True}).text
    wanted = post(gateway, {**ASK, "logprobs": True, "tool_choice": "required"}).json()["choices"][0]
    post(gateway, {**ASK, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "weather"}}})

    assert [one["logprob"] for one in wanted["logprobs"]["content"]] == [-1.0, -2.0], "which was asked for"
    assert "token_ids" not in wanted
    assert whole == completion("fine", logprobs=None).body
    assert "token_ids" not in streamed
    assert "usage" not in streamed
    assert '"finish_reason":"stop"' in streamed
    assert streamed.endswith("data: [DONE]\n\n")
    for turn in gateway.episode().turns:
        assert (turn.prompt_ids, turn.token_ids, turn.logprobs) == ((8, 9), (1, 2), (-1.0, -2.0))
        assert turn.usage.prompt == USAGE["prompt_tokens"]
    assert [turn.constrained for turn in gateway.episode().turns] == [False, False, True, True]
    assert len(gateway.server.bodies) == 4, "nothing is asked that costs anything"
    assert gateway.server.asked_for_models == 1


# -- failures ----------------------------------------------------------------------------------------------------------


REFUSALS: list[tuple[int, Body, dict[str, str]]] = [
    (429, {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}, {"retry-after": "7"}),
    (400, {"message": "long", "param": "messages", "code": "context_length_exceeded"}, {"x-ratelimit-reset": "1"}),
    (500, {"message": "oh", "type": "server_error"}, {}),
]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_keeps_its_meaning_and_retries_are_up_to_the_client(upstream: Start, stream: bool) -> None:
    replies = [Reply({"error": error}, status, headers) for status, error, headers in REFUSALS]
    gateway = upstream(*replies, replies[0], counts=True)

    for asked, (status, error, headers) in enumerate(REFUSALS, start=1):
        answer = post(gateway, {**ASK, "stream": stream})

        assert (answer.status_code, answer.json()) == (status, {"error": error})
        assert {name: answer.headers[name] for name in headers} == headers
        assert len(gateway.asked) == asked
    for path, more, kind in (
        ("messages", {"max_tokens": 5}, "rate_limit_error"),
        ("responses", {"input": "hi"}, "requests"),
    ):
        answer = post(gateway, {**ASK, **more}, path)

        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        assert (answer.json()["error"]["type"], answer.json()["error"]["message"]) == (kind, "slow")


def test_the_servers_address_and_the_key_are_not_told_and_what_its_base_url_may_lack_is(
    upstream: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    def tell(body: Body) -> Reply:
        return refusal(401, f"sk-very-secret is wrong at {leaky.live.assembly.spec.policy.settings['base_url']}")

    leaky = upstream(tell, limits=Limits(upstream_key="either"))
    refused = post(leaky, ASK, authorization="Bearer s")
    with passing(tmp_path / "down", assignments=("policy.base_url=http://127.0.0.1:9/v1",)) as down:
        gone = post(down, ASK)
    with passing(tmp_path / "lacks", assignments=(f"policy.base_url={leaky.url}", "policy.model=")) as lacks:
        not_there = post(lacks, {**ASK, "model": ""})

    assert [answer.status_code for answer in (refused, gone, not_there)] == [401, 502, 502]
    assert leaky.server.headers[0]["authorization"] == "Bearer sk-very-secret", "a key of its own goes first"
    assert "is wrong at" in refused.text, "a word that a program has in place of a key is no secret"
    assert "may lack /v1" in not_there.text
    for answer in (refused, gone, not_there):
        assert "127.0.0.1" not in answer.text
        assert "secret" not in answer.text


def test_an_answer_that_is_none_is_an_error(upstream: Start) -> None:
    none = (Reply(b"<html>busy</html>"), Reply({"choices": []}), Reply({"choices": [{}]}, missing=3))
    gateway = upstream(*none, completion("fine"))

    assert [post(gateway, ASK).status_code for _ in range(4)] == [502, 502, 502, 200]


HALF = 'data: {"choices": [{"index": 0, "delta": {"content": "\u00e4'.encode()[:-1]
"""An event that ends within a character."""


@pytest.mark.parametrize(("last", "missing"), [(chunk({"content": "a"}), 20), (HALF, 0)])
def test_a_stream_that_breaks_off_is_an_error_that_can_be_read_and_kept_as_far_as_it_came(
    upstream: Start, last: object, missing: int
) -> None:
    first = chunk({"content": "Green te"})
    gateway = upstream(chunks(first, last, done=False, missing=missing))

    answer = post(gateway, {**ASK, "stream": True})

    events = [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
    assert events[0] == first
    assert events[-1]["error"]["code"] == "upstream_failed"
    [turn] = gateway.episode().turns
    assert (turn.text, turn.finish) == ("Green te", "interrupted")


def test_silence_ends_at_the_deadline_and_a_long_stream_does_not(upstream: Start) -> None:
    words = [chunk({"content": "on "}) for _ in range(6)]
    long = chunks(*words, chunk({}, finish_reason="stop"), pause=0.15)
    silent = chunks(chunk({"content": "on"}), chunk({"content": "off"}), pause=2)
    gateway = upstream(long, silent, Reply(completion().body, wait=2), assignments=("policy.deadline=1",))

    first, second = (post(gateway, {**ASK, "stream": True}).text for _ in range(2))

    assert (first.count('"on "'), "error" in first) == (6, False)
    assert "has sent nothing for 1 s" in second
    assert "off" not in second
    assert post(gateway, ASK).status_code == 504
