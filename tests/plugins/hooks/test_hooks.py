"""A person is asked before a tool is called: in a run, in the chat, and by the gateway."""

from __future__ import annotations

import asyncio
import os
import pty
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chat_server import Server, completion, serving, tool_call
from command_line import Agentfw
from serving_gateways import CLIENT
from waiting import until

from agentfw import Episode, Message, Request, Task
from agentfw.episode import Call, Event, Turn, Usage
from agentfw.errors import BudgetSpentError, StorageError
from agentfw.hookspecs import hookimpl
from agentfw.runs import RunFolder, list_runs, parse_spec, read_sessions
from agentfw.testing import fresh_host
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.hooks.budget import Budget, BudgetSettings
from agentfw_plugins.hooks.ledger import Account, Ledger
from agentfw_plugins.hooks.redact import Redact, RedactSettings

from ..gateway.upstream import passing

APPROVE = ("--hook", "approve", "--set", 'hook.approve.tools=["send_*", "wipe_*"]')


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
    shop = {"authorization": f"Bearer {keys.add('shop', user=None)}"}  # of which nobody's conversation is
    sending = completion(None, message={"tool_calls": [tool_call("send_mail", to="ada", text="hello")]})
    function = {"name": "send_mail", "parameters": {"type": "object", "properties": {}}}
    body = {
        "model": "agentfw",
        "messages": [{"role": "user", "content": "Write to Ada."}],
        "tools": [{"type": "function", "function": function}],
    }
    limits = Limits(key_file=keys.path)
    (tmp_path / "mail.py").write_text('def send_mail(to: str, text: str) -> str:\n    "Send."\n    return "sent"\n')
    asking: dict[str, Any] = {"hooks": ["approve"], "assignments": (APPROVE[-1],), "limits": limits}
    asking["tools"] = [str(tmp_path / "mail.py")]
    script, replies = (sending, completion("It is done."), sending), list[dict[str, Any]]()
    of_eve = list[dict[str, Any]]()
    with passing(tmp_path / "runs", *script, **asking) as gateway, ThreadPoolExecutor(1) as programs:

        def questions(of: dict[str, str]) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = CLIENT.get(f"{gateway.url}/questions", headers=of).json()["questions"]
            return found

        for session, allow, key in (("one", False, ada), ("two", True, shop)):
            url = f"{gateway.session(session)}/chat/completions"
            program = programs.submit(CLIENT.post, url, json=body, headers=key)
            [question] = until(lambda: questions(key))  # noqa: B023
            assert "call send_mail with" in question["text"]
            of_eve += questions(eve)
            answer = f"{gateway.url}/questions/{question['number']}"
            assert CLIENT.post(answer, json={"allow": not allow}, headers=eve).status_code == 404
            CLIENT.post(answer, json={"allow": allow}, headers=key).raise_for_status()
            replies.append(program.result(120).json()["choices"][0]["message"])

        def called(session: str, **changes: Any) -> dict[str, Any]:
            [made] = replies[1]["tool_calls"]
            given = {"id": made["id"], "name": "send_mail", "arguments": made["function"]["arguments"], **changes}
            answer: dict[str, Any] = CLIENT.post(f"{gateway.url}/s/{session}/call", json=given, headers=shop).json()
            return answer

        calls = [called("two")]
        for changes in ({}, {"id": "of no model"}, {"arguments": {"to": "eve", "text": "hello"}}):
            calling = programs.submit(called, "two", **changes)
            until(lambda: questions(shop) or calling.done())  # noqa: B023
            for question in questions(shop):
                answer = f"{gateway.url}/questions/{question['number']}"
                CLIENT.post(answer, json={"allow": False}, headers=shop).raise_for_status()
            calls.append(calling.result(120))

    assert [one["succeeded"] for one in calls] == [True, False, False, False], "a yes to a call is good once"
    events = [event for one in read_sessions(gateway.folder) for event in one.events]
    made = [event.data for event in events if (event.kind, event.name) == ("session", "called")]
    assert [(each["name"], each["arguments"]["to"]) for each in made] == [("send_mail", "ada")]
    refused, allowed = replies
    assert refused["content"] == "It is done."
    assert not refused.get("tool_calls")
    assert "refused" in gateway.server.bodies[1]["messages"][-1]["content"]
    assert allowed["tool_calls"][0]["function"]["name"] == "send_mail"
    assert of_eve == []
    did = [event["did"] for event in hook_events(tmp_path / "runs")]
    assert did == ["asked: refused", "asked: allowed", *["asked: refused"] * 3]


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


def test_a_limit_holds_for_its_month_user_key_and_book_and_an_own_one_in_the_place_of_the_general(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"phone": {"day_tokens": 100}, "tea": {"tokens": 0}}
    own = {"users": {"guest": {"tokens": 30}, "bob": {"tokens": 1000}}, "keys": keys}
    hook = Budget(BudgetSettings.model_validate({"month": {"user_tokens": 100}, **own}))
    usage = Usage(prompt=40, cached=0, sampled=10, cost=0.5)

    async def asked(day: str, user: str, session: str = "tea", environment: str = "sessions") -> Callable[[], None]:
        """Make a request of this day. Returns what answers it with fifty tokens."""
        for module in ("budget", "ledger"):
            monkeypatch.setattr(f"agentfw_plugins.hooks.{module}.today", lambda: day)
        spec = SimpleNamespace(environment=SimpleNamespace(name=environment))
        run = SimpleNamespace(id="r", spec=spec, folder=RunFolder(tmp_path / "r", {}))
        hook.agentfw_run_started(run)
        request = Request((), task=Task(0, 7, user, query=session))
        await hook.agentfw_request(run, request, "m", lambda: usage)
        return lambda: hook.agentfw_answered(run, request, "m", usage, True)

    def answered(*about: str, **more: str) -> bool:
        async def ask() -> bool:
            try:
                (await asked(*about, **more))()
            except BudgetSpentError:
                return False
            return True

        return asyncio.run(ask())

    async def beside(day: str, user: str) -> None:
        """A request that nobody has answered yet is no reason to let another user wait."""
        answer = await asked(day, user, session="one")
        await asyncio.wait_for(asyncio.create_task(asked(day, "fay", session="two")), 30)
        answer()

    def answers(user: str, *days: str, session: str = "tea") -> list[bool]:
        return [answered(day, user, session) for day in days]

    october, november, last, december = "2026-10-31", "2026-11-01", "2026-11-30", "2026-12-01"
    assert answers("ada", october, october, october) == [True, True, False]
    assert answers("ada", november, last, last, december) == [True, True, False, True]
    assert answers("guest", october, november) == [True, False]
    assert answers("bob", october, october, october) == [True] * 3
    assert answers("dan", november, november, november, session="phone:tea") == [True, True, False]
    assert answers("eve", november, last, session="phone:tea") == [False, True]
    assert answers("fay", november) == [True]
    asyncio.run(beside(november, "gus"))
    assert answered(last, "ada", environment="inbox"), "what gateways answered is nothing to a run"
    ledger = Ledger(tmp_path / "usage.db")
    assert [(row.name, row.requests) for row in ledger.report("day")] == [
        *((october, 6), (november, 5), (last, 3), (december, 1))
    ]
    assert [(row.name, row.money) for row in ledger.report("user", since=last)] == [("ada", 1.5), ("eve", 0.5)]
    assert [row.tokens for row in ledger.report("key", key="")] == [600]


def test_what_was_spent_stays_as_it_was_where_a_name_cannot_be_taken_out(tmp_path: Path) -> None:
    ledger, used = Ledger(tmp_path / "usage.db"), Usage(prompt=1, cached=0, sampled=1)
    for user in ("ada", "bob"):
        ledger.add(Account(user), "m", used, counted=True)
    with closing(sqlite3.connect(tmp_path / "usage.db")) as file:
        file.execute("CREATE TRIGGER full BEFORE INSERT ON spent BEGIN SELECT RAISE(ABORT, 'full'); END")
        with pytest.raises(StorageError, match="full"):
            ledger.forget("ada")
        file.execute("DROP TRIGGER full")
    ledger.add(Account("bob"), "m", used, counted=True)

    found = Ledger(tmp_path / "usage.db").report("user")
    assert [(row.name, row.requests) for row in found] == [("bob", 2), ("ada", 1)]


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
    tool = tmp_path / "send_mail.py"
    tool.write_text(tool.read_text().replace("return ", "return text * 9 + "))  # more than an agent is shown

    done = agentfw(*mailing, "--hook", "redact", "--set", "max_answer=100")

    assert done.code == 0, done.err
    assert (tmp_path / "sent.txt").exists()
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"4111 1111" in file.read_bytes()] == []
    assert any("[masked: card]" in file.read_text("utf-8") for file in files if file.name == "episodes.jsonl")


def test_every_part_of_a_record_is_redacted_also_what_another_hook_adds_and_its_episode_keeps_no_tokens() -> None:
    card = "4111 1111 1111 1111"

    class Adding:
        @hookimpl
        def agentfw_record(self, record: dict[str, object]) -> dict[str, object]:
            return {**record, "profile": {"card": card}} if card in str(record) else record

    spec = parse_spec({"environment": "inbox", "policy": "scripted", "hooks": ["redact"]})
    hooks = fresh_host(Adding(), builtins=True).hooks_of_run(spec.hooks, 60.0)

    def recorded(task: int, text: str, split: str = "test") -> dict[str, Any]:
        call = Call("pay", {"with": [text]}, "1")
        turn = Turn(0, 0, 1, text=text, said=text, failures=(text,), calls=(call,), token_ids=(5,), logprobs=(-1.0,))
        messages, events = [Message("assistant", text, (call,))], [Event(0, "answer", "x", {"text": text, "id": "1"})]
        episode = Episode(Task(task, 7, split=split), messages=messages, events=events, turns=[turn])
        decided = hooks.decide_now("agentfw_record", run=None, record=episode.copied().to_record())
        assert decided is not None
        record: dict[str, Any] = decided.answer
        return record

    first, later = recorded(0, card), recorded(0, "Thanks.")
    others = [recorded(1, "Thanks."), recorded(0, "Thanks.", "train")]

    assert card not in str(first)
    assert first["profile"] == {"card": "[masked: card]"}
    given = Redact(RedactSettings()).struck({"user": "ana", "login": [{"password": "hunter2", "pin": "4711"}]})
    assert given == {"user": "ana", "login": [dict.fromkeys(("password", "pin"), "[masked: password]")]}
    assert first["events"][-1][3] == {"did": "masked", "card": 8}
    kept = [len(record["turns"][0]["token_ids"]) for record in (first, later, *others)]
    assert kept == [0, 0, 1, 1], "also what the episode is told later, whose prompts have it, and no other's"
