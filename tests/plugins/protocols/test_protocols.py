"""Each protocol reads what it writes, so that a program of any of them can be answered by a server of any other."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentfw_plugins.protocols import About, Body, Malformed, Protocol, protocols
from agentfw_plugins.protocols.answers import StreamedReply, read_generation
from agentfw_plugins.protocols.chat import headed
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
REPLY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "created": 1,
    "model": "served",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
}
CONVERSING = [one for one in protocols().values() if one.converses and not one.plain]


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
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        {"response_format": FORM, "top_p": 0.9},
    ],
)
def test_a_request_is_read_as_it_was_written(protocol: Protocol, more: dict[str, Any]) -> None:
    chat = {**CHAT, **more}

    written = {**protocol.write_request(Body(chat)), "model": "served"}

    unnamed = {"response_format": FORM} if "response_format" in more else {}  # a format has no name in some protocols
    assert within(chat, {**protocol.read_request(Body(written)).values, **unnamed})


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_an_answer_is_read_as_it_was_written(protocol: Protocol) -> None:
    answer = protocol.write_answer(REPLY, Body({"model": "served"}))

    found = protocol.read_answer(answer)

    assert within(REPLY["choices"], found["choices"])
    assert within(REPLY["usage"], found["usage"])


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_a_stream_is_read_as_it_was_written(protocol: Protocol) -> None:
    writer = protocol.writer(Body({"model": "served"}))
    lines = b"".join([*writer.take(as_chunk(REPLY)), *writer.end()]).splitlines()
    told: list[Any] = []

    reply = StreamedReply(protocol.reader, lambda choice: told.append(choice["delta"].get("content")))
    for line in lines:
        reply.take(line)

    assert within(REPLY["choices"], reply.whole()["choices"])
    assert within(REPLY["usage"], reply.whole()["usage"])
    assert "".join(filter(None, told)) == "Sunny."


@pytest.mark.parametrize("name", ["chat", "completions", "responses", "messages", "google"])
def test_a_chunk_that_says_nothing_is_told_as_one(name: str) -> None:
    writer = protocols()[name].writer(Body({"model": "served"}))
    ends: list[dict[str, Any]] = [{"finish_reason": "stop"}, {"delta": None, "finish_reason": "stop"}]
    said = {"index": 0, "delta": {"content": "Sunny."}}

    chunks = [{"id": "1", "choices": [{"index": 0, **one}]} for one in (said, *ends)]
    told = b"".join([*(event for chunk in chunks for event in writer.take(chunk)), *writer.end()])

    reply = StreamedReply(protocols()[name].reader)
    for line in told.splitlines():
        reply.take(line)
    assert reply.whole()["choices"][0]["message"]["content"] == "Sunny."


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
    told = b"".join([*writer.take({"id": "1", "choices": [{"index": 0, "delta": chunk}]}), *writer.end()]).splitlines()

    reply = StreamedReply(protocols()[name].reader)
    for line in told:
        reply.take(line)

    (call,) = reply.whole()["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Köln"}


@pytest.mark.parametrize("protocol", [one for one in CONVERSING if one.name != "chat"], ids=lambda one: one.name)
def test_a_content_in_parts_and_calls_of_one_index_are_told_in_another_protocol(protocol: Protocol) -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Sunny."}]
    message = {**MESSAGE, "content": parts, "tool_calls": [{**CALL, "index": 0}] * 2}

    answer = protocol.write_answer({"choices": [{"message": message}]}, Body({"model": "served"}))

    assert within({**MESSAGE, "tool_calls": [CALL] * 2}, protocol.read_answer(answer)["choices"][0]["message"])


@pytest.mark.parametrize("protocol", CONVERSING, ids=lambda protocol: protocol.name)
def test_what_was_recalled_changes_nothing_else(protocol: Protocol) -> None:
    body = protocol.write_request(Body(CHAT))

    told = protocol.with_recalled(body, "You live in Berlin.")

    changed = [name for name in told if told[name] != body.get(name)]
    assert len(changed) == 1
    messages = protocol.read_request(Body({**told, "model": "served"})).values["messages"]
    assert messages[0]["role"] == "system"
    assert messages[0]["content"].endswith("You live in Berlin.")
    assert messages[0]["content"].startswith("Be brief.")
    assert messages[1:] == CHAT["messages"][1:]


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
