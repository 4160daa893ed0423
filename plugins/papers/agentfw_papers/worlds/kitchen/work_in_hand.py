"""One pair of hands: what is in hand, and what comes next.

Work is always finished; resting can be interrupted. A new turn replaces what an earlier turn had requested and was not
yet begun. Within a turn, requests are done in order.

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

_RESTING = ("", "tutor", "wait")
"""Activities that leave the hands free for something else."""

Begin = Callable[[], object]


class Hands:
    """Name of what is in hand: work, something that can be interrupted, or nothing."""

    def __init__(self) -> None:
        self.name = ""
        self._queue: deque[Begin] = deque()
        self._fresh = True
        """True until something is requested in this turn."""

    def turned(self) -> None:
        """Begin a new turn."""
        self._fresh = True

    def ask(self, begin: Begin) -> None:
        """Begin something now, or when the hands are free for it."""
        if self._fresh:
            self._queue.clear()
        if self.idle or (self._fresh and self.name in _RESTING):
            begin()
        else:
            self._queue.append(begin)
        self._fresh = False  # unless it was refused: then the next request is the turn's first

    def ask_first(self, begin: Begin) -> None:
        """Begin something before all other requests."""
        if self.name in _RESTING:
            begin()
        else:
            self._queue.appendleft(begin)

    def take(self, name: str) -> None:
        self.name = name

    def next(self) -> list[str]:
        """The work in hand is done: begin the next request. Returns what could not be begun."""
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
        """Whether requests are waiting."""
        return bool(self._queue)

    def forget(self) -> None:
        """Drop all waiting requests."""
        self._queue.clear()
