"""Secrets are struck out of what a gateway sends, records and shows, in whatever form and pieces they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import Reply, chunks, completion, serving, tool_call
from serving_gateways import CLIENT, EARS, Gateway, gateway_of, said, shared_session
from waiting import until

from agentfw.boundary.secrets import MASK

from .conftest import Start

SECRET = "Swordfish-Hunter2.example"
"""All of its letters are the same in a URL, in JSON and in HTML."""
PAY = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", SECRET)


def leaks(text: str | bytes) -> bool:
    """Whether a text has the secret, in capital letters or not. JSON's quotation marks don't hide it."""
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    return SECRET.lower() in text.lower()


def leaking_files(folder: Path) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.is_file() and leaks(file.read_bytes())]


def streamed(answer: httpx.Response) -> str:
    """The text of a stream, with the arguments of its calls."""
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in answer.text.splitlines() if "{" in line]
    calls = [call["function"].get("arguments", "") for delta in deltas for call in delta.get("tool_calls") or ()]
    return "".join([*(delta.get("content") or "" for delta in deltas), *calls])


@pytest.mark.parametrize(("tools", "stream"), [([], True), ([PAY], False), ([PAY], True)])
def test_policies_say_no_secrets_in_texts_streams_or_calls(gateway: Start, tools: list[Any], stream: bool) -> None:
    running = gateway()
    answer = running.ask("tea", "leak=SHOP_API_KEY", stream=stream, tools=tools)
    text = streamed(answer) if stream else json.dumps(answer.json()["choices"][0]["message"])

    assert MASK in text
    assert not leaks(text)
    assert ("the key" in text) == bool(tools), "the call is there"
    [turn] = running.kept("tea").turns
    assert MASK in turn.text
    assert leaking_files(running.folder) == []
    assert not leaks(running.request("GET", "/s/tea").text)


def test_what_a_program_sends_is_without_secrets_for_the_model_the_memory_and_the_record(gateway: Start) -> None:
    running = gateway(memories=[str(EARS)])
    answer = running.ask("tea", f"My key is {SECRET.lower()}, remember.", user="ada")
    until(lambda: running.remembered("ada"))
    running.post("/s/tea/feedback", {"value": "bad", "words": f"Not {SECRET}!", "user": "ada"})

    assert MASK in said(answer)["content"], "the policy repeats what it was shown"
    assert running.remembered("ada") == [f"My key is {MASK}, remember."]
    assert leaking_files(running.folder) == []


def test_the_database_of_shared_sessions_has_no_secret_and_nothing_that_is_to_be_masked(
    gateway: Start, tmp_path: Path
) -> None:
    where = str(tmp_path / "sessions.db")
    running = gateway(limits={"shared": where}, hooks=["redact"])
    said(running.ask("tea", f"Pay {SECRET} with 4111 1111 1111 1111."))

    episode = shared_session(where, "tea")
    assert episode.messages[0].content == f"Pay {MASK} with [masked: card]."
    assert [turn.token_ids for turn in episode.turns] == [()], "they spell the same text"
    assert leaking_files(tmp_path) == []


@pytest.fixture
def passing() -> Iterator[Any]:
    """A gateway in front of a server with this answer, and the server."""
    with ExitStack() as stack:

        def start(runs: Path, reply: Reply) -> tuple[Gateway, Any]:
            address, server = stack.enter_context(serving(reply))
            settings = [f"policy.base_url={address}", "policy.model=served"]
            return stack.enter_context(gateway_of(runs, policy="openai", assignments=settings)), server

        yield start


def test_what_passes_to_a_server_and_back_is_without_secrets(passing: Any, tmp_path: Path) -> None:
    reply = completion(f"It is {SECRET}.", message={"tool_calls": [tool_call("pay", key=SECRET)]})
    running, server = passing(tmp_path, reply)
    call = {"role": "assistant", "content": None, "tool_calls": [tool_call("pay", key=SECRET)]}
    result = {"role": "tool", "tool_call_id": "call-pay", "content": f"paid with {SECRET.lower()}"}
    answer = running.ask("tea", f"Use {SECRET}.", call, result, tools=[PAY])

    assert answer.status_code == 200, answer.text
    assert MASK in answer.text
    assert not leaks(answer.text)
    assert not leaks(server.raw[-1])
    assert leaking_files(running.folder) == []
    [turn] = running.kept("tea").turns
    assert dict(turn.calls[0].arguments) == {"key": MASK}


def test_a_stream_that_passes_is_recorded_without_a_secret_that_came_in_pieces(passing: Any, tmp_path: Path) -> None:
    def told(*pieces: str) -> str:
        events = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        running, _ = passing(tmp_path / f"runs-{len(pieces)}", chunks(*events))
        answer = running.ask("tea", "Which key?", stream=True)
        assert (answer.status_code, answer.text.endswith("data: [DONE]\n\n")) == (200, True)
        assert [MASK in turn.text for turn in running.kept("tea").turns] == [True]
        return streamed(answer)

    assert told(SECRET[:5], SECRET[5:9], SECRET[9:]) == "", "it is left out of what the program gets"
    assert told("It is ", SECRET[:5], SECRET[5:], " and so on") == "It is  and so on"
    assert told(f"It is {SECRET}", " and Swor", "d play", "", "!") == f"It is {MASK} and Sword play!"
    assert leaking_files(tmp_path) == []


def test_what_is_being_streamed_is_on_disk_without_a_secret_that_came_in_pieces(passing: Any, tmp_path: Path) -> None:
    pieces = ["The key is ", SECRET[:5], SECRET[5:9], SECRET[9:], " and", *(" so on" for _ in range(20))]
    events = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    running, _ = passing(tmp_path, chunks(*events, pause=0.1, done=False))

    def written() -> str:
        return "".join(file.read_text("utf-8") for file in running.folder.glob("streams/*"))

    body = {"model": "agentfw", "stream": True, "messages": [{"role": "user", "content": "Which key?"}]}
    with CLIENT.stream("POST", f"{running.url}/s/tea/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        text = until(lambda: next(lines) and " so on" in written() and written())

    assert f"The key is {MASK} and so on" in text
