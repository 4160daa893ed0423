"""What a client sees of the gateway: the right session, the right status, and a record of what was."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Agentfw
from serving_gateways import TOKENS, killed_now
from waiting import until

from agentfw.runs import read_sessions
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.view.index_rows import PART_OF

from .conftest import CLIENT, Serve, Served, served
from .mutations import mutated

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
    answer = CLIENT.post(f"{url}/chat/completions", json=given, headers=headers)
    assert answer.status_code == 200, answer.text
    return {**answer.json(), "session": answer.headers["x-agentfw-session"]}


def said(answer: Body) -> Body:
    message: Body = answer["choices"][0]["message"]
    return message


WRONG: list[tuple[str, str, Any, int]] = [
    ("a model that isn't there", "/s/x/v1/chat/completions", body("hi", model="gpt-99"), 404),
    ("two tools with one name", "/s/x/v1/chat/completions", body("hi", tools=[WEATHER, WEATHER]), 400),
    ("no messages", "/s/x/v1/chat/completions", {"model": "scripted"}, 400),
    ("an empty conversation", "/s/x/v1/chat/completions", body(), 409),
    ("a picture", "/s/x/v1/chat/completions", body({"role": "user", "content": [{"type": "image_url"}]}), 400),
    ("a temperature of NaN", "/s/x/v1/chat/completions", b'{"model": "scripted", "temperature": NaN}', 400),
    ("no JSON", "/s/x/v1/chat/completions", b"{", 400),
    ("a body that is too large", "/s/x/v1/chat/completions", b" " * 65_000_000, 413),
    ("a name with a path in it", "/s/..%2f..%2fetc/v1/chat/completions", body("hi"), 404),
    ("feedback without a session", "/s/nobody/feedback", {"value": "good"}, 404),
    ("feedback that says nothing", "/s/known/feedback", {}, 400),
    ("feedback with a number that is too large", "/s/known/feedback", {"value": 10**400, "metric": "m"}, 400),
    ("feedback on a turn that isn't there", "/s/known/feedback", {"value": 1, "turn": 7}, 409),
    ("a session that ended", "/s/ended/v1/chat/completions", body("hi"), 410),
    ("feedback after the end", "/s/ended/feedback", {"value": 1}, 410),
    ("another user's session", "/s/adas/v1/chat/completions", body("hi", user="eve"), 403),
    ("another user's feedback", "/s/adas/feedback", {"value": -1, "user": "eve"}, 403),
    ("two users", "/s/x/v1/chat/completions?user=eve", body("hi", user="ada"), 400),
    ("a user that can't be read", "/s/x/v1/chat/completions", body("hi", user="a\ufffd"), 400),
]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Any:
    options = {"policy": "scripted", "assignments": [f"policy.rule={served.__module__}:rule"]}
    limits = Limits(models=("scripted",))
    with served(tmp_path_factory.mktemp("runs"), limits, **options) as running:
        for name, user in (("known", ""), ("ended", ""), ("adas", "ada")):
            ask(running.session(name), body("hello", user=user))
        CLIENT.post(f"{running.url}/s/ended/end")
        yield running


@pytest.mark.parametrize(("what", "path", "given", "status"), WRONG, ids=[row[0] for row in WRONG])
def test_what_is_wrong_has_its_status_and_a_message(
    limited: Served, what: str, path: str, given: Any, status: int
) -> None:
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()

    answer = CLIENT.post(f"{limited.url}{path}", content=raw)

    assert answer.status_code == status, answer.text
    if "%2f" not in path:
        assert answer.json()["error"]["message"]


def test_without_a_key_no_web_page_gets_in(gateway: Served) -> None:
    url = f"{gateway.session('page')}/chat/completions"
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        assert CLIENT.post(url, json=body("hi"), headers=headers).status_code == 403
    assert "page" not in gateway.live.sessions


def test_only_so_many_sessions_are_in_progress(serve: Serve) -> None:
    gateway = serve(Limits(sessions=1))

    assert [gateway.ask(name, "hi").status_code for name in ("one", "more")] == [200, 429]


def test_a_session_that_ended_because_nobody_used_it_begins_again_under_its_name(serve: Serve, tmp_path: Path) -> None:
    gateway = serve(Limits(idle=8))
    ask(gateway.session("tea"), body("the first time", user="ada"))
    left_alone(gateway, "tea")
    other = CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("hi", user="bob"))
    again = ask(gateway.session("tea"), body("once more", user="ada"))
    rated = CLIENT.post(f"{gateway.url}/s/tea/feedback", json={"value": 1, "user": "ada"})
    left_alone(gateway, "tea~2")

    def listed() -> list[Body]:
        rows: list[Body] = CLIENT.get(f"{gateway.url}/sessions").json()["sessions"]
        return rows

    until(lambda: listed()[0]["reward"] is not None)
    with served(tmp_path, resume=str(killed_now(gateway, tmp_path / "copied"))) as resumed:
        later = ask(resumed.session("tea"), body("and later", user="ada"))
        ask(resumed.session("tea~2"), body("under the name that was told before", user="ada"))
        rated_before = resumed.post("/s/tea~2/feedback", {"value": 1, "user": "ada"})
        newest = resumed.episode("tea~3")

    assert (other.status_code, again["session"], rated.status_code) == (403, "tea~2", 200)
    assert [(one["session"], one["finish"], one["reward"]) for one in listed()] == [
        ("tea~2", "idle", 1.0),
        ("tea", "idle", 0.0),
    ]
    assert (later["session"], len(newest.turns)) == ("tea~3", 2)
    assert rated_before.status_code == 410


def test_a_conversation_without_a_name_goes_on_where_its_last_answer_was_given_also_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    gateway, asked, names = serve(), list[Any](), list[str]()
    for number in range(4):
        if number == 2:
            alike = ask(f"{gateway.url}/v1", body("0"))["session"]
        if number == 3:
            gateway = serve(resume=str(killed_now(gateway, tmp_path / "runs" / "copied")))
        answer = ask(f"{gateway.url}/v1", body(*asked, str(number)))
        asked += [{"role": "user", "content": str(number)}, said(answer)]
        names.append(answer["session"])

    assert len({*names}) == 1
    assert alike not in names


BROKEN = {
    "judge": """
from agentfw import RewardModel

class Judge(RewardModel):
    async def score(self, episodes):
        if episodes[0].task.query == "tea":
            raise ValueError("nobody can judge this")
        return []
""",
    "pupil": """
from pathlib import Path
from agentfw import Memory
from agentfw.errors import StorageError

class Pupil(Memory):
    async def recall(self, query):
        return []

    async def learn(self, episode, reward):
        if episode.task.query == "cake":
            raise ValueError("nobody can learn this")
        if not (room := Path("ROOM")).exists():
            room.touch()
            raise StorageError("there is no room", fix="make some")
""",
}


def test_a_reward_model_or_a_memory_that_fails_at_the_end_of_a_session_stops_no_gateway(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentfw.runs.live._AGAIN", 0.01)
    for name, code in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(code.replace("ROOM", str(tmp_path / "room")), encoding="utf-8")
    judge, pupil = (str(tmp_path / f"{name}.py") for name in BROKEN)
    gateway = serve(policy=str(TOKENS), rewards=[judge], memories=[pupil])
    ended = dict[str, int]()
    for name in ("tea", "cake", "milk"):
        ask(gateway.session(name), body("hello", model="agentfw", user="ada"))
        gateway.post(f"/s/{name}/feedback", {"value": 1, "user": "ada"}).raise_for_status()
        ended[name] = gateway.post(f"/s/{name}/end", {"user": "ada"}).status_code
    until(lambda: gateway.request("GET", "/readyz").status_code == 200)
    again = serve(resume=str(killed_now(gateway, tmp_path / "copied")))

    assert ended == {"tea": 200, "cake": 200, "milk": 503}
    kept = [episode.task.query for episode in again.live.folder.episodes()]
    assert kept == ["tea", "cake", "milk"], "each once, also what a memory learned at the second attempt"
    assert [one.ask("after", "hello").status_code for one in (gateway, again)] == [200, 200]
    assert "the session tea was not scored: " in caplog.text
    assert "nobody can judge this" in caplog.text
    assert caplog.text.count("the session cake was not learned: ") == 2, "it is tried again at the next start"


def left_alone(gateway: Served, name: str) -> None:
    """Let a session end as if nobody had used it for a while."""
    gateway.live.sessions[name].used -= 1000
    until(lambda: name in gateway.live.ended)


def test_a_port_in_use_is_an_error_that_says_so(agentfw: Agentfw) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        replies = ("--set", 'policy.replies=["yes"]')
        answer = agentfw("serve", "--policy", "scripted", *replies, "--memory", "none", "--port", port)

    assert answer.code == 2
    assert "can't listen on" in answer.err


def test_a_locked_store_keeps_nobody_waiting_who_does_not_use_it(serve: Serve) -> None:
    gateway = serve(memories=["strategyhub"])
    ask(gateway.session("tea"), body("Which tea?", user="ada"))
    store = gateway.live.folder.path / "strategies.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        waiting = pool.submit(lambda: ask(gateway.session("later"), body("Which tea?", user="ada")))
        until(lambda: "later" in gateway.live.sessions)

        # Beginning a session empties its hub, which waits for the lock.
        models = [CLIENT.get(f"{gateway.url}/v1/models").status_code for _ in range(3)]
        waited = not waiting.done()
        other.execute("ROLLBACK")

        assert models == [200] * 3
        assert waited
        assert waiting.result()["session"] == "later"


def test_a_sub_agent_has_a_session_of_its_own_below_that_of_its_agent(serve: Serve) -> None:
    gateway = serve()
    address = f"{gateway.url}/v1"
    asked = body("Look into it")

    main = ask(address, body("Fix the test"), {"x-agentfw-session": "work"})
    claude = ask(address, asked, {"x-agentfw-session": "work", "x-claude-code-agent-id": "a1b2"})
    again = ask(address, body("And now?"), {"x-agentfw-session": "work", "x-claude-code-agent-id": "a1b2"})
    opencode = ask(address, asked, {"x-agentfw-session": "ses_2", "x-parent-session-id": "work"})
    strange = ask(address, asked, {"x-agentfw-session": "odd", "x-claude-code-agent-id": "a b/../c"})

    names = [one["session"] for one in (main, claude, again, opencode, strange)]
    assert names == ["work", "work.a1b2", "work.a1b2", "ses_2", "odd"]
    assert sum(one.name == PART_OF for one in gateway.episode("work.a1b2").events) == 1
    rows = CLIENT.get(f"{gateway.url}/sessions").json()["sessions"]
    assert {row["session"]: row["part_of"] for row in rows} == {
        "work": "",
        "work.a1b2": "work",
        "ses_2": "work",
        "odd": "",
    }


def sent(url: str, first: int, count: int) -> Counter[int]:
    """Send mutated requests. Returns how often each status came."""
    found: Counter[int] = Counter()
    with httpx.Client(timeout=20) as client:
        for number in range(first, first + count):
            path, raw, headers = mutated(number)
            try:
                answer = client.post(f"{url}{path}", content=raw, headers=headers)
            except (httpx.InvalidURL, httpx.LocalProtocolError):
                found[0] += 1  # the client itself won't send it
                continue
            found[answer.status_code] += 1
            assert answer.status_code < 500, f"request {number}: {answer.status_code} {answer.text[:300]}"
            assert "x-evil" not in answer.headers
            assert "Traceback" not in answer.text
    return found


def test_mutated_requests_are_answered(gateway: Served) -> None:
    found = sent(gateway.url, 0, 300)

    assert found[200] > 10
    assert found[400] > 50
    assert CLIENT.get(f"{gateway.url}/v1/models").status_code == 200
    assert read_sessions(gateway.live.folder.path)
