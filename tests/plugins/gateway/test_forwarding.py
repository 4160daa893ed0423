"""In front of a chat completions server everything that isn't ours passes through unchanged, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import USAGE, Reply, chunks, completion, refusal, tool_call

from agentfw.episode import Episode

from .conftest import CLIENT
from .features import ANSWERS, CONVERSATION, FIELDS, TOOL
from .upstream import Passing, Start, passing

Body = dict[str, Any]
ASK: Body = {"model": "openai", "messages": [{"role": "user", "content": "Which tea?"}]}


def post(
    gateway: Passing, body: Body, path: str = "chat/completions", session: str = "tea", **headers: str
) -> httpx.Response:
    return CLIENT.post(f"{gateway.session(session)}/{path}", json=body, headers=headers)


def episode(gateway: Passing, session: str = "tea") -> Episode:
    return gateway.live.sessions[session].episode


def chunk(delta: Body, **choice: Any) -> Body:
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 3, "model": "served"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_reaches_the_server_as_it_is(upstream: Start) -> None:
    gateway = upstream(completion("fine"))
    sent = {"model": "openai", "messages": CONVERSATION, **FIELDS}

    answer = post(gateway, sent, **{"openai-organization": "org", "x-stainless-retry-count": "0", "cookie": "c=1"})

    assert answer.status_code == 200, answer.text
    assert gateway.asked == [{**sent, "model": "served"}]
    headers = gateway.server.headers[-1]
    assert (headers["openai-organization"], headers["x-stainless-retry-count"]) == ("org", "0")
    assert "cookie" not in headers
    said = [(message.role, message.content) for message in episode(gateway).messages]
    assert said[0] == ("system", "Be brief.")
    assert said[1][1].startswith("What is this?\n\n[image_url ")
    assert [action["name"] for action in episode(gateway).actions[""]] == ["weather", "grep"]


def test_a_body_that_needs_no_change_keeps_its_bytes(upstream: Start) -> None:
    gateway = upstream(completion())
    raw = b'{ "model":"served",  "messages":[{"role":"user","content":"\\u00e9"}], "top_p": 0.10 }'

    CLIENT.post(f"{gateway.session('tea')}/chat/completions", content=raw)

    assert gateway.server.raw[-1] == raw


def test_a_program_chooses_the_model_where_the_gateway_was_not_told_one(upstream: Start) -> None:
    gateway = upstream(completion("fine"), assignments=('policy.model=""',))

    answers = [post(gateway, {**ASK, "model": model}) for model in ("gpt-x", "agentfw")]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert [body["model"] for body in gateway.asked] == ["gpt-x", "served"]


# -- answers -----------------------------------------------------------------------------------------------------------


def test_an_answer_comes_back_as_it_is(upstream: Start) -> None:
    headers = {"x-request-id": "r-1", "openai-processing-ms": "12"}
    gateway = upstream(*(Reply(reply.body, headers=headers) for reply in ANSWERS.values()))

    for number, (name, reply) in enumerate(ANSWERS.items()):
        session = f"tea-{number}"
        answer = post(gateway, {**ASK, "tools": [TOOL]}, session=session)

        assert answer.content == json.dumps(reply.body).encode(), name
        assert {header: answer.headers[header] for header in headers} == headers
        assert answer.headers["x-agentfw-session"] == session
        assert [turn.calls for turn in episode(gateway, session).turns] == [()], name


def test_calls_are_recorded_and_belong_to_the_conversation(upstream: Start) -> None:
    called = completion(None, message={"tool_calls": [tool_call("weather", city="Rome")]}, finish_reason="tool_calls")
    gateway = upstream(called, completion("Sunny."))

    message = post(gateway, {**ASK, "tools": [TOOL]}).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    post(gateway, {**ASK, "messages": [*ASK["messages"], message, result], "tools": [TOOL]})

    first, second = episode(gateway).turns
    assert [(call.name, call.arguments) for call in first.calls] == [("weather", {"city": "Rome"})]
    assert second.shown == (0, 1, 2)
    assert len(episode(gateway).messages) == 3, "what the client sent back is what it was answered"


def test_several_choices_are_several_turns(upstream: Start) -> None:
    two = completion("green")
    black = {"index": 1, "message": {"role": "assistant", "content": "black"}, "finish_reason": "stop"}
    two.body["choices"].append(black)  # type: ignore[index]
    gateway = upstream(two)

    answer = post(gateway, {**ASK, "n": 2})

    assert answer.json() == two.body
    assert [turn.text for turn in episode(gateway).turns] == ["green", "black"]
    assert episode(gateway).usage.sampled == 5


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
    [turn] = episode(gateway).turns
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
            chunk({}, finish_reason="stop"),
            counts,
        )
    return completion("fine", **more, top={"prompt_token_ids": [8, 9]})


def test_token_ids_are_asked_for_where_the_server_gives_them_and_not_shown(upstream: Start) -> None:
    gateway = upstream(with_tokens, counts=True, owner="vllm")

    whole = post(gateway, ASK).json()
    streamed = post(gateway, {**ASK, "stream": True}).text

    assert whole == completion("fine", logprobs=None).body
    assert "token_ids" not in streamed
    assert "usage" not in streamed
    assert streamed.endswith("data: [DONE]\n\n")
    for turn in episode(gateway).turns:
        assert (turn.prompt_ids, turn.token_ids, turn.logprobs) == ((8, 9), (1, 2), (-1.0, -2.0))
        assert turn.usage.prompt == USAGE["prompt_tokens"]
    assert len(gateway.server.bodies) == 2, "nothing is asked that costs anything"
    assert gateway.server.asked_for_models == 1


def test_nothing_is_added_where_the_server_refuses_it(upstream: Start) -> None:
    streamed = {**ASK, "stream": True}
    gateway = upstream(chunks(chunk({"content": "fine"}, finish_reason="stop")))

    answers = [post(gateway, streamed) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    counted = {"stream_options": {"include_usage": True}}
    assert gateway.server.bodies == [{**streamed, "model": "served", **more} for more in (counted, {}, {})]


def test_what_one_request_caused_changes_no_other(upstream: Start) -> None:
    def strict(body: Body) -> Reply:
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        bad = [name for name in names if "!" in name]
        return refusal(400, f"Invalid 'tools[0].function.name': {bad}") if bad else completion("fine")

    gateway = upstream(strict)
    bad = {**TOOL, "function": {"name": "we!ather"}}

    refused = post(gateway, {**ASK, "tools": [bad]})
    after = post(gateway, {**ASK, "tools": [TOOL]})

    assert (refused.status_code, after.status_code) == (400, 200)
    assert [body["tools"] for body in gateway.asked] == [[bad], [TOOL]]


# -- failures ----------------------------------------------------------------------------------------------------------


REFUSALS: list[tuple[int, Body, dict[str, str]]] = [
    (429, {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}, {"retry-after": "7"}),
    (400, {"message": "long", "param": "messages", "code": "context_length_exceeded"}, {"x-ratelimit-reset": "1"}),
    (500, {"message": "oh", "type": "server_error"}, {}),
]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_keeps_its_meaning_and_retries_are_up_to_the_client(upstream: Start, stream: bool) -> None:
    replies = (Reply({"error": error}, status, headers) for status, error, headers in REFUSALS)
    gateway = upstream(*replies, counts=True)

    for asked, (status, error, headers) in enumerate(REFUSALS, start=1):
        answer = post(gateway, {**ASK, "stream": stream})

        assert (answer.status_code, answer.json()) == (status, {"error": error})
        assert {name: answer.headers[name] for name in headers} == headers
        assert len(gateway.asked) == asked


@pytest.mark.parametrize(
    ("path", "more", "kind"),
    [("messages", {"max_tokens": 5}, "rate_limit_error"), ("responses", {"input": "hi"}, "requests")],
)
def test_a_refusal_keeps_its_meaning_in_other_formats(upstream: Start, path: str, more: Body, kind: str) -> None:
    error = {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded", "param": None}
    gateway = upstream(Reply({"error": error}, 429, {"retry-after": "7"}))

    answer = post(gateway, {**ASK, **more}, path)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["error"]["message"] == "slow down"


def test_the_servers_address_and_the_key_are_not_told(
    upstream: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    def tell(body: Body) -> Reply:
        return refusal(401, f"sk-very-secret is wrong at {leaky.live.assembly.spec.policy.settings['base_url']}")

    leaky = upstream(tell)

    refused = post(leaky, ASK)
    with passing(tmp_path / "more", assignments=("policy.base_url=http://127.0.0.1:9/v1",)) as down:
        gone = post(down, ASK)

    assert (refused.status_code, gone.status_code) == (401, 502)
    for answer in (refused, gone):
        assert "127.0.0.1" not in answer.text
        assert "secret" not in answer.text


def test_a_base_url_that_lacks_its_v1_is_told_with_a_hint(upstream: Start, tmp_path: Path) -> None:
    without = f"policy.base_url={upstream(completion('fine')).url}"
    with passing(tmp_path / "more", assignments=(without, "policy.model=")) as gateway:
        answer = post(gateway, {**ASK, "model": ""})
    assert (answer.status_code, "HTTP 404" in answer.text, "may lack /v1" in answer.text) == (502, True, True)


@pytest.mark.parametrize(
    "reply",
    [Reply(b"<html>busy</html>"), Reply({"choices": []}), Reply({"choices": [{}]}, missing=3)],
    ids=["html", "empty", "half"],
)
def test_an_answer_that_is_none_is_an_error(upstream: Start, reply: Reply) -> None:
    gateway = upstream(reply, completion("fine"))

    assert post(gateway, ASK).status_code == 502
    assert post(gateway, ASK).status_code == 200


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
    [turn] = episode(gateway).turns
    assert (turn.text, turn.finish) == ("Green te", "interrupted")


def test_a_long_stream_is_no_silent_one(upstream: Start) -> None:
    words = [chunk({"content": "on "}) for _ in range(6)]
    gateway = upstream(chunks(*words, chunk({}, finish_reason="stop"), pause=0.15), assignments=("policy.deadline=1",))

    answer = post(gateway, {**ASK, "stream": True})

    assert answer.text.count('"on "') == 6
    assert "error" not in answer.text


def test_silence_ends_at_the_deadline(upstream: Start) -> None:
    silent = chunks(chunk({"content": "on"}), chunk({"content": "off"}), pause=2)
    gateway = upstream(silent, Reply(completion().body, wait=2), assignments=("policy.deadline=1",))

    stream, whole = post(gateway, {**ASK, "stream": True}), post(gateway, ASK)

    assert "has sent nothing for 1 s" in stream.text
    assert "off" not in stream.text
    assert whole.status_code == 504


# -- a run's own wishes ------------------------------------------------------------------------------------------------


def test_the_sampling_of_the_run_holds_where_the_client_leaves_it_open(upstream: Start) -> None:
    settings = ("sampling.temperature=0.5", "sampling.max_tokens=20")
    gateway = upstream(completion("fine"), assignments=settings)

    post(gateway, ASK)
    post(gateway, {**ASK, "temperature": 0, "max_completion_tokens": 9})

    first, second = gateway.asked
    assert (first["temperature"], first["max_tokens"]) == (0.5, 20)
    assert (second["temperature"], second["max_completion_tokens"], "max_tokens" in second) == (0, 9, False)
