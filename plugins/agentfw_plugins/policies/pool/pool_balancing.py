"""Chooses the replica for each request of a pool, and makes requests wait while all replicas are busy.

A request is never given up because the pool is busy: leaving long ones out would bias what is learned from.

    balancer = Balancer("least", affinity=True, in_flight=64)
    balancer.join(0)
    place = await balancer.take("You are a helpful assistant. ...", task="ana/train/7")
    ...
    balancer.give_back(place)

With `affinity`, all requests of a task go to one replica. The first one goes to the replica that has computed most of
the beginning of its prompt, as long as this isn't so much busier than the others that waiting there takes longer than
computing the beginning anew.

Which replica of a pool has computed the beginning of a prompt before, and has probably still cached it.

    prefixes = Prefixes()
    prefixes.add(blocks_of("You are a helpful assistant. ..."), replica=0)
    prefixes.known(blocks_of("You are a helpful assistant. ..."))         # {0: number of blocks}

The turns of a session, the samples of a task, and sessions about one document begin alike, whatever they are called.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy

Balance = Literal["least", "round_robin"]

_REMEMBERED = 10_000
"""Maximum number of tasks whose replica is remembered."""
_REQUEST = 1
"""Number of blocks of a prompt whose computation is taken to cost as much as one more request in progress."""


@dataclass(slots=True)
class _Load:
    """The requests of one replica."""

    in_flight: int = 0
    busy_since: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """A request's place at a replica."""

    replica: int
    load: _Load
    began: float


class Balancer:
    """The replicas in rotation, and the requests that wait for one of them."""

    def __init__(self, balance: Balance, *, affinity: bool, in_flight: int) -> None:
        self.balance, self.affinity, self.in_flight = balance, affinity, in_flight
        self._loads: dict[int, _Load] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._prefixes = Prefixes()
        self._homes: OrderedDict[str, int] = OrderedDict()
        """The replica of each task."""
        self._last = -1
        self._failure: Exception | None = None
        self._begin_metrics()

    @property
    def rotation(self) -> list[int]:
        """The replicas that get requests."""
        return sorted(self._loads)

    def join(self, replica: int) -> None:
        """Send requests to a replica from now on."""
        self._loads[replica] = _Load()
        self._wake(self.in_flight)

    def leave(self, replica: int) -> None:
        """Send no more requests to a replica."""
        load = self._loads.pop(replica, None)
        self._prefixes.drop(replica)
        if load is not None and load.in_flight:
            self._busy += time.monotonic() - load.busy_since

    def fail(self, error: Exception) -> None:
        """Fail all requests that wait, and all later ones: no replica will come back."""
        self._failure = error
        self._wake(len(self._waiting))

    def forget(self) -> None:
        """The replicas have a new version, so nothing of what they computed is of use."""
        self._prefixes.clear()
        self._homes.clear()

    async def take(self, prompt: str, task: str = "") -> Place:
        """A place for a request, as soon as a replica has one."""
        waits, blocks = False, blocks_of(prompt) if self.affinity else []
        while (replica := self._choose(blocks, task if self.affinity else "")) is None:
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
        self._waits += waits
        load, now = self._loads[replica], time.monotonic()
        if not load.in_flight:
            load.busy_since = now
        load.in_flight += 1
        return Place(replica, load, now)

    def give_back(self, place: Place) -> None:
        """The request is answered, or goes elsewhere."""
        seconds = time.monotonic() - place.began
        self._seconds.append(seconds)
        load = place.load
        load.in_flight -= 1
        if not load.in_flight and self._loads.get(place.replica) is load:
            self._busy += time.monotonic() - load.busy_since
        self._wake(1)

    def metrics(self) -> dict[str, float]:
        """Figures since the last call."""
        now = time.monotonic()
        for load in self._loads.values():
            if load.in_flight:
                self._busy += now - load.busy_since
                load.busy_since = now
        middle, late = numpy.quantile(self._seconds, [0.5, 0.95]) if self._seconds else (0.0, 0.0)
        most = max(1, len(self._loads)) * max(now - self._since, 1e-9)
        found = {
            "requests": len(self._seconds),
            "waits": self._waits,
            "seconds_p50": float(middle),
            "seconds_p95": float(late),
            "busy": min(1.0, self._busy / most),
        }
        self._begin_metrics()
        return found

    def _begin_metrics(self) -> None:
        self._seconds: list[float] = []
        self._waits, self._busy, self._since = 0, 0.0, time.monotonic()

    def _choose(self, blocks: Sequence[int], task: str) -> int | None:
        """A replica with a free place, or None."""
        free = [number for number in self.rotation if self._loads[number].in_flight < self.in_flight]
        if not free:
            return None
        chosen = self._homes[task] if self._homes.get(task) in free else self._best(free, blocks)
        self._last = chosen
        self._prefixes.add(blocks, chosen)
        if task:
            if self._homes.get(task) not in self._loads:
                self._homes[task] = chosen
            self._homes.move_to_end(task)
            if len(self._homes) > _REMEMBERED:
                self._homes.popitem(last=False)
        return chosen

    def _best(self, free: Sequence[int], blocks: Sequence[int]) -> int:
        known = self._prefixes.known(blocks)
        if known:
            worth = {one: known.get(one, 0) - _REQUEST * self._loads[one].in_flight for one in free}
            free = [one for one in free if worth[one] == max(worth.values())]
        if self.balance == "least":
            return min(free, key=lambda number: (self._loads[number].in_flight, number))
        return next((number for number in free if number > self._last), free[0])

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1


BLOCK = 256
"""Characters of a block. A model's server caches blocks of some tokens."""
REMEMBERED = 20_000
"""Number of blocks that are remembered: about as many tokens as a large GPU caches."""


def blocks_of(prompt: str) -> list[int]:
    """Return the blocks of a prompt. Each stands for itself and all before it. What fills no block is left out."""
    texts = (prompt[start : start + BLOCK] for start in range(0, len(prompt) - BLOCK + 1, BLOCK))
    return list(accumulate(texts, lambda before, text: hash((before, text)), initial=0))[1:]


class Prefixes:
    """The blocks that replicas have computed, the latest last."""

    def __init__(self) -> None:
        self._replicas: OrderedDict[int, set[int]] = OrderedDict()

    def known(self, blocks: Sequence[int]) -> dict[int, int]:
        """Return how many of the first blocks each replica has computed, for those that have any."""
        found: dict[int, int] = {}
        for count, block in enumerate(blocks, start=1):
            there = [one for one in self._replicas.get(block, ()) if found.get(one, 0) == count - 1]
            if not there:
                break
            found.update(dict.fromkeys(there, count))
        return found

    def add(self, blocks: Sequence[int], replica: int) -> None:
        """A replica computes these blocks now."""
        for block in reversed(blocks):  # the beginning, which others may have too, is forgotten last
            self._replicas.setdefault(block, set()).add(replica)
            self._replicas.move_to_end(block)
        while len(self._replicas) > REMEMBERED:
            self._replicas.popitem(last=False)

    def drop(self, replica: int) -> None:
        """A replica has lost what it cached."""
        for replicas in self._replicas.values():
            replicas.discard(replica)

    def clear(self) -> None:
        """All replicas have, as after a new version."""
        self._replicas.clear()
