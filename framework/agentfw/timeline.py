"""One clock for an agent and its world: events scheduled at times, and work that takes time.

Time never runs back. Times are integers (ticks) or floats. The clock jumps to the next event.

    >>> line = Timeline()
    >>> heard = []
    >>> _ = line.after(3, lambda: heard.append(line.now))
    >>> writing = line.work("write", 10)
    >>> line.advance()          # to the end of everything that was scheduled
    >>> heard, writing.done
    ([3], True)

Events at one time run in the order in which they were scheduled. `after_instant` asks to be awaited once an instant is
over. `run` gives way to the event loop every two thousand events, so that a world that never ends can be interrupted: a
count decides and not a wall clock, so that episodes interleave in the same way on every machine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import repeat
from math import inf
from types import CoroutineType
from typing import Any

from .errors import TimelineError

__all__ = ["Scheduled", "Time", "Timeline", "Work"]

Time = float
"""A moment: an int in a world of ticks, a float elsewhere. (For a type checker an int is a float.)"""

Scheduled = list[object]
"""An event that is due: [time, order, call]. A list, so that `Timeline.cancel` can take it back in place."""

MAX_EVENTS = 200_000
"""Default limit of the events of an episode: each may leave a record, and 200,000 records take some 130 MB."""

MAX_EVENTS_PER_INSTANT = 20_000
"""Default limit of the events at one time: `after(0, self.tick)` would go on for ever."""

_SLICE = 2000


class Timeline:
    """The clock and what is due on it."""

    def __init__(
        self, start: Time = 0, *, max_events: float = inf, max_events_per_instant: float = MAX_EVENTS_PER_INSTANT
    ) -> None:
        self.now: Time = start
        self.stopped = False
        self.max_events, self.max_events_per_instant = max_events, max_events_per_instant
        self._ran = self._instant = 0  # how many events have run: in all, and before this instant began
        self._due: list[Scheduled] = []
        self._order = 0
        self._settling: deque[Callable[[], Awaitable[None]]] = deque()
        self._leaving: list[Callable[[], object]] = []

    def at(self, time: Time, call: Callable[[], object]) -> Scheduled:
        """Call at `time`, which may be now but not earlier."""
        if not self.now <= time < inf:
            raise TimelineError(
                f"can't schedule a call at {time}: it is {self.now} now",
                fix="schedule at a finite time that has not passed; leave out what never happens",
            )
        self._order = order = self._order + 1
        entry: Scheduled = [time, order, call]
        heappush(self._due, entry)
        return entry

    def after(self, delay: Time, call: Callable[[], object]) -> Scheduled:
        """Call after `delay`, which may be zero."""
        if not 0 <= delay < inf:
            wrong = f"can't schedule a call after a delay of {delay}"
            raise TimelineError(wrong, fix="a delay is zero or more, and finite; leave out what never happens")
        self._order = order = self._order + 1
        entry: Scheduled = [self.now + delay, order, call]
        heappush(self._due, entry)
        return entry

    @staticmethod
    def cancel(entry: Scheduled) -> None:
        """Cancel a scheduled call. Cancelling a call that has run does nothing."""
        entry[2] = None

    def after_instant(self, call: Callable[[], Awaitable[None]]) -> None:
        """Await `call` when everything that is due now has run, and before time moves on."""
        self._settling.append(call)

    def work(self, name: str, duration: Time, finished: Callable[[Work], object] | None = None) -> Work:
        """Start work that takes `duration`. It can be interrupted and resumed."""
        return Work(self, name, duration, finished)

    def stop(self) -> None:
        """Stop the clock: nothing else that is scheduled will run."""
        self.stopped = True
        # Emptied in place, so that whoever is running it needn't look at `stopped` at each event; what is scheduled
        # from now on goes to another list.
        due, self._due = self._due, []
        due.clear()
        leaving, self._leaving = self._leaving, []
        for call in leaving:
            call()

    def when_stopped(self, call: Callable[[], object]) -> None:
        """Register a call for when the clock is stopped. Calls run in the order of their registration."""
        self._leaving.append(call)

    def next_time(self) -> Time:
        """When the next call is due; infinity when none is."""
        due = self._due
        while due and due[0][2] is None:
            heappop(due)
        return due[0][0] if due else inf  # type: ignore[return-value]

    def advance(self, until: Time = inf) -> None:
        """Run what is due up to and including `until`, but stop short when somebody waits for this instant to settle.

        The clock ends at the last event that ran, or at `until` when that is finite and nothing else is due.
        """
        while self._run_slice(until):
            pass

    async def run(self, until: Time = inf) -> None:
        """Run what is due up to and including `until`, awaiting whoever waits for an instant to settle."""
        settling = self._settling
        while not self.stopped:
            if self._run_slice(until):
                await asyncio.sleep(0)
            elif not settling:
                return
            # One, and then again what has become due at this same instant: the next one waits for that too.
            elif not self.stopped:
                await settling.popleft()()

    def _run_slice(self, until: Time) -> bool:
        """Run what is due, up to the end of a slice; True where it stopped for that."""
        if self.stopped:
            return False
        due, settling, began = self._due, self._settling, self.now
        now, popped = began, self._order - len(due)
        # One more than may run: whoever gets there is over a limit, and nothing has to be counted event by event.
        room = min(
            _SLICE - self._ran % _SLICE,
            self.max_events + 1 - self._ran,
            self.max_events_per_instant + 1 - (self._ran - self._instant),
        )
        more = True
        for _ in repeat(None, int(room)):
            if not due:
                more = False
                break
            time, _, call = due[0]
            if call is None:
                heappop(due)
                continue
            if time > now:  # type: ignore[operator]
                if settling or time > until:  # type: ignore[operator]
                    more = False
                    break
                self.now = now = time  # type: ignore[assignment]
            heappop(due)
            answer = call()  # type: ignore[operator]
            if type(answer) is CoroutineType:
                answer.close()
                raise TimelineError(
                    f"what was scheduled at {now} is a coroutine, which nobody awaits", fix="schedule a plain function"
                )
        if self.stopped:
            return False
        self._ran += self._order - len(due) - popped
        if now > began:
            self._instant = self._ran  # counted from where it is noticed, which is soon enough
        if not more and not settling and now < until < inf:
            self.now = until
        if more and self._ran - self._instant > self.max_events_per_instant:
            raise TimelineError(
                f"more than {self.max_events_per_instant:,} events are due at one instant, {self.now}",
                fix="schedule what repeats with a delay above zero, or raise max_events_per_instant",
            )
        if more and self._ran > self.max_events:
            wrong = f"it goes on after {self.max_events:,} events, at {self.now}"
            raise TimelineError(wrong, fix="call world.finish() at the end, schedule fewer events, or raise max_events")
        return more


class Work:
    """Work that takes time. When it is interrupted, it keeps its progress and can be resumed.

    >>> line = Timeline()
    >>> letter = line.work("write", 10)
    >>> _ = line.after(4, letter.interrupt)
    >>> _ = line.after(9, letter.resume)
    >>> line.advance()
    >>> line.now, letter.spent, letter.done
    (15, 10, True)
    """

    def __init__(
        self,
        line: Timeline,
        name: str,
        duration: Time,
        finished: Callable[[Any], object] | None = None,
        changed: Callable[[Work, str], object] = lambda work, state: None,
    ) -> None:
        """`changed` is told each new state: started, interrupted, resumed, cancelled or finished."""
        if not duration >= 0:
            wrong = f'the work "{name}" can\'t take {duration}'
            raise TimelineError(wrong, fix="a duration is zero or more; infinity is open-ended")
        self.name, self.duration, self.started = name, duration, line.now
        self.done = self.cancelled = self.running = False
        self._line, self._finished, self._changed = line, finished, changed
        self._kept: Time = 0
        self._due: Scheduled | None = None
        self._go("started")

    @property
    def spent(self) -> Time:
        """How much of the duration has passed."""
        if not self.running:
            return self._kept
        # min: 0.1 + (0.3 - 0.1) is a little more than 0.3, and nobody has done more than all of it.
        return min(self.duration, self._kept + (self._line.now - self._since))

    def interrupt(self) -> None:
        """Suspend it and keep the progress. Does nothing if it isn't running."""
        if self.running:
            self._kept = self.spent
            self._rest("interrupted")

    def resume(self) -> None:
        """Continue where it was interrupted. Does nothing if it is running, done or cancelled."""
        if not (self.running or self.done or self.cancelled):
            self._go("resumed")

    def cancel(self) -> None:
        """Abandon it. Its progress stays readable in `spent`."""
        if not (self.done or self.cancelled):
            self._kept, self.cancelled = self.spent, True
            self._rest("cancelled")

    def complete(self) -> None:
        """Complete it now, as open-ended work must be. Other work completes by itself."""
        if not (self.done or self.cancelled):
            self._kept, self.done = self.spent if self.duration == inf else self.duration, True
            self._rest("finished")
            if self._finished is not None:
                self._finished(self)

    def _go(self, state: str) -> None:
        self.running = True
        self._since: Time = self._line.now
        if self.duration < inf:
            self._due = self._line.after(max(0, self.duration - self._kept), self.complete)
        self._changed(self, state)

    def _rest(self, state: str) -> None:
        self.running = False
        if self._due is not None:
            self._line.cancel(self._due)
            self._due = None
        self._changed(self, state)
