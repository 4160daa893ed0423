"""Nobody sees, rates, ends, remembers or continues what is another user's; and who is forgotten is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serving_gateways import EARS, Gateway, gateway_of, killed_now, said
from waiting import until

from .conftest import Start

WORD = "marzipan"
"""Only Ada says this."""
Command = Callable[..., Any]
Keyed = tuple[Gateway, dict[str, str]]


@pytest.fixture
def keyed(gateway: Start, agentfw: Command, tmp_path: Path) -> Keyed:
    """A gateway with the keys of Ada and Eve, of a program and of the operator. Ada has a session, tea."""
    keys = {name: agentfw("serve", "keys", "add", name)["key"] for name in ("ada", "eve")}
    keys |= {"shop": agentfw("serve", "keys", "add", "shop", "--any-user")["key"], "operator": "operators-own"}
    limits = {"key_file": tmp_path / "runs" / "keys.json", "keys": ("operators-own",), "concurrency": 1, "queue": 2}
    running = gateway(memories=[str(EARS)], limits=limits)
    said(running.ask("tea", f"I like {WORD}.", key=keys["ada"]))
    until(lambda: running.remembered("ada", keys["ada"]))
    return running, keys


def test_no_request_with_another_users_key_shows_or_changes_anything(keyed: Keyed) -> None:
    running, keys = keyed
    [item] = running.request("GET", "/memory?user=ada", keys["ada"]).json()["items"]
    before = running.request("GET", "/s/tea", keys["ada"]).json()
    chat = {"model": "agentfw", "messages": [{"role": "user", "content": "What did I say?"}]}
    attempts: list[tuple[str, str, Any]] = []
    for name in ("tea", "ada:tea", "ada%3Atea"):
        attempts += [
            ("GET", f"/s/{name}", None),
            ("POST", f"/s/{name}/v1/chat/completions", {**chat, "user": "ada"}),
            ("POST", f"/s/{name}/v1/chat/completions", chat),
            ("POST", f"/s/{name}/feedback", {"value": -1, "turn": 0}),
            ("POST", f"/s/{name}/feedback", {"value": -1, "user": "ada"}),
            ("POST", f"/s/{name}/end", {}),
            ("POST", f"/s/{name}/end", {"user": "ada"}),
        ]
    attempts += [
        ("GET", "/sessions", None),
        ("GET", "/sessions?user=ada", None),
        ("GET", "/memory", None),
        ("GET", "/memory?user=ada", None),
        ("PATCH", f"/memory/{item['id']}", {"text": "I hate it."}),
        ("PATCH", f"/memory/{item['id']}?user=ada", {"text": "I hate it."}),
        ("DELETE", f"/memory/{item['id']}", None),
        ("DELETE", f"/memory/{item['id']}?user=ada", None),
        ("DELETE", "/memory?user=ada", None),
        ("GET", "/metrics", None),
        ("GET", "/view/", None),
    ]

    for method, path, body in attempts:
        answer = running.request(method, path, keys["eve"], json=body)
        assert WORD not in answer.text, (method, path)
        if "ada" in path or "ada" in json.dumps(body):
            assert answer.status_code in (400, 403, 404), (method, path, answer.text)

    blank = running.request("PATCH", f"/memory/{item['id']}", keys["ada"], json={"text": " "})
    assert blank.status_code == 400, "who wants nothing kept deletes it"
    assert running.request("GET", "/s/tea", keys["ada"]).json() == before
    assert running.request("GET", "/s/ada:tea", keys["operator"]).json()["messages"] == before["messages"]
    assert running.request("GET", "/memory?user=ada", keys["ada"]).json()["items"] == [item]
    assert running.request("GET", "/sessions?user=ada", keys["shop"]).json()["sessions"] == [], "its Ada is another one"
    assert running.ask("tea", "And now?", key=keys["ada"]).status_code == 200, "the session goes on"


def test_who_sends_another_users_conversation_does_not_go_on_in_it(keyed: Keyed) -> None:
    running, keys = keyed
    answered = running.ask("", f"I like {WORD}.", key=keys["ada"])
    session, message = answered.headers["x-agentfw-session"], said(answered)

    copied = [
        running.ask("", f"I like {WORD}.", message, "and tea", key=keys["eve"]),
        running.ask("", f"I like {WORD}.", message, "and tea", key=keys["shop"], user="ada"),
        running.ask("", f"I like {WORD}.", message, "and tea", key=keys["operator"], user="ada"),
    ]
    own = running.ask("", f"I like {WORD}.", message, "and tea", key=keys["ada"])

    assert session not in [answer.headers["x-agentfw-session"] for answer in copied]
    assert own.headers["x-agentfw-session"] == session


def test_a_program_reaches_the_sessions_of_the_user_that_it_names_and_of_no_other(keyed: Keyed) -> None:
    running, keys = keyed
    shop = keys["shop"]
    said(running.ask("order", "hello", key=shop))  # nobody's yet
    said(running.ask("order", "hello", key=shop, user="ada", safety_identifier="bob"))

    refused = [
        running.ask("order", "hello", key=shop, user="bob"),
        running.ask("order", "hello", key=shop),
        running.request("GET", "/s/order?user=bob", shop),
        running.post("/s/order/feedback", {"value": -1, "user": "bob"}, shop),
        running.post("/s/order/end", {"user": "bob"}, shop),
    ]

    assert [answer.status_code for answer in refused] == [403] * 5
    assert running.request("GET", "/s/order?user=ada", shop).json()["feedback"] == []


def test_who_fills_the_line_loses_a_place_of_their_own_also_to_a_key_from_the_same_address(
    keyed: Keyed, tmp_path: Path
) -> None:
    (running, keys), go = keyed, tmp_path / "go"
    with ThreadPoolExecutor(4) as threads:
        greedy = [threads.submit(running.ask, f"g{number}", f"hold={go}", key=keys["eve"]) for number in range(3)]
        until(lambda: "requests_waiting 2.0" in running.request("GET", "/metrics", keys["operator"]).text)
        modest = threads.submit(running.ask, "modest", "hello", key=keys["ada"])
        until(lambda: modest.done() or any(one.done() for one in greedy))
        go.touch()

    assert sorted(one.result().status_code for one in greedy) == [200, 200, 503]
    assert modest.result().status_code == 200


def test_what_is_remembered_is_recalled_for_its_user_only(gateway: Start) -> None:
    running = gateway(memories=[str(EARS)])
    said(running.ask("tea", f"I like {WORD}.", user="ada"))
    until(lambda: running.remembered("ada"))

    for session, user in (("again", "ada"), ("other", "bob"), ("nobody", "")):
        said(running.ask(session, "What do I like?", **({"user": user} if user else {})))

    shown = {name: json.dumps(running.kept(name).to_record()) for name in ("again", "other", "nobody")}
    assert [name for name, text in shown.items() if WORD in text] == ["again"]


def test_a_user_who_is_forgotten_stays_forgotten_and_nobody_else_is(gateway: Start, tmp_path: Path) -> None:
    running = gateway(memories=[str(EARS)])
    first = said(running.ask("tea", f"I like {WORD}.", user="ada"))
    said(running.ask("coffee", "I like coffee.", user="bob"))
    until(lambda: running.remembered("ada") and running.remembered("bob"))
    recalled = said(running.ask("other", "What do I like?", user="ada"))
    until(lambda: len(running.remembered("ada")) == 2)
    gone, late = tmp_path / "gone", f"Slowly: hear={tmp_path / 'gone'}"
    said(running.ask("tea", f"I like {WORD}.", first, late, user="ada"))
    said(running.ask("tea", f"I like {WORD}.", first, "Never heard.", user="ada"))
    with ThreadPoolExecutor(1) as threads:
        forgetting = threads.submit(running.request, "DELETE", "/memory?user=ada")
        until(lambda: "forgotten" in (running.folder / "heard.jsonl").read_text("utf-8"))
        gone.touch()
        assert forgetting.result().status_code == 200
    goes_on = running.ask("tea", f"I like {WORD}.", first, "And now?", user="ada")
    said(running.ask("other", "What do I like?", recalled, "Anything else?", user="ada"))
    until(lambda: len(running.remembered("ada")) == 2)
    run = killed_now(running, tmp_path / "killed")

    assert goes_on.status_code == 200
    with gateway_of(tmp_path / "killed", resume=str(run)) as again:
        said(again.ask("new", "What do I like?", user="ada"))
        until(lambda: len(again.remembered("ada")) == 3)
        assert again.remembered("ada") == ["And now?", "Anything else?", "What do I like?"]
        assert again.remembered("bob") == ["I like coffee."]
        system = [message.content for message in again.kept("new").messages if message.role == "system"]
    assert WORD not in "".join(system)
    first_turn, last_turn = (
        [running.kept("other").messages[place] for place in turn.shown] for turn in running.kept("other").turns
    )
    assert WORD in first_turn[0].content, "it was recalled in this conversation, which goes on without it"
    assert WORD not in "".join(message.content for message in last_turn)


# -- asking the memory to forget ---------------------------------------------------------------------------------------


pytest.importorskip("igraph")


@pytest.fixture
def running(gateway: Start) -> Gateway:
    started = gateway(memories=["skillgraph"], assignments=["memory.skillgraph.embedder=hash"])
    for number, text in enumerate(("I have a dog called Rex.", "I live in Rome.")):
        hear(started, f"before-{number}", text)
    return started


def hear(running: Gateway, session: str, *texts: str) -> None:
    """Say something in a conversation, and wait until the memory has heard it."""
    messages = []
    for text in texts:
        messages.append({"role": "user", "content": text})
        messages.append(said(running.ask(session, *messages, user="ada")))
        until(lambda: running.request("GET", "/memory?user=ada").json()["waiting"] == 0)


def told(running: Gateway, session: str) -> str:
    return "\n".join(message.content for message in running.kept(session).messages if message.role == "system")


def test_what_was_asked_to_forget_is_told_and_goes_with_a_yes_also_after_a_kill(
    running: Gateway, tmp_path: Path
) -> None:
    request = "Please forget that I have a dog."
    hear(running, "talk", request)
    assert len(running.remembered("ada")) == 2
    [line] = [line for line in told(running, "talk").splitlines() if "asks to forget this" in line]
    assert "I have a dog called Rex." in line

    with gateway_of(tmp_path / "killed", resume=str(killed_now(running, tmp_path / "killed"))) as again:
        answer = {"role": "assistant", "content": running.kept("talk").messages[-1].content}
        said(again.ask("talk", request, answer, "Yes.", user="ada"))
        until(lambda: again.remembered("ada") == ["I live in Rome."])

    hear(running, "talk-again", request, "Yes, please delete it!")

    assert running.remembered("ada") == ["I live in Rome."]


@pytest.mark.parametrize("answer", ["No, keep it.", "Yes, and what about the weather?"])
def test_nothing_goes_with_another_answer(running: Gateway, answer: str) -> None:
    hear(running, "talk", "Please forget that I have a dog.", answer, "Yes.")
    assert "I have a dog called Rex." in running.remembered("ada")
