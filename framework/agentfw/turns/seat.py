"""What an engagement and its world share while an episode is played: the clock, the record and the work in progress.

An `Engagement` owns the seat and decides when the agent is shown something. The environment gets a `SeatWorld`, the
implementation of the protocol `World`. Several seats can share a timeline and an episode (see `agentfw.turns.nested`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from ..boundary.coroutines import not_awaitable
from ..episode import Episode, Event, Measure, Observation
from ..errors import InterventionRefused
from ..seeds import Seeds
from ..timeline import Scheduled, Time, Timeline, Work


class Seat:
    """One agent's place on a timeline. The callbacks are the engagement's."""

    def __init__(
        self,
        timeline: Timeline,
        episode: Episode,
        name: str,
        *,
        deliver: Callable[[Observation], object],
        refuse: Callable[[str, InterventionRefused, str], object],
        end: Callable[[str, Mapping[str, float]], object],
        released: Callable[[TrackedWork], object],
    ) -> None:
        self.timeline, self.episode, self.name = timeline, episode, name
        self.deliver, self.refuse, self.end, self.released = deliver, refuse, end, released
        self.works: dict[int, TrackedWork] = {}
        """The world's and the tools' work in progress, by number."""
        self.holding: set[TrackedWork] = set()
        """Work that keeps the agent busy."""
        self.call = ""
        """Id of the call that is being carried out."""
        self.round = self.rounds = 0
        self.over = False

    def note(self, kind: str, name: str, data: dict[str, Any] | None = None) -> None:
        self.episode.events.append(Event(self.timeline.now, kind, name, data or {}, self.name))

    def work(
        self, name: str, duration: Time, finished: Callable[[Any], object] | None = None, *, holds: bool
    ) -> TrackedWork:
        """Begin work that the agent can see in progress."""
        work = TrackedWork(self, name, duration, finished, holds=holds)
        self.works[work.number] = work
        return work

    def changed(self, work: TrackedWork, state: str) -> None:
        """Record a change of a work, and tell the engagement if the work no longer holds the agent."""
        self.note("work", work.name, {"id": work.number, "state": state, "spent": work.spent, "holds": work.holds})
        if work.done or work.cancelled:
            self.works.pop(work.number, None)
        if not work.holds:
            return
        if work.running:
            self.holding.add(work)
        else:
            self.holding.discard(work)
            self.released(work)


class TrackedWork(Work):
    """Work whose changes are events in the record, and whose end may free the agent."""

    __slots__ = ("_call", "_seat", "holds", "number")

    def __init__(
        self, seat: Seat, name: str, duration: Time, finished: Callable[[Any], object] | None, *, holds: bool
    ) -> None:
        super().__init__(seat.timeline, name, duration, finished)
        self._seat, self.holds, self._call = seat, holds, seat.call
        self.number = len(seat.episode.events)
        seat.changed(self, "started")

    def interrupt(self) -> None:
        if self.running:
            super().interrupt()
            self._seat.changed(self, "interrupted")

    def resume(self) -> None:
        if not (self.running or self.done or self.cancelled):
            super().resume()
            self._seat.changed(self, "resumed")

    def cancel(self) -> None:
        if not (self.done or self.cancelled):
            Work.interrupt(self)
            self.cancelled = True
            self._seat.changed(self, "cancelled")

    def complete(self) -> None:
        if not (self.done or self.cancelled):
            finished, self._finished = self._finished, None
            super().complete()
            self._seat.changed(self, "finished")
            if finished is not None:
                try:
                    not_awaitable(finished(self))
                except InterventionRefused as refusal:  # an action that takes time is refused when it is done
                    self._seat.refuse(self.name, refusal, self._call)


class SeatWorld:
    """The `World` that an environment gets."""

    def __init__(self, seat: Seat, seeds: Seeds) -> None:
        line = seat.timeline
        self._seat, self.seeds = seat, seeds
        self.timeline, self.episode, self.seat = line, seat.episode, seat.name
        self.at, self.after, self.cancel = line.at, line.after, line.cancel
        self._generators: dict[str, random.Random] = {}
        if self.seat:
            self.at, self.after = self._at_seat, self._after_seat

    def _at_seat(self, time: Time, call: Callable[[], object]) -> Scheduled:
        return self.timeline.at(time, lambda: self._seat.over or call())

    def _after_seat(self, delay: Time, call: Callable[[], object]) -> Scheduled:
        """The clock is shared: once this world is over, what it scheduled no longer happens."""
        return self.timeline.after(delay, lambda: self._seat.over or call())

    @property
    def now(self) -> Time:
        return self.timeline.now

    def random(self, name: str) -> random.Random:
        """The generator of this name. It is made once: a new one would draw the same numbers again."""
        found = self._generators.get(name)
        if found is None:
            found = self._generators[name] = self.seeds.random(name)
        return found

    def work(
        self, name: str, duration: Time, finished: Callable[[Work], object] | None = None, *, holds: bool = True
    ) -> Work:
        return self._seat.work(name, duration, finished, holds=holds)

    def observe(self, name: str, data: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        self._seat.deliver(Observation(self.timeline.now, name, data or {}, text))

    def utility(self, value: float, reason: str) -> None:
        self.episode.utility += value
        self._seat.note("utility", reason, {"value": value})

    def measure(self, name: str, value: float) -> None:
        self.episode.measures.append(Measure(name, value, self.timeline.now, self._seat.round))

    def round(self, number: int, of: int) -> None:
        self._seat.round, self._seat.rounds = number, of
        self._seat.note("round", str(number), {"of": of})

    def finish(self, **outcome: float) -> None:
        self._seat.end("finished", outcome)
