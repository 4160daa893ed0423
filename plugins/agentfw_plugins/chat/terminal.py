"""A conversation in a terminal: answers are streamed above the line that one types in, also while the agent works.

Enter sends, Alt-Enter begins a new line, the arrow keys go through what was said before. Ctrl-C stops the answer in
progress, and Ctrl-D ends the conversation.
"""

from __future__ import annotations

import asyncio
import shutil
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentfw.errors import AgentfwError, MissingExtraError
from agentfw.printing.out import Out
from agentfw.runs import make_private

from .commands import COMMANDS, END, obey, said
from .conversation import Conversation

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.patch_stdout import patch_stdout
except ImportError as error:
    raise MissingExtraError("the conversation in a terminal", "chat", module=error.name or "") from None

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyPressEvent


class TerminalScreen:
    """Whole lines go above the prompt. The line that is being written is the first line of the prompt."""

    def __init__(self, out: Out) -> None:
        self.out = out
        self.line = ""
        self.works = False
        self.prompt: PromptSession[str] | None = None

    def words(self, piece: str) -> None:
        *lines, self.line = (self.line + piece).split("\n")
        for line in lines:
            self.out.line(_wrapped(line))
        self.redraw()

    def done(self) -> None:
        self.out.line(_wrapped(self.line))
        self.line = ""
        self.redraw()

    def aside(self, text: str) -> None:
        self.out.line(self.out.style(text, "dim"))

    def redraw(self) -> None:
        if self.prompt is not None:
            self.prompt.app.invalidate()

    def message(self) -> StyleAndTextTuples:
        begun: StyleAndTextTuples = [("", f"{_wrapped(self.line)}\n")] if self.line else []
        return [*begun, ("bold", "… " if self.works else "> ")]


def _wrapped(line: str) -> str:
    """A line as lines of the terminal. The terminal itself would break words at its edge."""
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False) or [""]
    )


class _Talk:
    """Reads lines, and has them answered one after the other."""

    def __init__(self, conversation: Conversation, screen: TerminalScreen) -> None:
        self.conversation, self.screen, self.out = conversation, screen, screen.out
        self.waiting: list[str] = []
        self.work: asyncio.Task[None] | None = None
        self.questions = conversation.live.assembly.decisions.questions
        self.questions.listeners.append(lambda question: screen.aside(f"{question.text} [y/N]"))

    def take(self, line: str) -> None:
        if self.questions.open:
            self.questions.take_line(min(self.questions.open), line)
            return
        self.waiting.append(line)
        if self.work is None:
            self._next()

    def _next(self) -> None:
        self.screen.works = bool(self.waiting)
        self.work = asyncio.create_task(self._handle(self.waiting.pop(0))) if self.waiting else None
        if self.work is not None:
            self.work.add_done_callback(lambda _: self._next())
        self.screen.redraw()

    async def _handle(self, line: str) -> None:
        words = said(line)
        try:
            if words is None:
                for shown in await obey(self.conversation, line):
                    self.out.line("\n".join(map(_wrapped, shown.split("\n"))))
            else:
                await self.conversation.say(words, self._more)
        except AgentfwError as error:
            self.out.error(error.message, error.fix)
        except asyncio.CancelledError:
            self.out.line(self.out.style("stopped", "dim"))

    def _more(self) -> list[str]:
        """What was said meanwhile, up to the next command."""
        found = list[str]()
        while self.waiting and (words := said(self.waiting[0])) is not None:
            found.append(words)
            del self.waiting[0]
        return found

    def stop(self) -> bool:
        """Stop the answer in progress. False if there is none."""
        return self.work is not None and self.work.cancel()

    async def finish(self) -> None:
        """Wait until everything that was typed is done."""
        while self.work is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self.work)
            await asyncio.sleep(0)


async def talk_in_terminal(conversation: Conversation, screen: TerminalScreen, history: Path) -> None:
    """Read and answer until the person leaves."""
    talk = _Talk(conversation, screen)
    screen.out.hand_over()  # the prompt draws on it, and has whatever else is printed above itself
    make_private(history)
    names = [f"/{name}" for name in (*COMMANDS, "quit")]
    prompt: PromptSession[str] = PromptSession(
        screen.message,
        multiline=True,
        key_bindings=_keys(),
        history=FileHistory(str(history)),
        completer=WordCompleter(names, sentence=True),
        complete_while_typing=False,
        prompt_continuation="  ",
    )
    screen.prompt = prompt
    with patch_stdout(raw=True):
        while True:
            try:
                line = (await prompt.prompt_async()).strip()
            except KeyboardInterrupt:
                if not talk.stop():
                    screen.aside("Ctrl-D ends the conversation")
                continue
            except EOFError:
                break
            if line in END:
                break
            if line:
                talk.take(line)
        await talk.finish()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
