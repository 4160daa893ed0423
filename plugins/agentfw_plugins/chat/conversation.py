"""A conversation of a person with a policy: one session of a live run, whose tools are called here.

What is said is on disk before it is answered. When the conversation ends, it is scored and learned from.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentfw import Message, Session
from agentfw.episode import Call
from agentfw.errors import UsageError
from agentfw.printing.out import Out, width_of
from agentfw.runs import LiveRun

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
        self.session.feedback(value, words=words, turn=self._last())
        await self.live.keep(self.session)

    async def correct(self, text: str) -> None:
        """Replace the last answer by the one that should have been given, which is learned from as a correction."""
        turn = self._last()
        place = max(index for index, message in enumerate(self.messages) if message.role == "assistant")
        self.session.feedback(-1.0, correction=text, turn=turn)
        self.messages[place] = replace(self.messages[place], content=text)
        await self.live.keep(self.session)

    async def undo(self) -> str:
        """Take back the last thing said and what was answered. Returns what was said.

        The record keeps both: the conversation goes on from an earlier message.
        """
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
