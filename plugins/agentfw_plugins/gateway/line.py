"""Who is answered next: a line with a bound, in which no client waits for another's share.

At most so many answers are given at once. The other requests wait, and clients take turns, however many requests each
of them has in the line. When the line is full, the client with the most requests in it loses its last one.

    line = Line(at_once=32, waiting=1000, patience=60)
    async with line.place("ada"):
        ...     # ask the policy
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..protocols import BadRequest

__all__ = ["Line"]

_LONGEST_ADVICE = 60  # seconds


class Line:
    """The line in front of a policy."""

    def __init__(self, *, at_once: int = 64, waiting: int = 1000, patience: float = 60.0) -> None:
        self.at_once, self.waiting, self.patience = at_once, waiting, patience
        self.served = Counter[str]()
        """Number of answers in progress, by client."""
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """The waiting requests of each client. The client whose turn it is comes first."""
        self._seconds = 1.0
        """About how long an answer takes."""

    @property
    def length(self) -> int:
        """Number of requests that wait."""
        return sum(map(len, self._queues.values()))

    def of(self, client: str) -> int:
        """Number of requests of this client, those that wait included."""
        return self.served[client] + len(self._queues.get(client, ()))

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Wait for a place. Raises BadRequest (503) if there is none in time."""
        if self.served.total() < self.at_once:
            self.served[client] += 1
        else:
            await self._wait(client)
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds += 0.1 * (time.monotonic() - began - self._seconds)
            self._leave(client)

    async def _wait(self, client: str) -> None:
        if self.length >= self.waiting:
            longest = max(self._queues, key=lambda one: len(self._queues[one]), default=client)
            if len(self._queues.get(longest, ())) <= len(self._queues.get(client, ())) + 1:
                raise self._busy("the line is full")
            self._queues[longest].pop().set_exception(self._busy("the line is full"))
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        try:
            async with asyncio.timeout(self.patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(client)  # its turn came at the same moment
            elif turn in self._queues.get(client, ()):
                self._queues[client].remove(turn)
                self._forget(client)
            if isinstance(error, TimeoutError):
                raise self._busy(f"no place became free within {self.patience:g} s") from None
            raise

    def _leave(self, client: str) -> None:
        self.served[client] -= 1
        if not self.served[client]:
            del self.served[client]
        while self._queues and self.served.total() < self.at_once:
            following = next(iter(self._queues))
            queue = self._queues.pop(following)
            turn = queue.popleft()
            if queue:  # its next request waits until the other clients have had their turn
                self._queues[following] = queue
            if not turn.done():
                self.served[following] += 1
                turn.set_result(None)

    def _forget(self, client: str) -> None:
        if not self._queues[client]:
            del self._queues[client]

    def _busy(self, why: str) -> BadRequest:
        seconds = math.ceil(self._seconds * (self.length + 1) / self.at_once)
        advice = min(max(1, seconds), _LONGEST_ADVICE)
        return BadRequest(f"this server is busy: {why}", 503, code="server_busy", headers={"retry-after": str(advice)})
