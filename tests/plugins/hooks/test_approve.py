"""A person is asked before a tool is called: in a run, in the chat, and by the gateway."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from chat_server import Server, completion, tool_call
from command_line import Agentfw
from waiting import until

from agentfw.runs import RunFolder, list_runs, read_sessions

from ..gateway.conftest import CLIENT
from ..gateway.upstream import passing

APPROVE = ("--hook", "approve", "--set", 'hook.approve.tools=["send_*"]')


def hook_events(runs: Path) -> list[dict[str, Any]]:
    folder = next(iter(list_runs(runs)))
    episodes = list(folder.episodes()) or read_sessions(folder.path)
    return [event.data for episode in episodes for event in episode.events if event.kind == "hook"]


def test_where_nobody_can_be_asked_the_call_is_refused_and_the_agent_told(
    agentfw: Agentfw, mailing: tuple[str, ...], tmp_path: Path
) -> None:
    done = agentfw(*mailing, *APPROVE)

    assert done.code == 0, done.err
    assert not (tmp_path / "sent.txt").exists()
    (did,) = hook_events(tmp_path / "runs")
    assert (did["did"], did["name"], did["text"]) == ("asked: refused", "send_mail", "there is nobody to ask")
    (episode,) = RunFolder.open(next((tmp_path / "runs").glob("2*"))).episodes()
    assert any("send_mail was refused: there is nobody to ask" in message.content for message in episode.messages)
    shown = agentfw("runs", "show", "last", "--episode", episode.id).out
    assert "[approve asked: refused: send_mail: there is nobody to ask]" in shown


def test_a_tool_that_is_not_named_is_called(agentfw: Agentfw, mailing: tuple[str, ...], tmp_path: Path) -> None:
    done = agentfw(*mailing, "--hook", "approve", "--set", 'hook.approve.tools=["delete_*"]')

    assert done.code == 0, done.err
    assert (tmp_path / "sent.txt").read_text() == "ada"
    assert hook_events(tmp_path / "runs") == []


def test_a_run_asks_in_its_terminal(mailing: tuple[str, ...], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "agentfw", *mailing, *APPROVE]
    run = subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, b"yes\n")
    reading = threading.Thread(target=_drained, args=(ours,), daemon=True)
    reading.start()

    assert run.wait(120) == 0
    assert b"call send_mail with" in shown
    assert [event["did"] for event in hook_events(tmp_path / "runs")] == ["asked: allowed"]
    assert (tmp_path / "sent.txt").exists()


def _drained(terminal: int) -> None:
    try:
        while os.read(terminal, 1000):
            pass
    except OSError:
        pass


def test_a_chat_takes_the_next_line_for_the_answer(
    chat: Agentfw, mailing: tuple[str, ...], model: tuple[str, Server], tmp_path: Path
) -> None:
    options = ("--policy", "openai", "--tool", "./send_mail.py", *APPROVE)
    served = ("--set", f"policy.base_url={model[0]}", "--set", "policy.model=served")

    done = chat("Write to Ada, please.\nnever\n", *options, *served)

    assert done.code == 0, done.err
    assert "[y/N]" in done.err
    assert "It is done." in done.out
    assert [event["did"] for event in hook_events(tmp_path / "runs")] == ["asked: refused"]
    assert not (tmp_path / "sent.txt").exists()


def test_a_gateway_asks_before_it_passes_a_call_on(tmp_path: Path) -> None:
    sending = completion(None, message={"tool_calls": [tool_call("send_mail", to="ada", text="hello")]})
    function = {"name": "send_mail", "parameters": {"type": "object", "properties": {}}}
    body = {
        "model": "agentfw",
        "messages": [{"role": "user", "content": "Write to Ada."}],
        "tools": [{"type": "function", "function": function}],
    }
    asking: dict[str, Any] = {"hooks": ["approve"], "assignments": (APPROVE[-1],)}
    script, replies = (sending, completion("It is done."), sending), list[dict[str, Any]]()
    with passing(tmp_path / "runs", *script, **asking) as gateway, ThreadPoolExecutor(1) as programs:

        def questions() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = CLIENT.get(f"{gateway.url}/questions").json()["questions"]
            return found

        for session, allow in (("one", False), ("two", True)):
            url = f"{gateway.session(session)}/chat/completions"
            program = programs.submit(CLIENT.post, url, json=body)
            until(questions)
            [question] = questions()
            assert "call send_mail with" in question["text"]
            CLIENT.post(f"{gateway.url}/questions/{question['number']}", json={"allow": allow}).raise_for_status()
            replies.append(program.result(120).json()["choices"][0]["message"])

    refused, allowed = replies
    assert refused["content"] == "It is done."
    assert not refused.get("tool_calls")
    assert "refused" in gateway.server.bodies[1]["messages"][-1]["content"]
    assert allowed["tool_calls"][0]["function"]["name"] == "send_mail"
    assert [event["did"] for event in hook_events(tmp_path / "runs")] == ["asked: refused", "asked: allowed"]
