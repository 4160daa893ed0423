"""Questions to a person, asked by a hook before a tool is called.

Whoever can ask a person listens: the terminal that a run was started in, a chat, the pages of a gateway. The first
answer counts. Where nobody listens, or nobody answers in time, the answer is no.

    allowed, how = await questions.ask("Send this mail?", seconds=300)
    questions.answer(number, allow=True)
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Question:
    """One question that is open."""

    number: int
    text: str
    user: str = ""
    """Whose conversation it belongs to."""
    answered: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Questions:
    """The questions of a run."""

    def __init__(self) -> None:
        self.open: dict[int, Question] = {}
        """By number."""
        self.listeners: list[Callable[[Question], object]] = []
        """Called with each new question, in the event loop's thread. They must not wait."""
        self._asked = 0

    async def ask(self, text: str, user: str, seconds: float) -> tuple[bool, str]:
        """Whether a person allows it, and in words how that was decided."""
        if not self.listeners:
            return False, "there is nobody to ask"
        self._asked += 1
        question = self.open[self._asked] = Question(self._asked, text, user)
        try:
            for listen in self.listeners:
                listen(question)
            allowed = await asyncio.wait_for(question.answered, seconds)
        except TimeoutError:
            return False, f"nobody has answered within {seconds:g} s"
        finally:
            del self.open[question.number]
        return allowed, "a person said yes" if allowed else "a person said no"

    def take_line(self, number: int, line: str) -> bool:
        """Answer a question with a line that a person typed, in which anything but `y` or `yes` is a no."""
        return self.answer(number, allow=line.strip().lower() in ("y", "yes"))

    def answer(self, number: int, *, allow: bool) -> bool:
        """Answer a question. False if it isn't open any more."""
        question = self.open.get(number)
        if question is None or question.answered.done():
            return False
        question.answered.set_result(allow)
        return True


def ask_in_terminal(questions: Questions) -> None:
    """Ask in the terminal of this process, if it has one. What isn't a yes is a no."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    turn = threading.Lock()

    def listen(question: Question) -> None:
        loop = asyncio.get_running_loop()

        def ask() -> None:
            with turn:
                if question.answered.done():
                    return
                sys.stderr.write(f"{question.text} [y/N]\n")  # a whole line, which the live picture lets through
                sys.stderr.flush()
                line = sys.stdin.readline()
            loop.call_soon_threadsafe(questions.take_line, question.number, line)

        threading.Thread(target=ask, name="agentfw-question", daemon=True).start()

    questions.listeners.append(listen)
