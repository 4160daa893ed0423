"""What a client sees of the gateway: the right session, the right status, and a record of what was."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw.runs import RunFolder, read_sessions
from agentfw_plugins.gateway.live import Limits

from .conftest import Served

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
Body = dict[str, Any]


def body(*said: str | Body, **more: Any) -> Body:
    messages = [{"role": "user", "content": one} if isinstance(one, str) else one for one in said]
    return {"model": "scripted", "messages": messages, **more}


def ask(url: str, given: Body, headers: dict[str, str] | None = None) -> Body:
    answer = httpx.post(f"{url}/chat/completions", json=given, headers=headers)
    assert answer.status_code == 200, answer.text
    return {**answer.json(), "session": answer.headers["x-agentfw-session"]}


def said(answer: Body) -> Body:
    message: Body = answer["choices"][0]["message"]
    return message


@pytest.mark.slow
def test_a_conversation_with_a_tool_becomes_one_episode(serve: Callable[..., Served]) -> None:
    gateway = serve()
    question = "What is the weather in Rome?"

    first = said(ask(gateway.session("tea"), body(question, tools=[WEATHER])))
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "sunny"}
    second = said(ask(gateway.session("tea"), body(question, first, result, tools=[WEATHER])))
    ended = httpx.post(f"{gateway.url}/s/tea/end").json()

    assert json.loads(first["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
    assert second["content"] == "The weather is sunny."
    [episode] = RunFolder.open(gateway.live.folder.path).episodes()
    assert ended["episode"] == episode.id
    assert [message.role for message in episode.messages] == ["user", "assistant", "tool"]
    assert [turn.shown for turn in episode.turns] == [(0,), (0, 1, 2)]
    assert episode.turns[0].calls[0].id == first["tool_calls"][0]["id"]


@pytest.mark.slow
def test_retries_branches_and_parallel_requests_are_a_tree(gateway: Served) -> None:
    url = gateway.session("tree")
    first = said(ask(url, body("one")))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda word: said(ask(url, body("one", first, word))), ["two", "three", "two"]))
    edited = {"role": "assistant", "content": "Something that was never said."}
    ask(url, body("one", edited, "four"))

    episode = gateway.live.sessions["tree"].episode

    assert [answer["content"] for answer in answers] == ["You said: two", "You said: three", "You said: two"]
    assert len(episode.turns) == 5
    assert len({turn.shown for turn in episode.turns}) == 4, "the retry was shown what the first try was"
    assert len({(message.role, message.content) for message in episode.messages}) == len(episode.messages)


@pytest.mark.slow
def test_without_a_name_a_conversation_is_found_by_what_was_answered_in_it(gateway: Served) -> None:
    url = f"{gateway.url}/v1"
    one, other = ask(url, body("hello", user="ada")), ask(url, body("hello", user="ada"))

    goes_on = ask(url, body("hello", said(one), "and now?", user="ada"))
    of_another_user = ask(url, body("hello", said(one), "and now?", user="bob"))
    named = ask(url, body("hello"), {"x-agentfw-session": "by-header"})

    assert one["session"] != other["session"]
    assert goes_on["session"] in (one["session"], other["session"])
    assert of_another_user["session"] not in (one["session"], other["session"])
    assert named["session"] == "by-header"


WRONG: list[tuple[str, str, Any, int]] = [
    ("a model that isn't there", "/s/x/v1/chat/completions", body("hi", model="gpt-99"), 404),
    ("two tools with one name", "/s/x/v1/chat/completions", body("hi", tools=[WEATHER, WEATHER]), 400),
    ("no messages", "/s/x/v1/chat/completions", {"model": "scripted"}, 400),
    ("an empty conversation", "/s/x/v1/chat/completions", body(), 409),
    ("several answers at once", "/s/x/v1/chat/completions", body("hi", n=3), 400),
    ("a picture", "/s/x/v1/chat/completions", body({"role": "user", "content": [{"type": "image_url"}]}), 400),
    ("a schema for the answer", "/s/x/v1/chat/completions", body("hi", response_format={"type": "json_object"}), 400),
    ("a temperature of NaN", "/s/x/v1/chat/completions", b'{"model": "scripted", "temperature": NaN}', 400),
    ("no JSON", "/s/x/v1/chat/completions", b"{", 400),
    ("a body that is too large", "/s/x/v1/chat/completions", b" " * 200_000, 413),
    ("a name with a path in it", "/s/..%2f..%2fetc/v1/chat/completions", body("hi"), 404),
    ("a name with odd letters", "/s/a%20b/v1/chat/completions", body("hi"), 400),
    ("feedback without a session", "/s/nobody/feedback", {"value": "good"}, 404),
    ("feedback that says nothing", "/s/known/feedback", {}, 400),
    ("feedback in a strange word", "/s/known/feedback", {"value": "meh"}, 400),
    ("feedback on a turn that isn't there", "/s/known/feedback", {"value": 1, "turn": 7}, 409),
    ("a session that ended", "/s/ended/v1/chat/completions", body("hi"), 410),
    ("feedback after the end", "/s/ended/feedback", {"value": 1}, 410),
    ("another user's session", "/s/adas/v1/chat/completions", body("hi", user="eve"), 403),
    ("another user's feedback", "/s/adas/feedback", {"value": -1, "user": "eve"}, 403),
]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from .conftest import rule, served

    options = {"policy": "scripted", "assignments": [f"policy.rule={rule.__module__}:rule"]}
    limits = Limits(models=("scripted",), body=100_000)
    with served(tmp_path_factory.mktemp("runs"), limits, **options) as running:
        for name, user in (("known", ""), ("ended", ""), ("adas", "ada")):
            ask(running.session(name), body("hello", user=user))
        httpx.post(f"{running.url}/s/ended/end")
        yield running


@pytest.mark.parametrize(("what", "path", "given", "status"), WRONG, ids=[row[0] for row in WRONG])
def test_what_is_wrong_has_its_status_and_a_message(
    limited: Served, what: str, path: str, given: Any, status: int
) -> None:
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()

    answer = httpx.post(f"{limited.url}{path}", content=raw)

    assert answer.status_code == status, answer.text
    if "%2f" not in path:
        assert answer.json()["error"]["message"]


@pytest.mark.slow
def test_only_who_has_the_key_is_served_and_it_is_written_nowhere(serve: Callable[..., Served]) -> None:
    key = "sk-the-only-key"
    gateway = serve(Limits(keys=(key,)))
    url = f"{gateway.session('tea')}/chat/completions"

    answers = [
        httpx.post(url, json=body("hi"), headers=headers).status_code
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {key}"}, {"x-api-key": key})
    ]
    httpx.post(f"{gateway.url}/s/tea/end", headers={"authorization": f"Bearer {key}"})

    assert answers == [401, 401, 200, 200]
    written = [path for path in gateway.live.folder.path.rglob("*") if path.is_file()]
    assert any(b"You said" in path.read_bytes() for path in written)
    assert not any(key.encode() in path.read_bytes() for path in written)


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_without_a_key_no_web_page_gets_in(gateway: Served, headers: dict[str, str]) -> None:
    answer = httpx.post(f"{gateway.session('page')}/chat/completions", json=body("hi"), headers=headers)

    assert answer.status_code == 403
    assert "page" not in gateway.live.sessions


def test_a_client_that_hangs_up_leaves_its_whole_answer_in_the_record(serve: Callable[..., Served]) -> None:
    gateway = serve()
    given = json.dumps(body("hello", stream=True)).encode()
    host, port = gateway.url.removeprefix("http://").split(":")
    head = f"POST /s/gone/v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(given)}\r\n\r\n"

    with socket.create_connection((host, int(port))) as line:
        line.sendall(head.encode() + given)
        line.recv(20)
    ask(gateway.session("gone"), body("still there?"))

    episode = gateway.live.sessions["gone"].episode
    assert sorted(turn.text for turn in episode.turns) == ["You said: hello", "You said: still there?"]
    assert {turn.text for one in read_sessions(gateway.live.folder.path) for turn in one.turns} == {
        turn.text for turn in episode.turns
    }


def test_only_so_many_sessions_are_in_progress(serve: Callable[..., Served]) -> None:
    gateway = serve(Limits(sessions=1))
    ask(gateway.session("one"), body("hi"))

    answer = httpx.post(f"{gateway.session('more')}/chat/completions", json=body("hi"))

    assert answer.status_code == 429


def test_sessions_end_when_nobody_uses_them(serve: Callable[..., Served]) -> None:
    gateway = serve(Limits(idle=0.2))
    ask(gateway.session("short"), body("hi"))

    for _ in range(600):
        if "short" in gateway.live.ended:
            break
        time.sleep(0.05)

    [episode] = RunFolder.open(gateway.live.folder.path).episodes()
    assert episode.finish == "idle"


def test_a_port_in_use_is_an_error_that_says_so(tmp_path: Path) -> None:
    import asyncio

    from agentfw.errors import UsageError
    from agentfw_plugins.gateway.server import serving

    async def start(port: int) -> None:
        async with serving(lambda *_: None, "127.0.0.1", port):  # type: ignore[arg-type, return-value]
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="can't listen on"):
        asyncio.run(start(taken.getsockname()[1]))


@pytest.mark.slow
def test_feedback_is_the_reward_and_the_memory_learns_from_it_for_that_user_only(serve: Callable[..., Served]) -> None:
    pytest.importorskip("igraph")
    gateway = serve(memories=["skillgraph"])
    wish = "a quiet table by the window"
    ask(gateway.session("first"), body("Book a table for dinner, please.", user="ada"))
    httpx.post(f"{gateway.url}/s/first/feedback", json={"value": -1, "words": f"I prefer {wish}.", "turn": 0})
    ended = httpx.post(f"{gateway.url}/s/first/end").json()

    for name, user in (("again", "ada"), ("other", "bob"), ("nobody", "")):
        ask(gateway.session(name), body("Book a table for dinner, please.", user=user))
    shown = {
        name: "\n".join(message.content for message in gateway.live.sessions[name].episode.messages)
        for name in ("again", "other", "nobody")
    }

    assert ended["reward"] == -1.0
    assert wish in shown["again"]
    assert wish not in shown["other"]
    assert wish not in shown["nobody"]
