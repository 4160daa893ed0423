"""The openai policy against a real HTTP server that refuses, fails or is busy, and requests that nobody waits for."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence
from email.utils import formatdate
from typing import Any

import pytest
from chat_server import Handler, Reply, completion, listening, refusal, serving
from openai_asking import ASK, ask, fails, finish, policy_at
from pydantic import ValidationError

from agentfw.errors import QuotaEndedError
from agentfw.policy import Generation, Request, Sampling
from agentfw_plugins.policies.http import endpoint
from agentfw_plugins.policies.http.endpoint import Endpoint
from agentfw_plugins.policies.http.openai_policy import OpenAIPolicy, OpenAISettings


@pytest.fixture(autouse=True)
def _no_key_and_little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(endpoint, "_FIRST_PAUSE", 0.01)


def slow(seconds: float) -> Reply:
    return Reply(completion().body, wait=seconds)


@pytest.mark.parametrize(
    ("answers", "spoken"),
    [((503, 400), [False, True]), ((429, 404, 400), [False, False, False]), ((401,), [True]), ((501,), [False])],
)
def test_a_server_that_says_nothing_of_a_protocol_is_asked_again(answers: Sequence[int], spoken: list[bool]) -> None:
    statuses = iter(answers)

    class Asked(Handler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET(next(statuses))

        def do_GET(self, status: int = 404) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

    with listening(Asked) as address:
        policy = policy_at(address)

        async def ask() -> list[bool]:
            return [await policy.speaks("messages") for _ in spoken]

        assert finish(policy, ask()) == spoken


# -- servers that refuse -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "words", "status"),
    [
        ("return_token_ids", "Unrecognized request argument supplied: return_token_ids", 400),
        ("logprobs", "You are not allowed to request logprobs from this model", 403),
        ("seed", "seed: Extra inputs are not permitted", 422),
    ],
)
def test_a_field_that_the_server_does_not_know_is_left_out_from_then_on(field: str, words: str, status: int) -> None:
    def picky(body: dict[str, Any]) -> Reply:
        return refusal(status, words) if field in body else completion()

    with serving(picky) as (address, server):
        policy = policy_at(address)
        request = Request(ASK.messages, sampling=Sampling(seed=3))
        ask(policy, request)
        ask(policy, request)
    assert [field in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize(
    "words",
    [
        "Unsupported value: '{}' does not support 0.6 with this model. Only the default (1) value is supported.",
        "Unsupported parameter: '{}' is not supported with this model.",
    ],
)
def test_sampling_that_a_server_refuses_by_name_is_left_out_and_told_to_training(words: str) -> None:
    def gpt_5(body: dict[str, Any]) -> Reply:
        refused = next((name for name in ("temperature", "top_p", "logprobs") if name in body), "")
        return refusal(400, words.format(refused)) if refused else completion()

    with serving(gpt_5) as (address, server):
        policy = policy_at(address)
        request = Request(ASK.messages, sampling=Sampling(temperature=0.6, top_p=0.95))
        answers = [ask(policy, request), ask(policy, request)]

    assert len(server.bodies) == 5, "three refusals, and then none"
    assert [(answer.temperature, answer.top_p) for answer in answers] == [(1.0, 1.0)] * 2


def test_max_tokens_goes_by_its_newer_name_where_the_server_wants_that() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."

    def newer(body: dict[str, Any]) -> Reply:
        return refusal(400, words) if "max_tokens" in body else completion()

    with serving(newer) as (address, server):
        ask(policy_at(address), Request(ASK.messages, sampling=Sampling(max_tokens=40)))
    assert server.bodies[-1]["max_completion_tokens"] == 40


LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens; logprobs"
QUOTA = {"message": "You exceeded your current quota, please check your plan.", "type": "insufficient_quota"}
ELSEWHERE = {"location": "https://elsewhere/v1"}


@pytest.mark.parametrize(
    ("reply", "settings", "sampling", "said", "fix"),
    [
        (refusal(400, "temperature must be between 0 and 2"), {}, {"temperature": 9.0}, "between 0 and 2", ""),
        (refusal(400, "unknown field seed"), {"extra_body": {"seed": 1}}, {}, "unknown field seed", ""),
        (refusal(400, LONG), {}, {}, "maximum context length is 4096", "context"),
        (refusal(404, "The model does not exist."), {"model": "othr"}, {}, "does not exist", "did you mean 'other'?"),
        (Reply({"error": QUOTA}, 429), {}, {}, "used up", "add credit"),
        (refusal(402, "Payment required."), {}, {}, "used up", "add credit"),
        (Reply(b"", 301, headers=ELSEWHERE), {}, {}, "it redirects to https://elsewhere/v1", ""),
        (Reply(b"", 301), {}, {}, "that it doesn't name", ""),
    ],
)
def test_a_refusal_that_no_other_request_would_mend_is_told_at_once_with_what_helps(
    reply: Reply, settings: dict[str, Any], sampling: dict[str, Any], said: str, fix: str
) -> None:
    """Also a field that the user asked for is an error, and not left out silently."""
    with serving(reply) as (address, server):
        error = fails(policy_at(address, **settings), Request(ASK.messages, sampling=Sampling(**sampling)))

    assert len(server.bodies) == 1
    assert said in error.message
    assert fix in error.fix
    assert isinstance(error, QuotaEndedError) == (said == "used up")


def test_a_refusal_that_only_mentions_a_field_costs_later_requests_nothing() -> None:
    script = (refusal(400, "no way, and logprobs too"), refusal(400, "no way"), completion())
    with serving(*script) as (address, server):
        policy = policy_at(address)
        assert "no way" in fails(policy).message
        ask(policy)
    assert "logprobs" in server.bodies[-1]


def test_a_wrong_key_is_an_error_that_names_its_variable_and_never_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    with serving(refusal(401, "Incorrect API key provided: sk-very-secret")) as (address, server):
        policy = policy_at(address, api_key_env="MY_KEY")
        error = fails(policy)
    assert len(server.bodies) == 1
    assert "MY_KEY" in error.fix
    context = (error.message, error.fix, repr(error), repr(error.__cause__), repr(error.__context__), repr(policy))
    assert "sk-very-secret" not in " ".join([*context, repr(vars(policy)), repr(policy.settings)])


def test_a_missing_key_and_one_that_cannot_be_sent_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(refusal(401, "who are you?")) as (address, _):
        assert "OPENAI_API_KEY is not set" in fails(policy_at(address)).fix
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nand more")
        error = fails(policy_at(address))
    assert "OPENAI_API_KEY" in error.message
    assert "secret" not in error.message


# -- servers that fail -------------------------------------------------------------------------------------------------


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    def until_a_date(body: dict[str, Any]) -> Reply:
        after = formatdate(time.time() + 2, usegmt=True)  # whole seconds: 1 to 2 from now
        return Reply({"error": "busy"}, 429, headers={"retry-after": after})

    for_seconds = Reply({"error": "busy"}, 429, headers={"retry-after": "0.5"})
    with serving(until_a_date, for_seconds, completion()) as (address, server):
        began = time.monotonic()
        assert ask(policy_at(address)).text == "fine"
        assert time.monotonic() - began >= 1.4
    assert len(server.bodies) == 3


@pytest.mark.parametrize("status", [408, 503])
def test_a_server_that_stumbles_is_asked_again(status: int) -> None:
    with serving(Reply(b"oh no", status), Reply(b"oh no", status), completion()) as (address, server):
        assert ask(policy_at(address)).text == "fine"
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(completion().body, missing=20), "ClientPayloadError"),
        (Reply(b"<html>nginx says hello</html>", headers={"content-type": "text/html"}), "not JSON: <html>nginx"),
        (Reply({"error": {"message": "upstream is away"}}), "no choices: upstream is away"),
        (Reply({"choices": [{"finish_reason": "stop"}]}), "no message"),
        (Reply([]), "not a JSON object"),
        (completion(finish_reason="abort"), "aborted the answer"),
    ],
)
def test_an_answer_that_is_none_is_asked_for_again_and_then_an_error(reply: Reply, words: str) -> None:
    with serving(reply, completion()) as (address, server):
        assert ask(policy_at(address)).text == "fine"
    assert len(server.bodies) == 2
    with serving(reply) as (address, server):
        error = fails(policy_at(address, retries=1))
    assert words in error.message
    assert f"{address}/chat/completions" in error.message
    assert "2 tries" in error.message
    assert len(server.bodies) == 2


def test_a_server_that_is_too_slow_is_given_up_at_the_deadline() -> None:
    with serving(slow(3.0)) as (address, server):
        error = fails(policy_at(address, deadline=0.5))
    assert "deadline 0.5 s" in error.message
    assert len(server.bodies) == 1


def test_a_closed_port_is_an_error_that_says_where_and_what_to_check() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        error = fails(policy_at(address, retries=1))
    assert address in error.message
    assert "2 tries" in error.message
    assert "check that the server is running" in error.fix


def test_a_server_that_was_never_there_is_not_waited_for_again_by_each_request() -> None:
    async def failures(policy: OpenAIPolicy) -> list[str]:
        found = await asyncio.gather(*(policy.generate(ASK) for _ in range(3)), return_exceptions=True)
        return [str(error) for error in found]

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        policy = policy_at(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", concurrency=1)
        first, *others = finish(policy, failures(policy))
    assert "gave no usable answer" in first
    assert [" in 1 try " in one for one in others] == [True, True]


# -- many at once ------------------------------------------------------------------------------------------------------


def many(policy: OpenAIPolicy, count: int) -> list[Generation]:
    async def run() -> list[Generation]:
        return list(await asyncio.gather(*(policy.generate(ASK) for _ in range(count))))

    return finish(policy, run())


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    with serving(slow(0.02)) as (address, server):
        assert len(many(policy_at(address, concurrency=3), 20)) == 20
    assert server.most_in_flight == 3


def test_waiting_for_a_slot_is_not_held_against_the_server() -> None:
    with serving(slow(0.3)) as (address, _):
        assert len(many(policy_at(address, concurrency=1, deadline=0.9), 5)) == 5


def test_one_policy_serves_one_event_loop_after_another() -> None:
    with serving() as (address, _):
        policy = policy_at(address)
        assert [asyncio.run(policy.generate(ASK)).text for _ in range(3)] == ["fine"] * 3


def test_a_server_on_this_machine_is_not_looked_for_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving() as (address, _):
        assert ask(policy_at(address, retries=0)).text == "fine"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_url": "localhost:8000"}, "http://"),
        ({"base_url": "http://user:secret@host/v1"}, "api_key_env"),
        ({"base_url": "http://host:port/v1"}, "[Pp]ort"),
        ({"extra_body": {"stream": True}}, "stream"),
        ({"retries": -1}, "greater"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_asked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        OpenAISettings(**settings)


MOMENTS = 60
"""A request takes fewer turns of the event loop than this."""


class Server:
    """Answers in two pieces, and counts its connections."""

    def __init__(self, keeps: bool) -> None:
        self.keeps, self.open, self.changed = keeps, 0, asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                connection = b"keep-alive" if self.keeps else b"close"
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: " + connection + b"\r\n\r\nan")
                await asyncio.sleep(0)
                writer.write(b"swer")
                if not self.keeps:
                    break
        self.open -= 1
        self.changed.set()
        writer.close()

    async def until_at_most(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.open > count:
                await self.changed.wait()
                self.changed.clear()


async def read(endpoint: Endpoint) -> bytes:
    async with endpoint.slot(), endpoint.once("/", None, {}, "GET") as response:
        return b"".join([part async for part in response.content.iter_any()])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_request_that_is_stopped_at_any_moment_leaves_no_connection(keeps: bool) -> None:
    async def run() -> None:
        server = Server(keeps)
        listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        endpoint = Endpoint(f"http://127.0.0.1:{port}", concurrency=1, deadline=60, retries=0)
        for moment in range(2 * MOMENTS):
            reading = asyncio.create_task(read(endpoint))
            for _ in range(moment % MOMENTS):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        async with asyncio.timeout(60):
            assert await read(endpoint) == b"answer"
        await server.until_at_most(1)
        await endpoint.close()
        await server.until_at_most(0)
        listener.close()

    asyncio.run(run())
