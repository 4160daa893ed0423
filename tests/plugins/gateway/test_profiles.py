"""The gateway tells what a person typed from what their program added, who they are, and which session it is."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import until

from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.gateway.profiles import Sent, Told, told_by, typed
from agentfw_plugins.protocols import Body, protocols
from agentfw_plugins.protocols.chat import recorded

from .conftest import CLIENT, EARS, Serve, Served

RECORDED = {
    file.stem: json.loads(file.read_text("utf-8")) for file in Path(__file__).parent.glob("recorded_agents/*.json")
}
TYPED = ["I live in Ghent and I prefer short functions.", "Now fix the test.\n\nI prefer type hints."]


def told(request: dict[str, Any]) -> Told:
    path = request["path"].partition("?")[0]
    endings = {"messages": "/messages", "responses": "/responses", "google": "GenerateContent", "chat": "/completions"}
    name = next(name for name, ending in endings.items() if path.endswith(ending))
    asked = recorded(protocols()[name], Body({**request["body"], "model": "m", "stream": True}))
    return told_by(Sent(request["headers"], request["body"], asked))


def claude(text: str, *, session: str = "5e61f47a-09ff", account: str = "", more: str = "") -> dict[str, Any]:
    ids = json.dumps({"device_id": "d1", "account_uuid": account, "session_id": session})
    reminder = {"type": "text", "text": "<system-reminder>\nI live in Madrid.\n</system-reminder>\n"}
    content = [reminder, {"type": "text", "text": text}, *([{"type": "text", "text": more}] if more else [])]
    body = {"model": "agentfw", "max_tokens": 100, "metadata": {"user_id": ids}}
    return {**body, "messages": [{"role": "user", "content": content}]}


def sent(gateway: Served, body: dict[str, Any], session: str = "5e61f47a-09ff", **more: str) -> httpx.Response:
    headers = {"user-agent": "claude-cli/2.1.197 (external, cli)", "x-claude-code-session-id": session}
    return CLIENT.post(f"{gateway.url}/v1/messages", json=body, headers=headers | more)


@pytest.mark.parametrize("program", sorted(RECORDED))
def test_recorded_requests_of_programs_are_understood(program: str) -> None:
    found = [told(request) for request in RECORDED[program]]
    said = [text for one in found for texts in one.said for text in texts]

    assert said == TYPED
    assert {one.program for one in found} == {"cline" if program == "roo" else program}
    assert len({one.session for one in found}) == 1
    assert len({one.user for one in found}) == 1
    assert not found[0].session or found[0].session.partition("-")[2][-12:] not in found[0].user


def test_a_person_is_remembered_in_the_next_session_of_their_agent_and_by_their_other_agents(serve: Serve) -> None:
    gateway = serve(Limits(default_user="me"), memories=[EARS])
    first = sent(gateway, claude("I live in Ghent."))
    until(lambda: gateway.remembered("me"))

    second = sent(gateway, claude("Where do I live?", session="77-88"), "77-88")
    codex = {"input": [{"role": "user", "content": "And now?"}], "model": "agentfw"}
    other = CLIENT.post(
        f"{gateway.url}/v1/responses", json=codex, headers={"originator": "codex_cli", "session-id": "9"}
    )

    gateway.ask("eves", "hello", user="eve").raise_for_status()
    assert gateway.ask("eves", "hello again").status_code == 200, "who names nobody goes on in a session of somebody"
    names = ["claude-code-5e61f47a-09ff", "claude-code-77-88", "codex-9"]
    assert [one.headers["x-agentfw-session"] for one in (first, second, other)] == names
    sessions = [CLIENT.get(f"{gateway.url}/s/{name}").json() for name in names[1:]]
    assert all("I live in Ghent." in [each["text"] for each in one["recalled"]] for one in sessions)
    until(lambda: len(gateway.remembered("me")) >= 3)
    assert "Madrid" not in str(gateway.remembered("me"))


def test_parts_are_heard_apart_and_nothing_of_side_work(serve: Serve) -> None:
    gateway = serve(Limits(default_user="me"), memories=[EARS])

    sent(gateway, claude("I live in Ghent.", more="My password is hunter2, and I like tea."))
    sent(gateway, claude("Generate a concise title for this: I live in Rome."))
    sent(gateway, claude("I live in Bonn."), **{"x-claude-code-agent-id": "helper"})
    sent(gateway, claude("I like salt."))
    until(lambda: len(gateway.remembered("me")) >= 3)

    texts = gateway.remembered("me")
    assert texts == ["I live in Ghent.", "My password is [masked: password], and I like tea.", "I like salt."]
    assert 'agentfw_masked_total{kind="password"} 1.0' in CLIENT.get(f"{gateway.url}/metrics").text


@pytest.mark.parametrize("given", ['{"device_id": 5', '["a"]', '{"device_id": {"a": 1}}'])
def test_ids_that_cannot_be_read_name_nobody_else(serve: Serve, given: str) -> None:
    gateway = serve(memories=[EARS])
    answer = sent(gateway, {**claude("I live in Ghent."), "metadata": {"user_id": given}}, session="a b/../" * 40)

    assert answer.status_code == 200, answer.text
    name = answer.headers["x-agentfw-session"]
    assert re.fullmatch(r"claude-code-[0-9a-f]+", name)
    session = CLIENT.get(f"{gateway.url}/s/{name}").json()
    assert session["user"] in ("", "device-{'a': 1}")
    assert session["recalled"] == []


def test_a_session_of_another_user_is_not_taken_over_because_a_program_names_it(serve: Serve) -> None:
    gateway = serve(memories=[EARS])
    first = sent(gateway, claude("I live in Ghent.", account="one"))
    second = sent(gateway, claude("I live in Rome.", account="two"))

    named = claude("I live in Bonn.", account="two")
    third = CLIENT.post(f"{gateway.url}/v1/messages?user=eve", json=named, headers={"user-agent": "claude-cli/2.1"})

    assert (first.status_code, second.status_code, third.status_code) == (200, 200, 200)
    assert first.headers["x-agentfw-session"] != second.headers["x-agentfw-session"]
    shown = CLIENT.get(f"{gateway.url}/s/{third.headers['x-agentfw-session']}").json()
    assert shown["user"] == "eve", "who is named counts more than the program's account"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<context>\nI live in Rome.\n</context>\nFix it.", "Fix it."),
        ("<env>a<env>b</env>I live in Rome.</env> Fix it.", "Fix it."),
        ("Fix it.\n```\nI live in Rome.\n```\nI prefer tabs.", "Fix it.\n\n\nI prefer tabs."),
        ("[read_file for 'notes.md'] Result:\nI live in Rome.", ""),
        ("I ran this command:\n\nls\n\nAnd got this output:\nI live in Rome.", ""),
        ("I use Vec<u8> and List<String>.", "I use Vec<u8> and List<String>."),
    ],
)
def test_without_a_profile_the_structure_tells_what_was_typed(text: str, left: str) -> None:
    assert typed(text) == left


def test_the_end_of_a_long_message_is_heard() -> None:
    pasted = "\n".join(f"Line {number} of a long log." for number in range(2_000))
    request = {"path": "/v1/chat/completions", "headers": {}}
    body = {"messages": [{"role": "user", "content": f"Look at this.\n{pasted}\n\nI prefer type hints."}]}

    texts = told({**request, "body": body}).said[0]

    began = time.process_time()
    typed("<p>1</p>" * 200_000 + f"\n-- Content {'-' * 20_000}.")
    assert time.process_time() - began < 3
    assert texts[0].startswith("Look at this.")
    assert texts[-1].endswith("I prefer type hints.")
    assert sum(map(len, texts)) <= 4_000
