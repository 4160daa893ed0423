"""What the openai policy makes of a reply, where no server is needed to see it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentfw.episode import Call, Message, Usage
from agentfw.policy import Request
from agentfw.request import Action, Sampling
from agentfw.turns.turn_builder import TurnBuilder
from agentfw_plugins.protocols.answers import read_generation
from agentfw_plugins.protocols.chat import write_chat

OPEN = Action("open", "Open a message.", {"type": "object", "properties": {}})


def reply(content: object, *, usage: object = None, calls: object = None, **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return {"model": "served", "choices": [{"message": message, **choice}], "usage": usage}


def logprobs(*tokens: tuple[str, list[int] | None]) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -1.0, "bytes": octets} for token, octets in tokens]}


def test_without_token_ids_the_pieces_still_say_how_far_an_answer_had_come() -> None:
    answer = read_generation(reply("thirteen pigs", logprobs=logprobs(("thirteen", None), (" pigs", None))), ())
    assert (answer.logprobs, answer.length, answer.cut(1).text) == ((), 2, "thirteen")


def test_pieces_of_another_text_are_not_taken_for_it() -> None:
    # A server that keeps the model's reasoning to itself lists its tokens all the same.
    answer = read_generation(reply("42", logprobs=logprobs(("<think>", None), ("42", None))), ())
    assert (answer.pieces, answer.length) == ((), 2)


def test_a_character_that_is_spread_over_tokens_comes_out_whole() -> None:
    octets = list("ü".encode())
    answer = read_generation(reply("ü", logprobs=logprobs(("\\xc3", octets[:1]), ("\\xbc", octets[1:]))), ())
    assert answer.pieces == ("", "ü")


def test_bytes_that_are_none_are_replaced_by_the_token() -> None:
    assert read_generation(reply("ab", logprobs=logprobs(("a", [999]), ("b", []))), ()).pieces == ("a", "b")


@pytest.mark.parametrize(
    "given",
    [logprobs(("a", None)), {"content": [{"token": "a"}] * 2}, {"content": [{"logprob": float("nan")}] * 2}, None, 3],
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


@pytest.mark.parametrize("arguments", ["", None, "{}", {}])
def test_a_call_without_arguments_is_a_call(arguments: object) -> None:
    calls = [{"id": "1", "function": {"name": "open", "arguments": arguments}}]
    assert read_generation(reply(None, calls=calls), {"open"}).calls == (Call("open", {}, "1"),)


@pytest.mark.parametrize("calls", [[3], [{}], [{"function": 3}], [{"function": {"name": None, "arguments": "{}"}}]])
def test_calls_that_are_none_are_failures_and_stay_in_the_text(calls: object) -> None:
    answer = read_generation(reply("So:", calls=calls), {"open"})
    assert answer.calls == ()
    assert len(answer.failures) == 1
    assert answer.said == "So:"
    assert answer.text.startswith("So:\n<tool_call>")


def test_without_tools_calls_are_in_the_format_that_the_model_was_told() -> None:
    tagged, bare = '<tool_call>{"name": "open", "arguments": {}}</tool_call>', '{"name": "open", "arguments": {}}'
    answers = [read_generation(reply(text), {"open"}, native=False) for text in (tagged, bare)]
    assert [len(TurnBuilder.read(answer, Sampling(), {"open"}, "call_").calls) for answer in answers] == [1, 0]


def test_a_call_may_hold_what_ends_a_call_in_a_text() -> None:
    calls = [{"id": "1", "function": {"name": "open", "arguments": '{"x": "</tool_call>"}'}}]
    assert read_generation(reply(None, calls=calls), {"open"}).calls == (Call("open", {"x": "</tool_call>"}, "1"),)


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


def test_a_server_without_tools_is_told_of_them_also_where_there_is_no_system_message() -> None:
    sent = write_chat(Request([Message("user", "a")], [OPEN]), native=False)["messages"]
    assert [message["role"] for message in sent] == ["system", "user"]
    assert "Open a message." in sent[0]["content"]


def test_calls_of_a_program_are_written_out_for_a_server_without_tools() -> None:
    said = [
        Message("user", "a"),
        Message("assistant", "Well.", (Call("open", {"x": 1}, "1.0"),)),
        Message("tool", "done", answers="1.0"),
    ]
    sent = write_chat(Request(said, [OPEN]), native=False)["messages"]
    assert sent[2]["content"] == 'Well.\n<tool_call>{"name": "open", "arguments": {"x": 1}}</tool_call>'
    assert sent[3] == {"role": "user", "content": "<tool_response>\ndone\n</tool_response>"}


COUNTS = {"prompt_tokens": 120, "prompt_tokens_details": {"cached_tokens": 100}, "completion_tokens": 7}
NO_COUNT: tuple[object, ...] = (-1, "12", 3.5, True, None, [4], {})


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        (COUNTS, Usage(120, 100, 7)),
        *((bad, Usage(None, None, None)) for bad in (None, 3, "many", [1], {"prompt_tokens_details": 4})),
        *((dict.fromkeys(COUNTS, bad), Usage(None, None, None)) for bad in NO_COUNT),
    ],
)
def test_what_an_answer_cost_is_what_the_server_says_and_else_unknown(usage: object, known: Usage) -> None:
    answer = read_generation(reply("twelve chars", usage=usage), ())
    assert (answer.usage, answer.length) == (known, 7 if usage is COUNTS else 3)


def test_what_a_server_does_not_count_is_counted_where_it_gives_the_tokens() -> None:
    counted = reply("fine", token_ids=[3, 4]) | {"prompt_token_ids": [5, 6, 7]}
    assert read_generation(counted, ()).usage == Usage(3, None, 2)
