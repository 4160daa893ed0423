"""Chooses the replica for each request of a pool, and makes requests wait while all replicas are busy.

A request is never given up because the pool is busy: leaving long ones out would bias what is learned from. It goes to
the replica with the fewest in progress, and all requests of a task or session to one, which has cached their beginning.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass

_REMEMBERED = 10_000  # maximum number of tasks whose replica is remembered


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A request's place at a replica."""

    replica: int


class Balancer:
    """The replicas in rotation, and the requests that wait for one of them."""

    def __init__(self, in_flight: int) -> None:
        self.in_flight = in_flight
        self._taken: dict[int, set[Place]] = {}  # the places in use, by replica
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._homes: OrderedDict[str, int] = OrderedDict()  # the replica of each task
        self._failure: Exception | None = None
        self.answered = 0
        """Number of requests that gave their places back."""

    @property
    def rotation(self) -> list[int]:
        return sorted(self._taken)

    def join(self, replica: int) -> None:
        self._taken[replica] = set()
        self._wake(self.in_flight)

    def leave(self, replica: int) -> None:
        self._taken.pop(replica, None)

    def fail(self, error: Exception) -> None:
        """Fail all requests that wait, and all later ones: no replica will come back."""
        self._failure = error
        self._wake(len(self._waiting))

    def forget(self) -> None:
        """The replicas have a new version, so nothing of what they computed is of use."""
        self._homes.clear()

    async def take(self, task: str) -> Place:
        """A place for a request of a task, as soon as a replica has one."""
        waits = False
        while (replica := self._choose(task)) is None:
            if self._failure is not None:
                raise self._failure
            turn = asyncio.get_running_loop().create_future()
            # A request that was woken, and whose place another one took, keeps its turn.
            (self._waiting.appendleft if waits else self._waiting.append)(turn)
            waits = True
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake(1)  # it was this request's turn, which goes to the next one
                raise
        place = Place(replica)
        self._taken[replica].add(place)
        return place

    def give_back(self, place: Place) -> None:
        self._taken.get(place.replica, set()).discard(place)
        self.answered += 1
        self._wake(1)

    def _choose(self, task: str) -> int | None:
        free = [number for number in self.rotation if len(self._taken[number]) < self.in_flight]
        if not free:
            return None
        home = self._homes.get(task)
        chosen = home if home in free else min(free, key=lambda number: (len(self._taken[number]), number))
        if home not in self._taken:
            self._homes[task] = chosen
        self._homes.move_to_end(task)
        if len(self._homes) > _REMEMBERED:
            self._homes.popitem(last=False)
        return chosen

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1
