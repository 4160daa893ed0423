"""One pair of hands: what is in hand, and what comes next.

The one rule: work is done to its end, rest is put aside for anything. What an agent asks for in a new turn takes the
place of what it had asked for and was not begun; within a turn, one thing comes after the other.

    >>> hands, served = Hands(), []
    >>> hands.ask(lambda: hands.take("stir"))
    >>> hands.ask(lambda: served.append("soup"))
    >>> hands.name, served
    ('stir', [])
    >>> hands.next(), served
    ([], ['soup'])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agentfw.errors import InterventionRefused

__all__ = ["Hands"]

_RESTING = ("", "tutor", "wait")
"""What can be in hand while hands are free for something else."""

Begin = Callable[[], object]


class Hands:
    """What is in hand, by name: a piece of work, something that can be put aside, or nothing."""

    def __init__(self) -> None:
        self.name = ""
        self._queue: deque[Begin] = deque()
        self._fresh = True
        """Nothing was asked for yet in this turn."""

    def turned(self) -> None:
        """What is asked for from now on is a new turn's."""
        self._fresh = True

    def ask(self, begin: Begin) -> None:
        """Begin something, now or when hands are free for it."""
        if self._fresh:
            self._queue.clear()
        if self.idle or (self._fresh and self.name in _RESTING):
            begin()
        else:
            self._queue.append(begin)
        self._fresh = False  # unless it was refused: then the next thing is the turn's first

    def ask_first(self, begin: Begin) -> None:
        """Begin something before all else that waits."""
        if self.name in _RESTING:
            begin()
        else:
            self._queue.appendleft(begin)

    def take(self, name: str) -> None:
        self.name = name

    def next(self) -> list[str]:
        """What was in hand is done: begin what comes next, and say what could not be begun."""
        self.name = ""
        refused = []
        while self._queue and not self.name:
            try:
                self._queue.popleft()()
            except InterventionRefused as refusal:
                refused.append(str(refusal))
        return refused

    @property
    def idle(self) -> bool:
        return not self.name

    @property
    def waiting(self) -> bool:
        """Whether something waits to be begun."""
        return bool(self._queue)

    def forget(self) -> None:
        """Nothing that waits will be begun."""
        self._queue.clear()
