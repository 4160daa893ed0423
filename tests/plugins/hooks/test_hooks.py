"""A person is asked before a tool is called: in a run, in the chat, and by the gateway."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from chat_server import Server, completion, serving, tool_call
from command_line import Agentfw
from serving_gateways import CLIENT
from waiting import until

from agentfw import Task
from agentfw.hookspecs import hookimpl
from agentfw.runs import RunFolder, list_runs, parse_spec, read_sessions
from agentfw.testing import fresh_host, sample_episode
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.hooks.redact import Redact, RedactSettings

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


def test_a_gateway_asks_before_it_passes_a_call_on_and_nobody_but_its_user(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    ada, eve = ({"authorization": f"Bearer {keys.add(name)}"} for name in ("ada", "eve"))
    sending = completion(None, message={"tool_calls": [tool_call("send_mail", to="ada", text="hello")]})
    function = {"name": "send_mail", "parameters": {"type": "object", "properties": {}}}
    body = {
        "model": "agentfw",
        "messages": [{"role": "user", "content": "Write to Ada."}],
        "tools": [{"type": "function", "function": function}],
    }
    limits = Limits(key_file=keys.path)
    asking: dict[str, Any] = {"hooks": ["approve"], "assignments": (APPROVE[-1],), "limits": limits}
    script, replies = (sending, completion("It is done."), sending), list[dict[str, Any]]()
    of_eve = list[dict[str, Any]]()
    with passing(tmp_path / "runs", *script, **asking) as gateway, ThreadPoolExecutor(1) as programs:

        def questions(of: dict[str, str] = ada) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = CLIENT.get(f"{gateway.url}/questions", headers=of).json()["questions"]
            return found

        for session, allow in (("one", False), ("two", True)):
            url = f"{gateway.session(session)}/chat/completions"
            program = programs.submit(CLIENT.post, url, json=body, headers=ada)
            until(questions)
            [question] = questions()
            assert "call send_mail with" in question["text"]
            of_eve += questions(eve)
            answer = f"{gateway.url}/questions/{question['number']}"
            CLIENT.post(answer, json={"allow": allow}, headers=ada).raise_for_status()
            replies.append(program.result(120).json()["choices"][0]["message"])

    refused, allowed = replies
    assert refused["content"] == "It is done."
    assert not refused.get("tool_calls")
    assert "refused" in gateway.server.bodies[1]["messages"][-1]["content"]
    assert allowed["tool_calls"][0]["function"]["name"] == "send_mail"
    assert of_eve == []
    assert [event["did"] for event in hook_events(tmp_path / "runs")] == ["asked: refused", "asked: allowed"]


POLICY = """
from agentfw import Generation, Policy
from agentfw.episode import Usage

class Paid(Policy):
    async def generate(self, request):
        return Generation(text="done", count=5, usage=Usage(prompt=5, sampled=5))
"""
RUN = ("run", "inbox", "--policy", "./paid.py", "--episodes", "2", "--hook", "budget")


def test_a_run_stops_at_its_limit_and_goes_on_with_a_higher_one(agentfw: Agentfw, tmp_path: Path) -> None:
    (tmp_path / "paid.py").write_text(POLICY)

    stopped = agentfw(*RUN, "--set", "hook.budget.run_tokens=100")
    resumed = agentfw("runs", "resume", "last", "--set", "hook.budget.run_tokens=1000000")

    assert stopped.code == 1
    assert "the budget of the run is spent: 100 of 100 tokens" in stopped.err
    assert "agentfw runs resume" in stopped.err
    assert "--set hook.budget.run_tokens=200" in stopped.err
    assert resumed.code == 0, resumed.err


def test_a_price_that_nobody_knows_is_an_error_before_anything_is_asked(tmp_path: Path, agentfw: Agentfw) -> None:
    with serving() as (address, server):
        model = ("--set", f"policy.base_url={address}", "--set", "policy.model=nobody-knows-it")
        refused = agentfw("run", "inbox", "--policy", "openai", *model, "--hook", "budget", *_set("run_money=1"))

    assert refused.code == 2
    assert "the price of the model nobody-knows-it isn't known" in refused.err
    assert server.bodies == []


def _set(assignment: str) -> tuple[str, str]:
    return "--set", f"hook.budget.{assignment}"


SECRETS = [
    "sk-proj-abcdEFGH1234ijklMNOP5678",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "AKIAIOSFODNN7EXAMPLE",
    "4111 1111 1111 1111",
    "5500-0000-0000-0004",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "zX9kQ2mVb7RtY4wLp8NsJ3hGd6FcA1eU",
]
HARMLESS = [
    "4111 1111 1111 1112",  # no check digit of a card
    "2026-11-28-inbox-4da23a46",
    "/home/ada/projects/website/templates/index.html",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",  # a commit
    "my password is not something that I tell",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_known_forms_are_struck(secret: str) -> None:
    struck = Redact(RedactSettings.model_validate({})).struck(f"it is {secret}, keep it")

    assert secret not in struck
    assert "[masked: " in struck
    assert struck.endswith(", keep it")


@pytest.mark.parametrize("text", HARMLESS[:-1])
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert Redact(RedactSettings.model_validate({})).struck(text) == text


def test_a_run_has_them_neither_in_its_record_nor_in_files_beside_it(
    agentfw: Agentfw, mailing: tuple[str, ...], tmp_path: Path
) -> None:
    done = agentfw(*mailing, "--hook", "redact")

    assert done.code == 0, done.err
    assert (tmp_path / "sent.txt").exists()
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"4111 1111" in file.read_bytes()] == []
    assert any("[masked: card]" in file.read_text("utf-8") for file in files if file.name == "episodes.jsonl")


def test_what_another_hook_adds_is_redacted_too() -> None:
    class Adding:
        @hookimpl
        def agentfw_record(self, record: dict[str, object]) -> dict[str, object]:
            return {**record, "profile": {"card": "4111 1111 1111 1111"}}

    assert recorded(Adding())(0)["profile"] == {"card": "[masked: card]"}


def test_a_later_part_of_a_session_in_which_something_was_masked_has_no_tokens_and_others_keep_theirs() -> None:
    record = recorded()
    parts = [record(0), record(1, "my card is 4111 1111 1111 1111"), record(1), record(2)]

    assert [any(turn["token_ids"] for turn in part["turns"]) for part in parts] == [True, False, False, True]


def recorded(*plugins: object) -> Callable[..., dict[str, Any]]:
    """What a run with `redact` records of an episode of this number."""
    spec = parse_spec({"environment": "inbox", "policy": "scripted", "hooks": ["redact"]})
    hooks = fresh_host(*plugins, builtins=True).hooks_of_run(spec.hooks, 60.0)

    def record(index: int, text: str = "") -> dict[str, Any]:
        episode = sample_episode(Task(index, 7), text=text).copied().to_record()
        decided = hooks.decide_now("agentfw_record", run=None, record=episode)
        return decided.answer if decided is not None else episode

    return record
