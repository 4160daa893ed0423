"""What a person can type in a conversation besides words: `/good`, `/why` and so on.

A line that begins with a slash is a command. `//` at the beginning stands for a slash.

    answers = await obey(conversation, "/bad too long")     # lines to show

A conversation over standard input and output, line by line, so that it can be scripted.

A line that ends with a backslash goes on in the next one.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import IO, NamedTuple

from agentfw.errors import UsageError
from agentfw.printing.out import Out
from agentfw.runs import Question

from .conversation import Conversation

END = ("/quit", "/exit")

Lines = AsyncIterator[str]


class Command(NamedTuple):
    """One command. `act` yields the lines to show."""

    usage: str
    summary: str
    act: Callable[[Conversation, str], Lines]
    needs_words: bool = False


def said(line: str) -> str | None:
    """What a line says. None if it is a command."""
    if line.startswith("//"):
        return line[1:]
    return None if line.startswith("/") else line


async def obey(conversation: Conversation, line: str) -> list[str]:
    """Carry out a command. Returns the lines to show."""
    name, _, words = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(
            f"there is no command /{name}", fix=f"known: {', '.join(f'/{one}' for one in COMMANDS)}, /quit"
        )
    words = words.strip()
    if command.needs_words and not words:
        raise UsageError(f"/{name} needs words", fix=command.usage)
    return [shown async for shown in command.act(conversation, words)]


async def _good(conversation: Conversation, words: str) -> Lines:
    await conversation.rate(1.0, words)
    yield "noted: good"


async def _bad(conversation: Conversation, words: str) -> Lines:
    await conversation.rate(-1.0, words)
    yield "noted: bad" if words else "noted: bad; `/bad WHY` says why"


async def _edit(conversation: Conversation, words: str) -> Lines:
    await conversation.correct(words)
    yield "noted: the conversation goes on with this answer"


async def _undo(conversation: Conversation, words: str) -> Lines:
    yield f"taken back: {await conversation.undo()}"


async def _remember(conversation: Conversation, words: str) -> Lines:
    memories = conversation.live.assembly.memories
    await conversation.remember(words)
    yield "noted: it is learned when the conversation ends" if memories else "noted; there is no --memory to learn it"


async def _forget(conversation: Conversation, words: str) -> Lines:
    deleted = {name: count for name, count in (await conversation.forget()).items() if count}
    counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in deleted.items())
    yield f"deleted from the memories: {counts or 'nothing was there'}"
    yield f"nothing said so far is learned again; the words themselves stay in {conversation.live.folder.path}"


async def _why(conversation: Conversation, words: str) -> Lines:
    recalled = conversation.recalled()
    for one in recalled:
        yield f"{one['score']:.2f}  {one['text']}"
        reasons = {name: why for name, why in one["why"].items() if why and isinstance(why, (str, int, float))}
        if reasons:
            numbers = {name: f"{why:.2f}" if isinstance(why, float) else why for name, why in reasons.items()}
            yield "      " + "  ".join(f"{name} {why}" for name, why in numbers.items())
    if not recalled:
        yield "nothing was remembered in this conversation"


async def _history(conversation: Conversation, words: str) -> Lines:
    is_empty = True
    for message, stopped in conversation.history():
        is_empty = False
        who = {"user": "you", "assistant": "agent"}.get(message.role, message.role) + (" (stopped)" if stopped else "")
        if message.content:
            yield f"{who}: {message.content}"
        for call in message.calls:
            yield f"{who}: → {call.name}({json.dumps(dict(call.arguments), ensure_ascii=False)})"
    if is_empty:
        yield "nothing was said yet"


async def _new(conversation: Conversation, words: str) -> Lines:
    reward = await conversation.end()
    yield "a new conversation" if reward is None else f"ended with reward {reward:g}; a new conversation"


async def _help(conversation: Conversation, words: str) -> Lines:
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        yield f"{command.usage:{width}}  {command.summary}"
    yield f"{'/quit':{width}}  End the conversation, and leave."


COMMANDS = {
    "good": Command("/good [WHY]", "Rate the last answer as good.", _good),
    "bad": Command("/bad [WHY]", "Rate the last answer as bad.", _bad),
    "edit": Command("/edit ANSWER", "Replace the last answer by the one that should have been given.", _edit, True),
    "undo": Command("/undo", "Take back the last thing you said, and its answer.", _undo),
    "remember": Command("/remember TEXT", "Let the memories learn this.", _remember, True),
    "forget": Command("/forget", "Delete what the memories know of you.", _forget),
    "why": Command("/why", "Show what was remembered, and why.", _why),
    "history": Command("/history", "Show the conversation.", _history),
    "new": Command("/new", "End the conversation, so that it is learned from, and begin another.", _new),
    "help": Command("/help", "Show the commands.", _help),
}


class LineScreen:
    """Answers on stdout as they come, and everything else on stderr. With --json nothing is shown."""

    def __init__(self, out: Out) -> None:
        self.out = out

    def words(self, piece: str) -> None:
        if not self.out.json:
            self.out.words(piece)

    def done(self) -> None:
        self.words("\n")  # written at once, for whoever reads line by line

    def aside(self, text: str) -> None:
        if not self.out.json:
            self.out.note(text)


async def talk_by_lines(conversation: Conversation, source: IO[str], out: Out) -> None:
    """Read and answer line by line until the end of the input."""
    typed = _typed(source)
    questions, replies = conversation.live.assembly.decisions.questions, set[asyncio.Task[None]]()

    async def reply(question: Question) -> None:
        entry = await typed.get()
        if entry is None:
            typed.put_nowait(None)
        questions.take_line(question.number, entry or "")

    def listen(question: Question) -> None:
        conversation.screen.aside(f"{question.text} [y/N]")
        replies.add(asyncio.create_task(reply(question)))

    questions.listeners.append(listen)
    while (entry := await typed.get()) is not None:
        if entry.strip() in END:
            return
        if not entry.strip():
            continue
        words = said(entry)
        if words is not None:
            await conversation.say(words)
            continue
        try:
            lines = await obey(conversation, entry)
        except UsageError as error:
            out.error(error.message, error.fix)
            continue
        for line in lines:
            if out.json:
                out.note(line)
            else:
                out.words(f"{line}\n")


def _typed(source: IO[str]) -> asyncio.Queue[str | None]:
    """What is read, and None at the end. Nobody waits for the thread: after Ctrl-C it may read for ever."""
    typed: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(RuntimeError):  # the loop may be closed by then
            for entry in _entries(source):
                loop.call_soon_threadsafe(typed.put_nowait, entry)
            loop.call_soon_threadsafe(typed.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    return typed


def _entries(source: IO[str]) -> Iterator[str]:
    parts = list[str]()
    for line in source:
        text = line.rstrip("\r\n")
        if text.endswith("\\"):
            parts.append(text[:-1])
            continue
        yield "\n".join([*parts, text])
        parts.clear()
    if parts:
        yield "\n".join(parts)
