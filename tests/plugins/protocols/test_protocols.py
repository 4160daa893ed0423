"""Each protocol reads what it writes, so that a program of any of them can be answered by a server of any other."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentfw_plugins.protocols import About, BadRequest, Body, Malformed, Protocol, protocols
from agentfw_plugins.protocols.answers import StreamedReply, read_generation
from agentfw_plugins.protocols.chat import headed, read_chat
from agentfw_plugins.protocols.completion import as_chunk

from ..gateway.mutations import mutate

CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
CHAT: dict[str, Any] = {
    "model": "served",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rome?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "22 degrees"},
    ],
    "tools": [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}],
    "temperature": 0.5,
}
MESSAGE = {"role": "assistant", "content": "Sunny.", "reasoning_content": "Hm.", "tool_calls": [CALL]}
COUNTED = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
REPLY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "created": 1,
    "model": "served",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
    "usage": {**COUNTED, "completion_tokens_details": {"reasoning_tokens": 2}},
}
ENDS = [
    {"message": {"role": "assistant", "content": "Sunny."}, "finish_reason": end}
    for end in ("length", "content_filter")
]
CONVERSING = [one for one in protocols().values() if one.converses and not one.plain]


def heard(name: str, told: bytes) -> dict[str, Any]:
    """The choice of an answer that was streamed."""
    reply = StreamedReply(protocols()[name].reader)
    for line in told.splitlines():
        reply.take(line)
    found: dict[str, Any] = reply.whole()["choices"][0]
    return found


def within(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(within, wanted, found))
    return bool(wanted == found)


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": "required", "response_format": {"type": "text"}},
        {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        {"response_format": FORM, "top_p": 0.9},
    ],
)
def test_a_request_is_read_as_it_was_written(protocol: Protocol, more: dict[str, Any]) -> None:
    chat = {**CHAT, **more}

    written = {**protocol.write_request(Body(chat)), "model": "served"}

    unnamed = {"response_format": more.get("response_format")}  # a format has no name in some, and text is the usual
    assert within(chat, {**protocol.read_request(Body(written)).values, **unnamed})


@pytest.mark.parametrize("name", ["responses", "messages"])
def test_fields_that_have_a_counterpart_are_written_as_it(name: str) -> None:
    more = {"parallel_tool_calls": False, "reasoning_effort": "low", "tool_choice": "required"}
    alike = {"service_tier": "flex", "prompt_cache_key": "k", "verbosity": "low", "response_format": FORM}
    more |= alike if name == "responses" else {}
    told = [{"type": "text", "text": "22"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    talk = [*CHAT["messages"][:-1], {**CHAT["messages"][-1], "content": told}]

    written = protocols()[name].write_request(Body({**CHAT, "messages": talk, **more}))
    none = protocols()[name].write_request(Body({**CHAT, **more, "tool_choice": "none"}))

    read = protocols()[name].read_request(Body(written)).values
    assert within(more, read)
    assert [part["type"] for part in read["messages"][-1]["content"]] == ["text", "image_url"]
    assert none["tool_choice"] == ("none" if name == "responses" else {"type": "none"})


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_limits_and_turns_are_kept_and_no_tool_is_called_where_none_may_be(protocol: Protocol) -> None:
    talk = [
        {"role": "developer", "content": "Be brief."},
        *CHAT["messages"][1:],
        {"role": "user", "content": "And now?"},
    ]
    more = {"max_completion_tokens": 7, "user": "ada", "stop": [] if protocol.name == "responses" else "."}

    written = protocol.write_request(Body({**CHAT, "messages": talk, "tool_choice": "none", **more}))
    read = protocol.read_request(Body({**written, "model": "served"})).values

    assert (read.get("max_completion_tokens") or read["max_tokens"], read["tool_choice"]) == (7, "none")
    assert read.get("user", "") == ("" if protocol.name == "google" else "ada")
    assert read.get("stop", []) == {"responses": [], "chat": "."}.get(protocol.name, ["."])
    first, *_, result, last = read["messages"]
    assert (first["content"], result["content"], last["content"]) == ("Be brief.", "22 degrees", "And now?")
    if protocol.name in ("messages", "google"):
        roles = [turn["role"] for turn in written[protocol.conversation]]
        assert all(one != other for one, other in pairwise(roles)), "servers want turns"


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("choice", [REPLY["choices"][0], *ENDS], ids=lambda choice: str(choice["finish_reason"]))
def test_an_answer_is_read_as_it_was_written(protocol: Protocol, choice: dict[str, Any]) -> None:
    answer = protocol.write_answer({**REPLY, "choices": [choice]}, Body({"model": "served"}))

    found = protocol.read_answer(answer)

    assert within([choice], found["choices"])
    assert within(COUNTED, found["usage"])
    assert found["usage"].get("total_tokens", 14) == 14


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_a_refusal_is_said_and_an_end_at_a_text_is_told_where_the_protocol_can(protocol: Protocol) -> None:
    body = Body({"model": "served", "stop_sequences": ["END"]})
    refused = {"message": {"role": "assistant", "content": None, "refusal": "No."}, "finish_reason": "stop"}

    [found] = protocol.read_answer(protocol.write_answer({**REPLY, "choices": [refused]}, body))["choices"]
    stopped = protocol.write_answer(
        {**REPLY, "choices": [{**ENDS[0], "finish_reason": "stop", "stop_reason": "END"}]}, body
    )

    demanded = protocol.write_answer({**REPLY, "choices": [{"message": MESSAGE, "finish_reason": "stop"}]}, body)
    part = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    talk = [CHAT["messages"][1], part, CHAT["messages"][1], refused["message"], CHAT["messages"][1]]
    sent_back = protocol.write_request(Body({"model": "served", "messages": talk}))

    assert json.dumps(sent_back).count("No.") == 2, "in either form"
    assert (found["message"].get("refusal") or found["message"]["content"]) == "No."
    if protocol.name == "messages":
        assert demanded["stop_reason"] == "tool_use", "clients of messages carry calls out where it says so"
        assert found["finish_reason"] == "content_filter"
        assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "END")


def test_a_message_that_fills_the_context_is_cut_off_and_its_last_event_may_leave_counts_open() -> None:
    ended = {"stop_reason": "model_context_window_exceeded"}
    begun = {"usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}}
    counts = {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 5}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "message_delta", "delta": ended, "usage": counts},
        {"type": "message_stop"},
    ]

    whole = protocols()["messages"].read_answer({**ended, "content": []})
    reply = StreamedReply(protocols()["messages"].reader)
    for one in events:
        reply.take(b"data: " + json.dumps(one).encode())

    for found in (whole, reply.whole()):
        assert found["choices"][0]["finish_reason"] == "length"
    assert within({"prompt_tokens": 9, "completion_tokens": 5}, reply.whole()["usage"])


def test_a_response_that_failed_is_no_answer() -> None:
    failed = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "oh dear"}}
    event = json.dumps({"type": "response.failed", "response": failed}).encode()

    with pytest.raises(Malformed, match="oh dear"):
        protocols()["responses"].read_answer(failed)
    with pytest.raises(Malformed, match="oh dear"):
        StreamedReply(protocols()["responses"].reader).take(b"data: " + event)


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_a_stream_is_read_as_it_was_written(protocol: Protocol) -> None:
    writer = protocol.writer(Body({"model": "served"}))
    lines = b"".join([*writer.take(as_chunk(REPLY)), *writer.end()]).splitlines()
    told: list[Any] = []

    reply = StreamedReply(protocol.reader, lambda choice: told.append(choice["delta"].get("content")))
    for line in lines:
        reply.take(line)

    assert within(REPLY["choices"], reply.whole()["choices"])
    assert within(COUNTED, reply.whole()["usage"])
    assert "".join(filter(None, told)) == "Sunny."
    assert (b"data: [DONE]" in lines) == (protocol.name == "chat")


def test_pieces_of_a_stream_belong_to_their_choice_and_to_their_call() -> None:
    def call(words: str, **more: Any) -> dict[str, Any]:
        return {"delta": {"tool_calls": [{"function": {"name": None, "arguments": words}, **more}]}}

    whole, reply = {"content": "a"}, StreamedReply(protocols()["chat"].reader)
    pieces = [call('{"ci', index=0, id="c1"), call('ty": 1}', index=0), call("{}", id="c2"), call("{}", id="c3")]
    for choice in ({"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": whole}, *pieces):
        reply.take(b"data: " + json.dumps({"choices": [choice]}).encode())

    first, second = (choice["message"] for choice in reply.so_far()["choices"])
    assert (first["content"], second["content"]) == ("a", "b")
    calls = [(one["id"], one["function"]["arguments"]) for one in first["tool_calls"]]
    assert calls == [("c1", '{"city": 1}'), ("c2", "{}"), ("c3", "{}")]
    for index in (1, 0):
        assert not reply.ended, "another choice goes on"
        reply.take(b"data: " + json.dumps({"choices": [{"index": index, "finish_reason": "stop"}]}).encode())
    assert reply.ended


def test_calls_to_which_a_server_gives_one_index_stay_apart_and_a_call_with_several_ids_stays_one() -> None:
    def told(name: str | None, words: str, identity: str) -> bytes:
        call = {"index": 0, "id": identity, "function": {"name": name, "arguments": words}}
        return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode()

    reply = StreamedReply(protocols()["chat"].reader)
    for line in (told("weather", "{", "c"), told(None, "}", "x"), told("weather", "{}", "d"), told("", "", "d")):
        reply.take(line)

    [choice] = reply.so_far()["choices"]
    called = {"name": "weather", "arguments": "{}"}
    assert within([{"id": one, "function": called} for one in "cd"], choice["message"]["tool_calls"])


def test_thoughts_belong_to_one_answer_and_a_prompt_that_is_blocked_has_one_that_was_filtered() -> None:
    responses, google = protocols()["responses"], protocols()["google"]
    call = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}
    thoughts = [{"type": "reasoning", "summary": [{"text": said}]} for said in ("Hm.", "Ah.")]
    says = [{"role": "assistant", "content": said} for said in ("Sunny.", "Warm.", "Dry.")]
    items = [thoughts[0], call, {"type": "function_call_output", "call_id": "c", "output": "22"}]

    read = responses.read_request(Body({"input": [*items, says[0], thoughts[1], *says[1:]]})).values["messages"]
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}

    answers = [one.get("reasoning_content") for one in read if one["role"] == "assistant"]
    assert answers == ["Hm.", None, "Ah.", None]
    streamed = heard("google", b"data: " + json.dumps(blocked).encode())
    for choice in (google.read_answer(blocked)["choices"][0], streamed):
        assert choice["finish_reason"] == "content_filter"


def test_a_request_to_a_policy_of_this_process_has_one_limit_one_user_and_the_tools_that_may_be_called() -> None:
    limits = {"max_tokens": 9, "max_completion_tokens": 7, "n": 3, "seed": 5}
    asked = read_chat(Body({**CHAT, **limits, "user": "ada", "safety_identifier": "x"}))

    assert [one.sampling.seed for one in asked.each()] == [5, 6, 7], "with one seed, all answers would be equal"
    assert (asked.sampling.max_tokens, asked.user) == (7, "ada")
    parts = [{"type": "text", "text": letter} for letter in "ab"]
    talk = [{"role": role, "content": parts} for role in ("user", "assistant")]
    assert [one.content for one in read_chat(Body({**CHAT, "messages": talk})).messages] == ["a\n\nb", "ab"]
    one = {"type": "function", "function": {"name": "grep"}}
    for choice, names in (("auto", "weather grep"), ("none", ""), ("required", "weather grep"), (one, "grep")):
        asked = read_chat(Body({**CHAT, "tools": [*CHAT["tools"], one], "tool_choice": choice}))
        assert [action.name for action in asked.actions] == names.split()
    for field, value in (("tools", CHAT["tools"] * 2), ("response_format", FORM), ("user", "x" * 201), ("n", 17)):
        with pytest.raises(BadRequest) as refused:
            read_chat(Body({**CHAT, field: value}), follows_schemas=True)
        assert refused.value.field == field


@pytest.mark.parametrize("name", ["chat", "completions", "responses", "messages", "google"])
def test_a_chunk_that_says_nothing_is_told_as_one(name: str) -> None:
    writer = protocols()[name].writer(Body({"model": "served"}))
    ends: list[dict[str, Any]] = [{"finish_reason": "stop"}, {"delta": None, "finish_reason": "stop"}]
    said = {"index": 0, "delta": {"content": "Sunny."}}

    chunks = [{"id": "1", "choices": [{"index": 0, **one}]} for one in (said, *ends)]
    told = b"".join([*(event for chunk in chunks for event in writer.take(chunk)), *writer.end()])

    assert heard(name, told)["message"]["content"] == "Sunny."


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("kind", ["content", "tool_calls"])
def test_a_stream_of_many_pieces_takes_time_by_its_length(protocol: Protocol, kind: str) -> None:
    writer, reply, piece = protocol.writer(Body({"model": "served"})), StreamedReply(protocol.reader), "word " * 2000
    calls = [{"index": 0, "id": "c", "function": {"name": "note", "arguments": piece}}]
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {kind: calls if kind == "tool_calls" else piece}}]}

    began = time.process_time()
    for _ in range(2000):
        for line in b"".join(writer.take(chunk)).splitlines():
            reply.take(line)

    assert time.process_time() - began < 8, "the square of the length takes 20 seconds"


@pytest.mark.parametrize("name", ["responses", "messages", "google"])
def test_arguments_that_a_server_sends_as_an_object_are_told_as_json(name: str) -> None:
    chunk = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "weather", "arguments": {"city": "Köln"}}}]}
    writer = protocols()[name].writer(Body({"model": "served"}))
    told = b"".join([*writer.take({"id": "1", "choices": [{"index": 0, "delta": chunk}]}), *writer.end()])

    (call,) = heard(name, told)["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Köln"}


@pytest.mark.parametrize("protocol", [one for one in CONVERSING if one.name != "chat"], ids=lambda one: one.name)
def test_a_content_in_parts_and_calls_of_one_index_are_told_in_another_protocol(protocol: Protocol) -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Sunny."}]
    message = {**MESSAGE, "content": parts, "tool_calls": [{**CALL, "index": 0}] * 2}

    answer = protocol.write_answer({"choices": [{"message": message}]}, Body({"model": "served"}))

    assert within({**MESSAGE, "tool_calls": [CALL] * 2}, protocol.read_answer(answer)["choices"][0]["message"])


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_what_was_recalled_changes_nothing_else(protocol: Protocol) -> None:
    said = [*CHAT["messages"], {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And now?"}]
    for first in (0, 1):  # with a system message, and without
        body = protocol.write_request(Body({**CHAT, "messages": said[first:]}))

        told = protocol.with_recalled(body, "You live in Berlin.")

        changed = [name for name in told if told[name] != body.get(name)]
        assert len(changed) == 1
        messages = protocol.read_request(Body({**told, "model": "served"})).values["messages"]
        assert messages[0]["role"] == "system"
        assert messages[0]["content"].endswith("You live in Berlin.")
        assert messages[0]["content"].startswith("Be brief." if first == 0 else "You")
        assert messages[1:] == said[1:]
    again = protocol.with_recalled_again(body, 1, "It is 5 degrees there.")
    messages = protocol.read_request(Body({**again, "model": "served"})).values["messages"]
    assert messages[:-1] == said[1:-1], "results of tools are not said by anybody"
    assert "5 degrees" in json.dumps(messages[-1])


def test_whatever_a_server_answers_is_translated_or_malformed() -> None:
    about, names = About("1", 1, "m"), Body({"model": "m"})
    read = 0
    for number in range(150):
        draw = random.Random(number)
        for spoken in CONVERSING:
            whole = spoken.write_answer(copy.deepcopy(REPLY), names)
            for _ in range(draw.choice([1, 1, 2, 4])):
                mutate(whole, draw)
            try:
                reply = spoken.read_answer(whole)
                read_generation(reply, {"weather"})
            except Malformed:
                continue
            read += 1
            for other in CONVERSING:
                writer = other.writer(names)
                assert other.write_answer(headed(reply, "chat.completion", about), names)
                assert b"".join([*writer.take(as_chunk(reply)), *writer.end()])

    assert read > 150


def test_a_distribution_brings_a_protocol_and_a_broken_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "gossip.py").write_text(
        "from agentfw_plugins.protocols import Protocol\n"
        "class Gossip(Protocol):\n"
        "    path, versions = 'gossip', ('v7',)\n"
    )
    (tmp_path / "silence.py").write_text("raise RuntimeError('hush')\n")
    info = tmp_path / "gossip-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gossip\nVersion: 1.0\n")
    entries = "gossip = gossip:Gossip\nsilence = silence:Silence\nchat = gossip:Gossip\n"
    (info / "entry_points.txt").write_text(f"[agentfw.protocols]\n{entries}")
    code = (
        "from agentfw_plugins.protocols import protocols as p; print(p()['gossip'].routes('gossip'), 'silence' in p())"
    )

    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.split("\n")[0] == "['/v7/gossip'] False"
    assert 'protocol "silence" of gossip 1.0 can\'t be imported: RuntimeError: hush' in ended.stderr
    assert 'protocol "chat" of gossip 1.0 has a name that is taken' in ended.stderr
