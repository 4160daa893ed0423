"""What a person sees of `agentfw chat`: through a pipe, and in a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from asynchronous import asynchronous
from command_line import Agentfw

from agentfw import Generation, Intervention, Moment, Policy, Request
from agentfw.episode import Call
from agentfw.errors import UsageError
from agentfw.printing.out import Out
from agentfw.runs import RunFolder, read_sessions
from agentfw_plugins.chat.conversation import Conversation, Screen, obey
from agentfw_plugins.gateway.live import opened

pytest.importorskip("igraph")

ASKED = "Book a table for dinner, please."
WISH = "a quiet table by the window"


def rule(moment: Moment) -> list[Intervention | str]:
    """Adds where it is asked to, says what a tool answered, and else repeats what was said."""
    if answers := moment.of("answer"):
        return [f"It is {answers[-1].text}."]
    said = moment.of("message")[-1].text
    if said.startswith("add"):
        return [Intervention("add", {"a": 2, "b": 3})]
    return [f"You said: {said}"]


@pytest.fixture
def rule_is_found(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return ("--policy=scripted", "--set=policy.rule=test_chat:rule")


def the_run(folder: Path) -> Path:
    [run] = (folder / "runs").iterdir()
    return run


def test_tools_run_and_answers_are_edited_and_taken_back(
    chat: Agentfw, rule_is_found: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "add.py").write_text('def add(a: int, b: int) -> str:\n    "Add."\n    return str(a + b)\n')

    typed = "\ufeff/good\n/new\nadd these\n/edit\\\nFive.\n//slash\n/undo\n/undone\n/history\n"
    answer = chat(typed, *rule_is_found, "--tool=./add.py")

    assert answer.code == 0, answer.err
    assert "→ add(" in answer.err
    assert "It is 5" in answer.out
    assert "You said: /slash" in answer.out
    assert "agent: Five." in answer.out.split("taken back: /slash")[1]
    assert "there is no command /undone" in answer.err
    [episode] = RunFolder.open(the_run(tmp_path)).episodes()
    assert len(episode.turns) == 3, "what is taken back stays in the record"


def test_what_was_asked_to_be_remembered_is_recalled_the_next_time_with_its_reason(
    chat: Agentfw, rule_is_found: tuple[str, ...]
) -> None:
    options = (*rule_is_found, "--memory=skillgraph")
    chat(f"/remember I prefer {WISH}.\n{ASKED}\n", *options)

    told = chat(f"{ASKED}\n/why\n", *options).out

    assert WISH in told
    assert "skill s" in told


def test_json_is_one_value_and_without_a_model_three_lines_say_how_to_get_one(
    chat: Agentfw, rule_is_found: tuple[str, ...]
) -> None:
    told, nothing = chat("hello\n/good\n", *rule_is_found, "--json").json, chat("")
    assert chat("hello\n", *rule_is_found, "--json").json["reward"] is None, "nobody has rated it"

    assert [message["content"] for message in told["messages"]] == ["hello", "You said: hello"]
    assert told["reward"] == 1.0
    assert nothing.code == 2
    assert len(nothing.err.splitlines()) == 3
    assert "--policy openai" in nothing.err


def test_beside_a_conversation_in_progress_another_run_can_be_begun(
    chat: Agentfw, agentfw: Agentfw, rule_is_found: tuple[str, ...], tmp_path: Path
) -> None:
    chat("hello\n", *rule_is_found)
    folder = RunFolder.open(the_run(tmp_path))

    folder.lock()
    second, serving = chat("hello\n", *rule_is_found), agentfw("serve", "--resume", folder.id, "--port", "0")
    third = chat("hello\n", *rule_is_found, "--new")
    folder.unlock()

    assert (second.code, serving.code) == (2, 2)
    assert f"is in use by process {os.getpid()}" in second.err
    assert "agentfw chat --new" in second.err
    assert "agentfw serve --new" in serving.err
    assert (third.code, len(list((tmp_path / "runs").iterdir()))) == (0, 2)


SLOW = """
import asyncio

async def decide(request):
    if request.messages[-1].content == "wait":
        await asyncio.Event().wait()
    return f"You said: {request.messages[-1].content}"
"""


class Terminal:
    """`agentfw chat` in a terminal of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.seen = ""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        self._ours = ours
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentfw", "chat", *options],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**os.environ, "TERM": "xterm"},
            close_fds=True,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def look(self) -> None:
        """See what is shown within a fifth of a second."""
        if select.select([self._ours], [], [], 0.2)[0]:
            with suppress(OSError):  # it has ended
                self.seen += os.read(self._ours, 65536).decode(errors="replace")

    def wait_for(self, text: str, seconds: float = 300, times: int = 1) -> None:
        until = time.monotonic() + seconds
        while self.seen.count(text) < times:
            assert time.monotonic() < until, f"never saw {text!r} in {self.seen!r}"
            self.look()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_in_a_terminal_one_talks_stops_an_answer_recalls_lines_with_the_arrow_keys_and_leaves(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    terminal = Terminal(tmp_path, "--policy=./slow.py")
    try:
        terminal.wait_for("> ")
        terminal.type("wait\r")
        terminal.wait_for("wait\r\n")
        until = time.monotonic() + 300
        while "stopped" not in terminal.seen and time.monotonic() < until:
            terminal.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            terminal.look()
        terminal.type("first\\\rsecond\r")
        terminal.wait_for("You said: first")
        terminal.type("/good\r")
        terminal.wait_for("noted: good")
        terminal.type("\x1b[A\x1b[A\x1b[A\r\x1b[A\x1b[A\x1b[A\r")
        terminal.wait_for("You said: first", times=2)
        while terminal.process.poll() is None and time.monotonic() < until:
            terminal.type("\x04")
            time.sleep(0.2)
        terminal.wait_for("ended with reward", seconds=5)
    finally:
        terminal.close()

    [episode] = RunFolder.open(the_run(tmp_path)).episodes()
    said = [event.data["said"] for event in episode.events if event.name == "message"]
    assert said == ["wait", "first\nsecond", "first\nsecond"]


@asynchronous
async def test_what_was_stopped_stays_in_the_history_but_not_in_the_conversation(tmp_path: Path) -> None:
    class Stuck(Policy):
        told = asyncio.Event()

        async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
            if request.messages[-1].role == "user":
                return Generation("", (Call("look", {}, "c1"),))
            tell("One, ")
            self.told.set()
            await asyncio.Event().wait()
            raise AssertionError

    async with opened(tmp_path, start="chat", policy="scripted", assignments=['policy.replies=["yes"]']) as live:
        conversation = Conversation(live, "me", Screen(Out(json=True)))
        await conversation.say("Tea?")
        scripted = live.assembly.policy.inside

        async def stopped() -> None:
            live.assembly.policy.inside = Stuck()
            Stuck.told.clear()
            asking = asyncio.create_task(conversation.say("Count."))
            await Stuck.told.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            live.assembly.policy.inside = scripted

        await stopped()
        await obey(conversation, "/good")
        await conversation.say("Coffee?")
        shown, said = await obey(conversation, "/history"), list(conversation.messages)
        await obey(conversation, "/bad Too short.")
        await obey(conversation, "/undo")
        await obey(conversation, "/bad")
        rated = [event.data for event in conversation.session.episode.events if event.name == "feedback"]
        undone = [await obey(conversation, line) for line in ("/history", "/undo", "/history")]
        for line in ("/undo", "/good"):
            with pytest.raises(UsageError):
                await obey(conversation, line)
        await conversation.say("Milk?")
        anew = await obey(conversation, "/history")
        await stopped()
        await obey(conversation, "/new")
        with pytest.raises(UsageError, match="no answer yet"):
            await obey(conversation, "/good")
        await conversation.say("Water?")
        begun = await obey(conversation, "/history")

    assert [message.content for message in said] == ["Tea?", "yes", "Coffee?", "yes"]
    assert shown == [
        "you: Tea?",
        "agent: yes",
        "you (stopped): Count.",
        "agent (stopped): → look({})",
        "tool (stopped): there is no tool look",
        "agent (stopped): One, ",
        "you: Coffee?",
        "agent: yes",
    ]
    last = rated[1]["turn"]
    assert last > 0
    assert [(one["value"], one["turn"]) for one in rated] == [(1.0, 0), (-1.0, last), (-1.0, 0)], "the last that stands"
    assert undone == [shown[:6], ["taken back: Tea?"], ["nothing was said yet"]]
    assert (anew, begun) == (["you: Milk?", "agent: yes"], ["you: Water?", "agent: yes"])


def test_a_chat_whose_server_never_answers_leaves_no_run(chat: Agentfw, tmp_path: Path) -> None:
    nobody = ("--policy=openai", "--set=policy.base_url=http://127.0.0.1:1/v1", "--set=policy.model=x")

    answer = chat("hi\n", *nobody, "--set=policy.deadline=60")

    assert answer.code != 0
    assert "check that the server is running" in answer.err
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_was_said_is_on_disk_after_kill_9_and_the_next_start_keeps_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentfw", "chat", "--policy=scripted", '--set=policy.replies=["Yes."]']

    def asked_and_stopped(text: str, number: int) -> tuple[str, int]:
        """The answer, and the exit code after a signal, with the input still open."""
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            process.send_signal(number)
            return answer, process.wait(300)

    answered, _ = asked_and_stopped("hello", signal.SIGKILL)
    [kept] = read_sessions(the_run(tmp_path))
    _, code = asked_and_stopped("and again", signal.SIGINT)

    assert answered == "Yes.\n"
    assert [turn.text for turn in kept.turns] == ["Yes."]
    assert code == 130
    finishes = [episode.finish for episode in RunFolder.open(the_run(tmp_path)).episodes()]
    assert finishes == ["interrupted", "ended"]
