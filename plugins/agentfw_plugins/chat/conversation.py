"""A conversation of a person with a policy: one session of a live run, whose tools are called here.

What is said is on disk before it is answered. When the conversation ends, it is scored and learned from.

A line that begins with a slash is a command, such as `/good`. `//` at the beginning stands for a slash. The lines come
from a terminal, or from a pipe, so that a conversation can be scripted. One that ends with a backslash goes on in the
next.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from agentfw import Message, Session
from agentfw.episode import Call
from agentfw.errors import AgentfwError, UsageError
from agentfw.printing.out import Out, width_of
from agentfw.runs import LiveRun, Question, make_private

from ..protocols.chat import arguments


class Screen:
    """Shows answers on stdout as they come, and everything else on stderr. With --json nothing is shown."""

    def __init__(self, out: Out) -> None:
        self.out = out

    def words(self, piece: str) -> None:
        if not self.out.json:
            self.out.words(piece)

    def aside(self, text: str) -> None:
        """Show something besides what is said, such as a tool call."""
        if not self.out.json:
            self.out.note(text)


class TerminalScreen(Screen):
    """Begins a new line before a word that the terminal would break at its edge."""

    def __init__(self, out: Out) -> None:
        super().__init__(out)
        self._begun, self._column = "", 0

    def words(self, piece: str) -> None:
        *whole, self._begun = re.split(r"(?<=\s)", self._begun + piece)
        for word in whole:
            width = width_of(word.rstrip())
            if self._column and self._column + width > shutil.get_terminal_size().columns:
                self.out.words("\n")
                self._column = 0
            self.out.words(word)
            self._column = 0 if word.endswith("\n") else self._column + width_of(word)


class Conversation:
    """One conversation at a time. After `end`, the next thing said begins another."""

    def __init__(self, live: LiveRun, user: str, screen: Screen) -> None:
        self.live, self.user, self.screen = live, user, screen
        self.messages: list[Message] = []  # the conversation as it goes on, without what was taken back
        self._turns: list[int] = []  # the turn of each answer in it
        self._stopped: list[tuple[int, list[Message]]] = []
        """Messages whose answer was stopped, with the partial answer and its place in the conversation."""
        self._begun = ""  # the text of the answer in progress so far
        self._current: Session | None = None

    @property
    def session(self) -> Session:
        """The session in progress. It begins when it is first needed."""
        if self._current is None:
            name = f"chat-{secrets.token_hex(4)}"
            self._current = self.live.begin(name, self.user, tools=self.live.assembly.tools)
        return self._current

    async def say(self, text: str) -> None:
        """Say something, and let the policy answer. It may call tools before it does.

        If it is stopped or fails, the conversation is as before; the record has all of it.
        """
        before, turns = len(self.messages), len(self._turns)
        self.messages.append(Message("user", text))
        try:
            while calls := await self._answered():
                for call in calls:
                    self.screen.aside(f"→ {call.name}({_brief(arguments(call))})")
                    answer = await self.session.call(call, self.user)
                    self.messages.append(answer)
                    failed = call.id in self.session.episode.failed_calls
                    self.screen.aside(f"  {'failed: ' if failed else ''}{_brief(answer.content)}")
        except BaseException:
            begun = [Message("assistant", self._begun)] if self._begun else []
            self._stopped.append((before, [*self.messages[before:], *begun]))
            del self.messages[before:], self._turns[turns:]
            raise

    async def _answered(self) -> tuple[Call, ...]:
        session, self._begun = self.session, ""

        def tell(piece: str) -> None:
            self._begun += piece
            self.screen.words(piece)

        try:
            reply = await session.answer(self.messages, user=self.user, tell=tell, carries_out=False)
        finally:
            await self.live.keep(session)  # before the answer ends on the screen
            if self._begun:
                self.screen.words("\n")  # written at once, for whoever reads line by line
        self._begun = ""
        self.messages.append(reply.message)
        self._turns.append(reply.turn.index)
        return reply.calls

    # -- what the person thinks of it ----------------------------------------------------------------------------------

    async def rate(self, value: float, words: str = "") -> None:
        turn = self._last()  # before a session begins, of which there would be nothing to record
        self.session.feedback(value, words=words, turn=turn)
        await self.live.keep(self.session)

    async def correct(self, text: str) -> None:
        """Replace the last answer by the one that should have been given, which is learned from as a correction."""
        turn = self._last()
        place = max(index for index, message in enumerate(self.messages) if message.role == "assistant")
        self.session.feedback(-1.0, correction=text, turn=turn)
        self.messages[place] = replace(self.messages[place], content=text)
        await self.live.keep(self.session)

    async def undo(self) -> str:
        """Take back the last thing said and what was answered. Returns what was said. The record keeps both."""
        places = [index for index, message in enumerate(self.messages) if message.role == "user"]
        if not places:
            raise UsageError("there is nothing to take back", fix="say something first")
        taken = self.messages[places[-1] :]
        del self.messages[places[-1] :]
        self._stopped = [(place, said) for place, said in self._stopped if place <= len(self.messages)]
        answers = sum(message.role == "assistant" for message in taken)
        del self._turns[len(self._turns) - answers :]
        self.session.note("session", "undone", {"messages": len(taken)})
        await self.live.keep(self.session)
        return taken[0].content

    def recalled(self) -> list[Mapping[str, Any]]:
        """What the memories recalled in this conversation, and why."""
        events = self._current.episode.events if self._current is not None else ()
        return [event.data for event in events if (event.kind, event.name) == ("memory", "recalled")]

    def history(self) -> Iterator[tuple[Message, bool]]:
        """All that was said, and whether it was stopped: then it isn't part of the conversation as it goes on."""
        for place in range(len(self.messages) + 1):
            for at, said in self._stopped:
                if at == place:
                    yield from ((message, True) for message in said)
            if place < len(self.messages):
                yield self.messages[place], False

    async def end(self) -> float | None:
        """End the conversation: score it, and learn from it. Returns its reward. None if nothing was said."""
        session, self._current = self._current, None
        self.messages, self._turns, self._stopped = [], [], []
        return None if session is None else await self.live.conclude(session)

    def _last(self) -> int:
        if not self._turns:
            raise UsageError("there is no answer yet", fix="say something first")
        return self._turns[-1]


def _brief(text: str, longest: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


class Command(NamedTuple):
    """What can be typed for a command, and what it does."""

    usage: str
    summary: str
    needs_words: bool = False


COMMANDS = {
    "good": Command("/good [WHY]", "Rate the last answer as good."),
    "bad": Command("/bad [WHY]", "Rate the last answer as bad."),
    "edit": Command("/edit ANSWER", "Replace the last answer by the one that should have been given.", True),
    "undo": Command("/undo", "Take back the last thing you said, and its answer."),
    "remember": Command("/remember TEXT", "Let the memories learn this.", True),
    "forget": Command("/forget", "Delete what the memories know of you."),
    "why": Command("/why", "Show what was remembered, and why."),
    "history": Command("/history", "Show the conversation."),
    "new": Command("/new", "End the conversation, so that it is learned from, and begin another."),
    "help": Command("/help", "Show the commands."),
}


async def obey(conversation: Conversation, line: str) -> list[str]:
    """Carry out a command. Returns the lines to show."""
    name, *rest = re.split(r"\s", line[1:], maxsplit=1)  # the words may begin in the next line
    command, words, live = COMMANDS.get(name), "".join(rest).strip(), conversation.live
    if command is None:
        known = ", ".join(f"/{one}" for one in (*COMMANDS, "quit"))
        raise UsageError(f"there is no command /{name}", fix=f"known: {known}")
    if command.needs_words and not words:
        raise UsageError(f"/{name} needs words", fix=command.usage)
    match name:
        case "good":
            await conversation.rate(1.0, words)
            return ["noted: good"]
        case "bad":
            await conversation.rate(-1.0, words)
            return ["noted: bad" if words else "noted: bad; `/bad WHY` says why"]
        case "edit":
            await conversation.correct(words)
            return ["noted: the conversation goes on with this answer"]
        case "undo":
            return [f"taken back: {await conversation.undo()}"]
        case "remember":
            conversation.session.remember(words)
            await live.keep(conversation.session)
            learned = "noted: it is learned when the conversation ends"
            return [learned if live.assembly.memories else "noted; there is no --memory to learn it"]
        case "forget":
            deleted = await live.forget(conversation.user)
            counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in deleted.items() if count)
            stays = f"nothing said so far is learned again; the words themselves stay in {live.folder.path}"
            return [f"deleted from the memories: {counts or 'nothing was there'}", stays]
        case "why":
            return list(_why(conversation)) or ["nothing was remembered in this conversation"]
        case "history":
            said = list(conversation.history())
            return list(_told(said)) if said else ["nothing was said yet"]
        case "new":
            reward = await conversation.end()
            return ["a new conversation" if reward is None else f"ended with reward {reward:g}; a new conversation"]
    shown = [(one.usage, one.summary) for one in COMMANDS.values()]
    width = max(len(usage) for usage, _ in shown)
    return [f"{usage:{width}}  {summary}" for usage, summary in (*shown, ("/quit", "End the conversation, and leave."))]


def _why(conversation: Conversation) -> Iterator[str]:
    for one in conversation.recalled():
        yield f"{one['score']:z.2f}  {one['text']}"
        reasons = [(name, why) for name, why in one["why"].items() if why and isinstance(why, (str, int, float))]
        if reasons:
            told = (f"{name} {why:z.2f}" if isinstance(why, float) else f"{name} {why}" for name, why in reasons)
            yield "      " + "  ".join(told)


def _told(history: Sequence[tuple[Message, bool]]) -> Iterator[str]:
    for message, stopped in history:
        who = {"user": "you", "assistant": "agent"}.get(message.role, message.role) + (" (stopped)" if stopped else "")
        if message.content:
            yield f"{who}: {message.content}"
        for call in message.calls:
            yield f"{who}: → {call.name}({arguments(call)})"


async def talk_by_lines(conversation: Conversation, ask: Callable[[str], str], out: Out) -> None:
    """Have each line answered or obeyed. `ask` waits for the next one, and raises EOFError at the end. In a terminal,
    Ctrl-C stops the answer in progress, and the conversation goes on after an error."""
    lines, loop, in_terminal = _Lines(ask), asyncio.get_running_loop(), isinstance(conversation.screen, TerminalScreen)
    questions, replies = conversation.live.assembly.decisions.questions, set[asyncio.Task[None]]()
    work: asyncio.Task[None] | None = None

    async def reply(question: Question) -> None:
        questions.take_line(question.number, await lines.next() or "")

    def listen(question: Question) -> None:
        conversation.screen.aside(f"{question.text} [y/N]")
        replies.add(asyncio.create_task(reply(question)))

    def stop() -> None:
        if work is None or not work.cancel():
            conversation.screen.aside("Ctrl-D ends the conversation")

    questions.listeners.append(listen)
    if in_terminal:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        while (entry := await lines.next()) is not None and entry.strip() not in ("/quit", "/exit"):
            if not entry.strip():
                continue
            work = asyncio.create_task(_take(conversation, entry, out))
            await asyncio.wait({work})
            for waiting in replies:
                waiting.cancel()
            replies.clear()
            try:
                work.result()
            except asyncio.CancelledError:
                conversation.screen.aside("stopped")
            except AgentfwError as error:
                if not in_terminal and not isinstance(error, UsageError):
                    raise
                out.error(error.message, error.fix)
    finally:
        if work is not None and not work.done():
            work.cancel()
            await asyncio.wait({work})
        if in_terminal:
            loop.remove_signal_handler(signal.SIGINT)


async def _take(conversation: Conversation, entry: str, out: Out) -> None:
    if entry.startswith("//") or not entry.startswith("/"):
        await conversation.say(entry.removeprefix("/"))
        return
    for line in await obey(conversation, entry):
        if out.json:
            out.note(line)
        else:
            out.words(f"{line}\n")  # written at once, as the answers are


class _Lines:
    """What is typed, read by a thread for which nobody waits: after Ctrl-C it may read for ever."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask, self._loop = ask, asyncio.get_running_loop()
        self._wanted = SimpleQueue[asyncio.Future[str | None]]()
        self._reading: asyncio.Future[str | None] | None = None
        self._one_at_a_time = asyncio.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self) -> str | None:
        """The next line. None at the end. Whoever is cancelled leaves the line that is being typed to the next."""
        async with self._one_at_a_time:
            if self._reading is None:
                self._reading = self._loop.create_future()
                self._wanted.put(self._reading)
            if (line := await asyncio.shield(self._reading)) is not None:
                self._reading = None
            return line

    def _read(self) -> None:
        with suppress(RuntimeError):  # the loop may be closed by then
            while True:
                wanted, parts = self._wanted.get(), list[str]()
                with suppress(EOFError):
                    parts.append(self._ask("> "))
                    while parts[-1].endswith("\\"):
                        parts[-1] = parts[-1][:-1]
                        parts.append(self._ask("  "))
                self._loop.call_soon_threadsafe(wanted.set_result, "\n".join(parts) if parts else None)


def from_pipe(source: IO[str]) -> Callable[[str], str]:
    """Asks a file or pipe for its lines."""

    def ask(prompt: str) -> str:
        if not (line := source.readline()):
            raise EOFError
        return line.rstrip("\r\n")

    return ask


@contextmanager
def from_terminal(history: Path) -> Iterator[Callable[[str], str]]:
    """Asks a person, who can recall what was typed before with the arrow keys."""
    import readline
    import termios

    make_private(history)
    with suppress(OSError):  # libedit doesn't read an empty file
        readline.read_history_file(history)

    def ask(prompt: str) -> str:
        try:
            line = input(prompt)
        except EOFError:
            sys.stdout.write("\n")
            raise
        readline.write_history_file(history)
        return line

    as_it_was = termios.tcgetattr(sys.stdin)
    try:
        yield ask
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, as_it_was)  # a thread may still be reading a line
