"""The openai policy against a real HTTP server: what it sends, what it reads, and how it streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, Server, completion, refusal, serving
from openai_asking import ASK, OPEN, ask, fails, finish, policy_at

from agentfw.episode import Call, Message, Observation, Task, Usage
from agentfw.errors import EndpointError
from agentfw.policy import Generation, Request, Sampling
from agentfw.request import Brief, Moment
from agentfw.testing import check_component
from agentfw.turns.policy_agent import PolicyAgent
from agentfw_plugins.policies.http.endpoint import key_in
from agentfw_plugins.policies.http.openai_policy import OpenAIPolicy
from agentfw_plugins.protocols.answers import read_generation
from agentfw_plugins.protocols.chat import write_chat


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
        ask(policy_at(address))
    body, plain = server.bodies
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
    assert not {"temperature", "top_p", "max_tokens", "seed", "tools"} & plain.keys(), "the choice is the server's"
    assert "authorization" not in server.headers[1]


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
    assert (server.bodies[0]["return_token_ids"], server.bodies[0]["logprobs"]) == (True, True)
    assert (answer.cut(1).text, answer.length) == ("fi", 3)
    assert answer.pieces == ("fi", "ne\u2028", ""), "the token that ends an answer is no part of its text"


def test_the_last_line_of_a_stream_may_lack_its_end() -> None:
    last = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    with serving(stream(say("fine"), end=f"data: {last}", usage=False)) as (address, _):
        assert streamed(policy_at(address))[0].text == "fine"


@pytest.mark.parametrize("script", [(refusal(400, "streaming is not supported"), completion()), (completion(),)])
def test_a_server_that_does_not_stream_is_heard_whole(script: tuple[Reply, ...]) -> None:
    with serving(*script) as (address, server):
        policy = policy_at(address)
        answer, told = streamed(policy)

    assert (answer.text, told) == ("fine", ["fine"])
    assert len(server.bodies) == len(script)


@pytest.mark.parametrize("end", ["", 'data: {"error": {"message": "out of memory"}}\n\n'])
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


def test_calls_to_which_the_server_gives_no_ids_have_each_their_own() -> None:
    unnamed = {"type": "function", "function": {"name": "open", "arguments": "{}"}}
    with serving(completion(None, message={"tool_calls": [unnamed, unnamed]})) as (address, server):
        _, decisions, messages = two_turns(address, server)
    assert len({call.id for one in decisions for call in one.interventions} - {""}) == 4
    assert [one["id"] for one in messages[2]["tool_calls"]] == [one["tool_call_id"] for one in messages[3:5]]


def test_broken_calls_are_failures_that_the_agent_can_read_and_the_good_ones_count() -> None:
    broken = [("open", '{"message": 3'), ("open", "[3]"), ("opne", '{"message": 3}')]
    reply = called(*broken, ("open", '{"message": 4}'), content="Let me see.")
    with serving(reply, completion("done")) as (address, server):
        _, (first, _), messages = two_turns(address, server)
    no_object = "the arguments of open must be an object"
    assert list(first.failures) == [no_object, no_object, 'there is no action "opne"; did you mean "open"?']
    assert [(call.name, call.arguments) for call in first.interventions] == [("open", {"message": 4})]
    assert messages[2]["content"].startswith("Let me see.\n<tool_call>")
    assert "tool_calls" not in messages[2]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert "it says hi" in messages[3]["content"]


def test_calls_that_the_model_wrote_in_its_text_are_text() -> None:
    text = 'I open it.\n<tool_call>{"name": "open", "arguments": {"message": 3}}</tool_call>'
    with serving(completion(text), completion("done")) as (address, server):
        _, (first, _), messages = two_turns(address, server)
    assert first.interventions == ()
    assert not first.failures
    assert messages[2] == {"role": "assistant", "content": text}


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
    assert len(server.bodies) == 4, "it is asked whether it refuses any tools, and not offered tools again"


def test_a_tool_that_the_server_refuses_is_an_error_and_costs_nobody_else_their_tools() -> None:
    def strict(body: dict[str, Any]) -> Reply:
        bad = [tool for tool in body.get("tools", ()) if "!" in tool["function"]["name"]]
        return refusal(400, "Invalid 'tools[0].function.name'") if bad else completion()

    with serving(strict) as (address, server):
        policy = policy_at(address)
        fails(policy, Request(ASK.messages, [replace(OPEN, name="op!en")]))
        ask(policy, Request(ASK.messages, [OPEN]))

    assert server.bodies[-1]["tools"][0]["function"]["name"] == "open"
    assert len(server.bodies) == 3


def test_a_protocol_that_is_not_there_is_told_before_anything_is_asked() -> None:
    with pytest.raises(ValueError, match=r'is called "mesages"; did you mean "messages"\?.*known: '):
        policy_at("http://localhost:1/v1", protocol="mesages")


# -- what is made of a reply, where no server is needed to see it ------------------------------------------------------


def reply(content: object, *, usage: object = None, calls: object = None, **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return {"model": "served", "choices": [{"message": message, **choice}], "usage": usage}


def logprobs(*tokens: tuple[str, list[int] | None]) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -1.0, "bytes": octets} for token, octets in tokens]}


OCTETS = list("ü".encode())


@pytest.mark.parametrize(
    ("text", "tokens", "pieces"),
    [
        ("thirteen pigs", [("thirteen", None), (" pigs", None)], ("thirteen", " pigs")),
        ("42", [("<think>", None), ("42", None)], ()),  # a server that keeps the reasoning to itself lists its tokens
        ("ü", [("\\xc3", OCTETS[:1]), ("\\xbc", OCTETS[1:])], ("", "ü")),
        ("ab", [("a", [999]), ("b", [])], ("a", "b")),
    ],
    ids=["without token ids", "another text", "a character of two tokens", "bytes that are none"],
)
def test_the_pieces_of_an_answer_say_how_far_it_had_come(
    text: str, tokens: list[tuple[str, list[int] | None]], pieces: tuple[str, ...]
) -> None:
    answer = read_generation(reply(text, logprobs=logprobs(*tokens)), ())
    assert (answer.pieces, answer.length, answer.logprobs) == (pieces, 2, ())


@pytest.mark.parametrize(
    "given",
    [logprobs(("a", None)), {"content": [{"token": "a"}] * 2}, {"content": [{"logprob": float("nan")}] * 2}, 3],
)
def test_logprobs_that_do_not_belong_to_the_token_ids_are_not_taken_for_theirs(given: object) -> None:
    answer = read_generation(reply("ab", token_ids=[3, 4], logprobs=given), ())
    assert (answer.token_ids, answer.logprobs, answer.pieces) == ((3, 4), (), ())


def test_an_answer_without_any_count_still_takes_time() -> None:
    assert read_generation(reply("twelve chars"), ()).length == 3
    calls = [{"id": "1", "function": {"name": "open", "arguments": "{}"}}]
    assert read_generation(reply(None, calls=calls), {"open"}).length > 0


def test_content_in_parts_is_joined_and_content_that_is_null_is_no_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert [read_generation(reply(content), ()).text for content in (parts, None)] == ["ab", ""]


@pytest.mark.parametrize("arguments", ["", None, {}])
def test_a_call_without_arguments_is_a_call(arguments: object) -> None:
    calls = [{"id": "1", "function": {"name": "open", "arguments": arguments}}]
    assert read_generation(reply(None, calls=calls), {"open"}).calls == (Call("open", {}, "1"),)


@pytest.mark.parametrize("calls", [[3], [{"function": 3}], [{"function": {"name": None, "arguments": "{}"}}]])
def test_calls_that_are_none_are_failures_and_stay_in_the_text(calls: object) -> None:
    answer = read_generation(reply("So:", calls=calls), {"open"})
    assert answer.calls == ()
    assert len(answer.failures) == 1
    assert answer.said == "So:"
    assert answer.text.startswith("So:\n<tool_call>")


@pytest.mark.parametrize("arguments", ['{"x": NaN}', '{"x": "\\ud800"}', "[" * 100_000])
def test_a_call_holds_nothing_that_no_file_can_keep(arguments: str) -> None:
    calls = [{"id": "1", "function": {"name": "open", "arguments": arguments}}]
    answer = read_generation(reply(None, calls=calls), {"open"})
    for call in answer.calls:
        written = json.dumps(dict(call.arguments), allow_nan=False, ensure_ascii=False).encode()
        assert json.loads(written) == call.arguments


def test_users_who_speak_twice_are_sent_as_one_for_the_templates_that_want_turns() -> None:
    said = [Message("user", "a"), Message("user", "b"), Message("assistant", "c"), Message("user", "d")]
    sent = write_chat(Request(said), native=True)["messages"]
    assert [(message["role"], message["content"]) for message in sent] == [
        ("user", "a\nb"),
        ("assistant", "c"),
        ("user", "d"),
    ]


COUNTS = {"prompt_tokens": 120, "prompt_tokens_details": {"cached_tokens": 100}, "completion_tokens": 7}


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        (COUNTS, Usage(120, 100, 7)),
        ({"prompt_tokens": 120, "prompt_cache_hit_tokens": 100, "completion_tokens": 7}, Usage(120, 100, 7)),
        ({**COUNTS, "prompt_tokens": 99}, Usage(99, None, 7)),  # more were cached than there are
        ({"prompt_tokens": True}, Usage(None, None, None)),
        *((bad, Usage(None, None, None)) for bad in (None, {"prompt_tokens_details": 4}, dict.fromkeys(COUNTS, -1))),
    ],
)
def test_what_an_answer_cost_is_what_the_server_says_and_else_unknown(usage: object, known: Usage) -> None:
    answer = read_generation(reply("twelve chars", usage=usage), ())
    assert (answer.usage, answer.length) == (known, known.sampled or 3)


def test_an_answer_costs_what_its_model_does_by_the_users_own_prices_and_else_by_the_usual_one() -> None:
    prices = {name: {"prompt": price, "sampled": price} for name, price in (("small", 0.5), ("big", 4))}
    policy = policy_at("http://localhost:1/v1", model="big", price={"prompt": 1, "sampled": 1}, prices=prices)
    other = policy_at("http://localhost:1/v1", price={"prompt": 1, "sampled": 1}, prices=prices)

    costs = [one.priced(Usage(10**6, 0, 0), model).cost for one in (policy, other) for model in ("small", "newer")]

    assert costs == [0.5, 4, 0.5, 1]


async def one_by_one(policy: OpenAIPolicy, requests: Sequence[Request]) -> list[Generation]:
    return [await policy.generate(request) for request in requests]


def test_answers_that_were_paid_for_are_kept_for_the_task_that_asked_and_given_again(tmp_path: Path) -> None:
    def without_tools(body: dict[str, Any]) -> Reply:
        return refusal(400, "no tools here") if "tools" in body else completion("fine")

    users = [replace(ASK, actions=[OPEN], task=Task(0, 1, user=user)) for user in ("ada", "bob", "ada")]
    with serving(without_tools) as (address, server):
        found = []
        for _ in range(2):
            policy = policy_at(address)
            policy.open(tmp_path)
            found.append(finish(policy, one_by_one(policy, users)))
        paid = [body for body in server.bodies if "tools" not in body]

    assert len(paid) == 2
    first, resumed = found
    assert [one.repeated for one in resumed] == [False, False, True]
    assert [one.in_text for one in first] == [one.in_text for one in resumed]
    assert first[0].in_text != read_generation(reply("fine"), ()).in_text, "its calls stand in its text"


def test_a_key_that_nobody_named_goes_to_openai_and_this_network_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    some = ["https://api.openai.com/v1", "https://mine.openai.azure.com/v1"]
    some += ["http://gpu-7:8000/v1", "http://10.0.0.3/v1", "https://models.internal/v1"]
    others = ["https://notopenai.com/v1", "https://openai.com.example.org/v1", "https://8.8.8.8/v1"]

    assert [url for url in some + others if key_in("OPENAI_API_KEY", default_for=url)] == some


def test_no_cookie_of_one_answer_goes_with_the_next_request() -> None:
    with serving(replace(completion(), headers={"set-cookie": "who=ada; Path=/"})) as (address, server):
        policy = policy_at(address.replace("127.0.0.1", "localhost"))

        finish(policy, one_by_one(policy, [ASK, ASK]))
    assert [headers.get("cookie") for headers in server.headers] == [None, None]


def test_what_a_server_does_not_count_is_counted_where_it_gives_the_tokens() -> None:
    counted = reply("fine", token_ids=[3, 4]) | {"prompt_token_ids": [5, 6, 7]}
    assert read_generation(counted, ()).usage == Usage(3, None, 2)
