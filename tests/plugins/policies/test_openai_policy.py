"""The openai policy against a real HTTP server: what it sends, what it reads, and what it does when the server fails.

Each test scripts the server: a list of answers, given in order to /chat/completions, the last one again and again.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import ValidationError

from agentfw.agent import Moment
from agentfw.environment import Action, Brief
from agentfw.episode import Call, Message, Observation, Task, Usage
from agentfw.errors import EndpointError, QuotaEndedError
from agentfw.policy import Generation, Request, Sampling
from agentfw.policy_agent import PolicyAgent
from agentfw.testing import check_component
from agentfw_cli.main import main
from agentfw_plugins.policies.openai import OpenAIPolicy, OpenAISettings

OPEN = Action(
    "open",
    "Open a message.",
    {"type": "object", "properties": {"message": {"type": "integer"}}, "required": ["message"]},
)
ASK = Request([Message("system", "Be brief."), Message("user", "Hello?")])


@dataclass
class Reply:
    """One scripted answer of the server."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    missing: int = 0
    """How many bytes less than promised are sent."""


def completion(content: str | None = "fine", **choice: Any) -> Reply:
    """A chat completion as servers give it."""
    message = {"role": "assistant", "content": content, **choice.pop("message", {})}
    top = choice.pop("top", {})
    one = {"index": 0, "message": message, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return Reply(
        {"id": "chat-1", "object": "chat.completion", "model": "served", "choices": [one], "usage": usage} | top
    )


def refusal(status: int, message: str) -> Reply:
    return Reply({"error": {"message": message, "type": "error", "param": None}}, status)


T = TypeVar("T")


def slow(seconds: float) -> Reply:
    return Reply(completion().body, wait=seconds)


Script = Callable[[dict[str, Any]], Reply]


class Server:
    """A small chat-completions server in threads of its own."""

    def __init__(self, *script: Reply | Script, models: tuple[str, ...] = ("served", "other")) -> None:
        self.script, self.models = script or (completion(),), models
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked_for_models = self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        with self.lock:
            step = self.script[min(len(self.bodies), len(self.script) - 1)]
            self.bodies.append(body)
            self.headers.append(headers)
        return step if isinstance(step, Reply) else step(body)


@contextmanager
def serving(*script: Reply | Script, **options: Any) -> Iterator[tuple[str, Server]]:
    server = Server(*script, **options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.asked_for_models += 1
            self._send(Reply({"object": "list", "data": [{"id": name} for name in server.models]}))

        def do_POST(self) -> None:
            with server.lock:
                server.in_flight += 1
                server.most_in_flight = max(server.most_in_flight, server.in_flight)
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = server.answer(body, {name.lower(): value for name, value in self.headers.items()})
            time.sleep(reply.wait)
            with server.lock:
                server.in_flight -= 1
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) - reply.missing])
                self.close_connection = self.close_connection or bool(reply.missing)
            except OSError:
                pass  # the client gave up

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        request_queue_size = 512
        daemon_threads = True

    listener = Listener(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}/v1", server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def policy_at(address: str, **settings: Any) -> OpenAIPolicy:
    return OpenAIPolicy(OpenAISettings(**{"base_url": address, "model": "served", "deadline": 20, **settings}))


def ask(policy: OpenAIPolicy, request: Request = ASK) -> Generation:
    return finish(policy, policy.generate(request))


def finish(policy: OpenAIPolicy, work: Coroutine[Any, Any, T]) -> T:
    async def run() -> T:
        try:
            return await work
        finally:
            await policy.close()

    return asyncio.run(run())


def fails(policy: OpenAIPolicy, request: Request = ASK) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        ask(policy, request)
    return caught.value


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


# -- what is sent and what is read -------------------------------------------------------------------------------------


def test_a_turn_goes_over_the_wire_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=40, seed=2**63 - 1)
    request = Request([*ASK.messages], [OPEN], sampling)
    with serving() as (address, server):
        answer = ask(policy_at(address, api_key_env="MY_KEY", extra_body={"top_k": 7}), request)
    (body,) = server.bodies
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
    assert body["tools"][0]["function"] == {
        "name": "open",
        "description": "Open a message.",
        "parameters": OPEN.parameters,
    }
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("served", 0.5, 0.9, 40)
    assert (body["seed"], body["top_k"]) == (2**63 - 1, 7)
    assert server.headers[0]["authorization"] == "Bearer abc"
    assert (answer.text, answer.length, answer.version, answer.finish) == ("fine", 5, "served", "stop")
    assert answer.usage == Usage(prompt=9, cached=None, sampled=5)


def test_nothing_is_sent_of_a_sampling_that_leaves_the_choice_to_the_server() -> None:
    with serving() as (address, server):
        ask(policy_at(address))
    assert not {"temperature", "top_p", "max_tokens", "seed", "tools"} & server.bodies[0].keys()
    assert "authorization" not in server.headers[0]


def test_token_ids_and_logprobs_are_read_as_vllm_gives_them() -> None:
    content = [
        {"token": "fi", "logprob": -0.5, "bytes": [102, 105]},
        {"token": "ne", "logprob": -0.25, "bytes": [110, 101]},
        {"token": "<|im_end|>", "logprob": -0.125, "bytes": [60, 124, 105, 109, 95, 101, 110, 100, 124, 62]},
    ]
    reply = completion(
        token_ids=[11, 12, 2],
        logprobs={"content": content},
        finish_reason="length",
        top={"prompt_token_ids": [1, 5, 6]},
    )
    with serving(reply) as (address, server):
        answer = ask(policy_at(address))
    assert (server.bodies[0]["return_token_ids"], server.bodies[0]["logprobs"]) == (True, True)
    assert (answer.prompt_ids, answer.token_ids, answer.logprobs) == ((1, 5, 6), (11, 12, 2), (-0.5, -0.25, -0.125))
    assert (answer.cut(1).text, answer.length, answer.finish) == ("fi", 3, "length")
    assert answer.pieces == ("fi", "ne", ""), "the token that ends an answer is no part of its text"


def test_training_can_insist_on_token_ids_and_others_can_do_without() -> None:
    with serving() as (address, server):
        error = fails(policy_at(address, token_ids="on"))
        ask(policy_at(address, token_ids="off"))
    assert "no token ids" in error.message
    assert not {"logprobs", "return_token_ids"} & server.bodies[-1].keys()
    with serving(refusal(400, "unknown field: return_token_ids")) as (address, server):
        assert "return_token_ids" in fails(policy_at(address, token_ids="on")).message
    assert len(server.bodies) == 1


def test_the_first_model_that_the_server_lists_is_taken_and_asked_for_once() -> None:
    with serving() as (address, server):
        policy = policy_at(address, model="")

        async def both() -> list[Generation]:
            return list(await asyncio.gather(policy.generate(ASK), policy.generate(ASK)))

        finish(policy, both())
    assert [body["model"] for body in server.bodies] == ["served", "served"]
    assert server.asked_for_models == 1
    with serving(models=()) as (address, _):
        assert "lists no models" in fails(policy_at(address, model="")).message


# -- streams -----------------------------------------------------------------------------------------------------------


def stream(*choices: dict[str, Any], end: str = "data: [DONE]\n\n", usage: bool = True, **first: Any) -> Reply:
    """A streamed chat completion as servers give it, one choice in each chunk."""
    rows: list[dict[str, Any]] = [{"model": "served", "choices": [{"index": 0, **choice}]} for choice in choices]
    rows[0] |= first
    if usage:
        counts = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
        rows.append({"model": "served", "choices": [], "usage": counts})
    lines = [": a comment\r\n", *(f"data: {json.dumps(row, ensure_ascii=False)}\n\n" for row in rows), end]
    return Reply("".join(lines).encode(), headers={"content-type": "text/event-stream; charset=utf-8"})


def streamed(policy: OpenAIPolicy, request: Request = ASK) -> tuple[Generation, list[str]]:
    told: list[str] = []
    return finish(policy, policy.stream(request, told.append)), told


def say(text: str) -> dict[str, Any]:
    return {"delta": {"content": text}}


def test_a_streamed_answer_is_what_it_would_have_been_whole() -> None:
    tokens = [
        {"token": "fi", "logprob": -0.5, "bytes": [102, 105]},
        {"token": "ne\u2028", "logprob": -0.25, "bytes": [*b"ne\xe2\x80\xa8"]},
        {"token": "<end>", "logprob": -0.125, "bytes": [*b"<end>"]},
    ]
    whole = completion(
        "fine\u2028", token_ids=[11, 12, 2], logprobs={"content": tokens}, top={"prompt_token_ids": [1, 5, 6]}
    )
    pieces = stream(
        {"delta": {"role": "assistant", "content": ""}, "logprobs": None},
        *(
            {**say(text), "token_ids": [n], "logprobs": {"content": [one]}}
            for text, n, one in zip(["fi", "ne\u2028", ""], [11, 12, 2], tokens, strict=True)
        ),
        {"delta": {}, "finish_reason": "stop", "token_ids": []},
        prompt_token_ids=[1, 5, 6],
    )

    with serving(pieces, whole) as (address, server):
        answer, told = streamed(policy_at(address))
        same = ask(policy_at(address))

    assert answer == same
    assert told == ["fi", "ne\u2028"]
    assert (answer.token_ids, answer.logprobs, answer.prompt_ids) == ((11, 12, 2), (-0.5, -0.25, -0.125), (1, 5, 6))
    assert [body.get("stream") for body in server.bodies] == [True, None]


def test_calls_are_put_together_from_their_pieces() -> None:
    def part(**function: str) -> dict[str, Any]:
        return {"index": 0, **({"id": "c7"} if "name" in function else {}), "function": function}

    pieces = [part(name="open", arguments=""), part(arguments='{"mess'), part(arguments='age": 3}')]
    reply = stream(
        say("I look."), *({"delta": {"tool_calls": [one]}} for one in pieces), {"finish_reason": "tool_calls"}
    )

    with serving(reply) as (address, _):
        answer, told = streamed(policy_at(address), Request([*ASK.messages], [OPEN]))

    assert answer.calls == (Call("open", {"message": 3}, "c7"),)
    assert (answer.text, told) == ("I look.", ["I look."])


@pytest.mark.parametrize("script", [(refusal(400, "streaming is not supported"), completion()), (completion(),)])
def test_a_server_that_does_not_stream_is_heard_whole(script: tuple[Reply, ...]) -> None:
    with serving(*script) as (address, server):
        policy = policy_at(address)
        answer, told = streamed(policy)

    assert (answer.text, told) == ("fine", ["fine"])
    assert len(server.bodies) == len(script)


@pytest.mark.parametrize("end", ["", 'data: {"error": {"message": "out of memory"}}\n\n', "data: {broken\n\n"])
def test_a_stream_that_breaks_off_is_tried_again_until_a_word_was_told(end: str) -> None:
    whole = stream(say("all "), say("well"), {"delta": {}, "finish_reason": "stop"})
    with serving(stream({"delta": {}}, end=end, usage=False), whole) as (address, server):
        answer, told = streamed(policy_at(address))
        tries = len(server.bodies)
    with serving(stream(say("half"), end=end, usage=False), whole) as (address, server):
        with pytest.raises(EndpointError, match="1 try"):
            streamed(policy_at(address))
        after_a_word = len(server.bodies)

    assert (answer.text, told, tries) == ("all well", ["all ", "well"], 2)
    assert after_a_word == 1


@pytest.mark.slow
def test_the_policy_keeps_the_contract() -> None:
    words = ["one", " two", " three", ""]

    def speak(body: dict[str, Any]) -> Reply:
        count = min(len(words), body.get("max_tokens", 99))
        content = [{"token": word, "logprob": -0.5} for word in words[:count]]
        ids = {"token_ids": list(range(count)), "logprobs": {"content": content}}
        finish = "stop" if count == len(words) else "length"
        return completion("".join(words[:count]), **ids, finish_reason=finish, top={"prompt_token_ids": [7]})

    with serving(speak) as (address, _):
        results = check_component("policy", lambda: policy_at(address))
    missed = {result.name for result in results if not result.passed or result.skipped}
    assert missed == {"its_settings_are_explained"}, "that is checked where the policy is made by its name"


# -- calls -------------------------------------------------------------------------------------------------------------


def called(*calls: tuple[str, str], content: str | None = None) -> Reply:
    """An answer with tool calls: names and arguments as JSON texts."""
    entries = [
        {"id": f"call_{name}_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(calls)
    ]
    return completion(content, message={"tool_calls": entries}, finish_reason="tool_calls")


def two_turns(address: str, server: Server) -> tuple[PolicyAgent, list[Any], list[dict[str, Any]]]:
    """An agent asked twice; in between the world answers its calls. Gives decisions and what the second turn sent."""
    policy = policy_at(address)
    agent = PolicyAgent(policy)
    agent.begin(Task(0, 0), Brief("Read the mail.", (OPEN,)))

    async def run() -> list[Any]:
        first = await agent.act(Moment(0, (Observation(0, "mail"),)))
        seen = tuple(Observation(1, "open", {"call": call.id}, "it says hi") for call in first.interventions)
        return [first, await agent.act(Moment(1, seen))]

    decisions = finish(policy, run())
    return agent, decisions, server.bodies[-1]["messages"]


def test_calls_that_the_server_tells_apart_are_calls_and_their_answers_refer_to_them() -> None:
    with serving(called(("open", '{"message": 3}')), completion("done")) as (address, server):
        _, (first, _), messages = two_turns(address, server)
    assert first.interventions == (Call("open", {"message": 3}, "call_open_0"),)
    assert not first.failures
    assert first.generation.finish == "stop"
    assistant, tool = messages[2], messages[3]
    assert assistant["tool_calls"][0]["function"] == {"name": "open", "arguments": '{"message": 3}'}
    assert (tool["role"], tool["tool_call_id"], tool["content"]) == ("tool", "call_open_0", "it says hi")


@pytest.mark.parametrize(
    ("name", "arguments", "failure"),
    [
        ("open", '{"message": 3', "the arguments of open must be an object"),
        ("open", "[3]", "the arguments of open must be an object"),
        ("opne", '{"message": 3}', 'there is no action "opne"; did you mean "open"?'),
    ],
)
def test_a_broken_call_is_a_failure_that_the_agent_can_read_and_the_good_ones_count(
    name: str, arguments: str, failure: str
) -> None:
    reply = called((name, arguments), ("open", '{"message": 4}'), content="Let me see.")
    with serving(reply, completion("done")) as (address, server):
        _, (first, _), messages = two_turns(address, server)
    assert list(first.failures) == [failure]
    assert [(call.name, call.arguments) for call in first.interventions] == [("open", {"message": 4})]
    assert messages[2]["role"] == "assistant"
    assert messages[2]["content"].startswith("Let me see.\n<tool_call>")
    assert "tool_calls" not in messages[2]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert "it says hi" in messages[3]["content"]


def test_calls_that_the_model_wrote_in_its_text_go_back_as_that_text() -> None:
    text = 'I open it. <open message="3"/>'
    with serving(completion(text), completion("done")) as (address, server):
        _, (first, _), messages = two_turns(address, server)
    assert first.interventions[0].arguments == {"message": "3"}
    assert messages[2] == {"role": "assistant", "content": text}
    assert messages[3]["role"] == "user"


def test_a_server_without_tools_is_told_of_them_in_words() -> None:
    def without_tools(body: dict[str, Any]) -> Reply:
        if "tools" in body:
            return refusal(
                400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            )
        return completion('<tool_call>{"name": "open", "arguments": {"message": 3}}</tool_call>')

    with serving(without_tools) as (address, server):
        _, decisions, messages = two_turns(address, server)
    assert [decision.interventions[0].arguments for decision in decisions] == [{"message": 3}, {"message": 3}]
    assert messages[0]["content"].startswith("Read the mail.\n\nYou can call these functions")
    assert '"name": "open"' in messages[0]["content"]
    assert {message["role"] for message in messages} == {"system", "user", "assistant"}
    assert len(server.bodies) == 3, "it is not offered tools again"


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


def test_a_temperature_out_of_range_is_an_error_and_not_left_out() -> None:
    with serving(refusal(400, "temperature must be between 0 and 2")) as (address, server):
        fails(policy_at(address), Request(ASK.messages, sampling=Sampling(temperature=9.0)))

    assert len(server.bodies) == 1


def test_an_account_that_is_used_up_is_not_asked_again_and_has_its_own_advice() -> None:
    words = "You exceeded your current quota, please check your plan and billing details."
    ended = Reply({"error": {"message": words, "type": "insufficient_quota", "code": "insufficient_quota"}}, 429)

    with serving(ended) as (address, server):
        error = fails(policy_at(address))

    assert isinstance(error, QuotaEndedError)
    assert len(server.bodies) == 1
    assert "used up" in error.message
    assert "add credit" in error.fix
    assert "concurrency" not in error.fix


@pytest.mark.slow
def test_a_run_whose_quota_ends_is_resumed_without_asking_anything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"name": "decide", "arguments": json.dumps({"accept": "A", "ranking": ["A", "B", "C", "D", "E"]})}
    decides = completion(None, message={"tool_calls": [{"id": "c", "type": "function", "function": call}]})
    ended = Reply({"error": {"message": "used up", "type": "insufficient_quota"}}, 429)
    monkeypatch.chdir(tmp_path)
    words = ["run", "calendar-strategyhub", "--set", "policy.model=served", "--set", "concurrency=1"]
    words += ["--set", "sampling.top_p=null", "--set", "environment.rounds=6", "--set", "episodes=3"]

    def command(address: str, *words: str) -> Any:
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--set", f"policy.base_url={address}"])
        return stopped.value.code

    with serving(*[decides] * 11, ended) as (address, first):
        assert command(address, *words) == 1
    (run,) = (tmp_path / "runs").iterdir()
    with serving(decides) as (address, second):
        assert command(address, "runs", "resume", str(run)) == 0

    asked = [json.dumps(body, sort_keys=True) for body in (*first.bodies[:11], *second.bodies)]
    assert len(second.bodies) > 0
    assert len(set(asked)) == len(asked), "no answered request is asked again"
    assert all("top_p" not in body for body in first.bodies)


def test_the_refusals_of_strict_servers_are_understood_where_they_list_what_is_wrong() -> None:
    detail = [
        {"type": "extra_forbidden", "loc": ["body", "return_token_ids"], "msg": "Extra inputs", "input": "logprobs"}
    ]

    def strict(body: dict[str, Any]) -> Reply:
        return Reply({"detail": detail}, 422) if "return_token_ids" in body else completion()

    with serving(strict) as (address, server):
        ask(policy_at(address))
    assert "logprobs" in server.bodies[-1]


def test_max_tokens_goes_by_its_newer_name_where_the_server_wants_that() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."

    def newer(body: dict[str, Any]) -> Reply:
        return refusal(400, words) if "max_tokens" in body else completion()

    with serving(newer) as (address, server):
        ask(policy_at(address), Request(ASK.messages, sampling=Sampling(max_tokens=40)))
    assert server.bodies[-1]["max_completion_tokens"] == 40


def test_a_refusal_that_only_mentions_a_field_costs_later_requests_nothing() -> None:
    script = (refusal(400, "no way, and logprobs too"), refusal(400, "no way"), completion())
    with serving(*script) as (address, server):
        policy = policy_at(address)
        assert "no way" in fails(policy).message
        ask(policy)
    assert "logprobs" in server.bodies[-1]


def test_a_field_that_the_user_asked_for_is_never_dropped_silently() -> None:
    with serving(refusal(400, "unknown field seed")) as (address, server):
        assert "unknown field seed" in fails(policy_at(address, extra_body={"seed": 1})).message
    assert len(server.bodies) == 1


def test_a_prompt_that_is_too_long_is_refused_once_and_says_so() -> None:
    words = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens; logprobs"
    with serving(refusal(400, words)) as (address, server):
        error = fails(policy_at(address))
    assert len(server.bodies) == 1
    assert "maximum context length is 4096" in error.message
    assert "context" in error.fix


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


def test_a_model_that_is_not_there_is_answered_with_the_nearest_that_is() -> None:
    with serving(refusal(404, "The model does not exist."), models=("qwen3-4b", "tiny")) as (address, server):
        error = fails(policy_at(address, model="qwen-3-4b"))
    assert len(server.bodies) == 1
    assert "did you mean 'qwen3-4b'?" in error.fix


# -- servers that fail -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(form: str) -> None:
    def busy(body: dict[str, Any]) -> Reply:
        after = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)  # whole seconds: 1 to 2 from now
        return Reply({"error": "busy"}, 429, headers={"retry-after": after})

    with serving(busy, completion()) as (address, server):
        began = time.monotonic()
        assert ask(policy_at(address)).text == "fine"
        assert time.monotonic() - began >= 0.9
    assert len(server.bodies) == 2


def test_a_server_that_asks_for_more_time_than_there_is_fails_at_once() -> None:
    with serving(Reply({"error": "busy"}, 429, headers={"retry-after": "3600"})) as (address, _):
        began = time.monotonic()
        error = fails(policy_at(address))
    assert time.monotonic() - began < 600
    assert "429" in error.message
    assert "1 try" in error.message


@pytest.mark.parametrize(
    ("headers", "words"),
    [({"location": "https://elsewhere/v1"}, "it redirects to https://elsewhere/v1"), ({}, "that it doesn't name")],
)
def test_a_redirect_is_told_with_where_it_leads(headers: dict[str, str], words: str) -> None:
    with serving(Reply(b"", 301, headers=headers)) as (address, _):
        error = fails(policy_at(address))

    assert words in error.message


@pytest.mark.slow
@pytest.mark.parametrize("status", [408, 409, 500, 503])
def test_a_server_that_stumbles_is_asked_again(status: int) -> None:
    with serving(Reply(b"oh no", status), Reply(b"oh no", status), completion()) as (address, server):
        assert ask(policy_at(address)).text == "fine"
    assert len(server.bodies) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(completion().body, missing=20), "RemoteProtocolError"),
        (Reply(b"<html>nginx says hello</html>", headers={"content-type": "text/html"}), "not JSON: <html>nginx"),
        (Reply({"error": {"message": "upstream is away"}}), "no choices: upstream is away"),
        (Reply({"choices": []}), "no choices"),
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


def test_a_long_answer_of_a_failing_server_is_told_shortly() -> None:
    with serving(Reply(b"x" * 100_000, 500)) as (address, _):
        assert len(fails(policy_at(address, retries=0)).message) < 600


@pytest.mark.slow
def test_an_answer_of_fifty_megabytes_is_given_up_and_not_asked_for_again() -> None:
    huge = Reply(b'{"choices": [' + b" " * 50_000_000 + b"]}")

    with serving(huge) as (address, server):
        error = fails(policy_at(address))

    assert f"{address}/chat/completions sent more than 32 MB in one answer" in error.message
    assert "OpenAI-compatible server" in error.fix
    assert len(server.bodies) == 1


@pytest.mark.slow
def test_a_server_that_is_too_slow_is_given_up_at_the_deadline() -> None:
    with serving(slow(3.0)) as (address, server):
        error = fails(policy_at(address, deadline=0.5))
    assert "deadline 0.5 s" in error.message
    assert len(server.bodies) == 1


@pytest.mark.slow
def test_a_closed_port_is_an_error_that_says_where_and_what_to_check() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        error = fails(policy_at(address, retries=1))
    assert address in error.message
    assert "2 tries" in error.message
    assert "check that the server is running" in error.fix


# -- many at once ------------------------------------------------------------------------------------------------------


def many(policy: OpenAIPolicy, count: int) -> list[Generation]:
    async def run() -> list[Generation]:
        return list(await asyncio.gather(*(policy.generate(ASK) for _ in range(count))))

    return finish(policy, run())


@pytest.mark.slow
def test_no_more_requests_are_in_flight_than_allowed() -> None:
    with serving(slow(0.02)) as (address, server):
        assert len(many(policy_at(address, concurrency=3), 20)) == 20
    assert server.most_in_flight == 3


@pytest.mark.slow
def test_two_hundred_requests_in_flight_finish() -> None:
    with serving(slow(3.0)) as (address, server):
        assert len(many(policy_at(address, concurrency=200), 200)) == 200
    assert server.most_in_flight > 100


@pytest.mark.slow
def test_waiting_for_a_slot_is_not_held_against_the_server() -> None:
    with serving(slow(0.3)) as (address, _):
        assert len(many(policy_at(address, concurrency=1, deadline=0.9), 5)) == 5


def test_a_cancelled_request_leaves_its_slot_to_the_next() -> None:
    with serving(slow(1.0), slow(1.0), completion("next")) as (address, server):
        policy = policy_at(address, concurrency=2)

        async def run() -> str:
            tasks = [asyncio.create_task(policy.generate(ASK)) for _ in range(2)]
            while server.most_in_flight < 2:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in done)
            return (await asyncio.wait_for(policy.generate(ASK), 5)).text

        assert finish(policy, run()) == "next"


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
        ({"concurrency": 0}, "greater"),
        ({"deadline": 0}, "greater"),
        ({"retries": -1}, "greater"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_asked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        OpenAISettings(**settings)
