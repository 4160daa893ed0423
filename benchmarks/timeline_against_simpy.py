"""One queue, five engines: how many events of an M/M/1 queue go by in a second, on our clock and on SimPy's.

The one rule: the same queue everywhere. Every engine gets the same drawn times and must end with the same mean wait.

    python benchmarks/timeline_against_simpy.py
    python benchmarks/timeline_against_simpy.py --customers 50000 --repeats 3 --json

An event is an arrival or a departure. The engines take turns within each repetition, so that a machine that slows down
slows all of them.

    simpy, processes     a process for each customer and a Resource: how SimPy's own documentation writes it
    simpy, lean          no processes: callbacks on timeouts, which is as little as SimPy can do
    timeline             the bare Timeline
    engagement           an Environment in an Engagement: the same, with all that an agent would need
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from agentfw import Agent, Decision, Engagement, Environment, Moment, Task, World
from agentfw.timeline import Timeline
from agentfw_benchmarks import Options, print_aligned, ratios, spread, spread_cells, tell

ARRIVAL_RATE, SERVICE_RATE = 0.8, 1.0


@dataclass
class Draws:
    """When customers come, one after the other, and how long each is served."""

    gaps: Sequence[float]
    services: Sequence[float]

    @classmethod
    def make(cls, customers: int, seed: int) -> Draws:
        generator = random.Random(seed)
        gaps = [generator.expovariate(ARRIVAL_RATE) for _ in range(customers)]
        return cls(gaps, [generator.expovariate(SERVICE_RATE) for _ in range(customers)])


def simpy_processes(draws: Draws) -> float:
    world = simpy.Environment()
    server = simpy.Resource(world, capacity=1)
    waited = 0.0

    def customer(service: float) -> Generator[simpy.Event, Any, None]:
        nonlocal waited
        came = world.now
        with server.request() as request:
            yield request
            waited += world.now - came
            yield world.timeout(service)

    def arrivals() -> Generator[simpy.Event, Any, None]:
        for gap, service in zip(draws.gaps, draws.services, strict=True):
            yield world.timeout(gap)
            world.process(customer(service))

    world.process(arrivals())
    world.run()
    return waited / len(draws.gaps)


@dataclass
class Queue:
    """The queue itself, told how to schedule: the same for every engine that calls back."""

    draws: Draws
    after: Callable[[float, Callable[..., None]], object]
    now: Callable[[], float]
    waiting: deque[int] = field(default_factory=deque)
    came: list[float] = field(default_factory=list)
    busy: bool = False
    waited: float = 0.0

    def begin(self) -> None:
        self.after(self.draws.gaps[0], self.arrive)

    def arrive(self, event: object = None) -> None:
        number = len(self.came)
        self.came.append(self.now())
        if self.busy:
            self.waiting.append(number)
        else:
            self.busy = True
            self.after(self.draws.services[number], self.depart)
        if number + 1 < len(self.draws.gaps):
            self.after(self.draws.gaps[number + 1], self.arrive)

    def depart(self, event: object = None) -> None:
        if not self.waiting:
            self.busy = False
            return
        number = self.waiting.popleft()
        self.waited += self.now() - self.came[number]
        self.after(self.draws.services[number], self.depart)

    @property
    def mean_wait(self) -> float:
        return self.waited / len(self.came)


def simpy_lean(draws: Draws) -> float:
    world = simpy.Environment()

    def after(delay: float, call: Callable[..., None]) -> None:
        world.timeout(delay).callbacks.append(call)

    queue = Queue(draws, after, lambda: world.now)
    queue.begin()
    world.run()
    return queue.mean_wait


def timeline(draws: Draws) -> float:
    line = Timeline(0.0)
    queue = Queue(draws, line.after, lambda: line.now)
    queue.begin()
    line.advance()
    return queue.mean_wait


class QueueWorld(Environment):
    """A queue that nobody does anything about."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def begin(self, world: World, task: Task) -> None:
        self.queue = Queue(self.draws, world.after, lambda: world.now)
        self.queue.begin()


class Idle(Agent):
    async def act(self, moment: Moment) -> Decision:
        return Decision()


def engagement(draws: Draws) -> float:
    world = QueueWorld(draws)
    asyncio.run(Engagement(world, Idle(), max_events=3 * len(draws.gaps)).run(Task(0, seed=0)))
    return world.queue.mean_wait


ENGINES: dict[str, Callable[[Draws], float]] = {
    "simpy, processes": simpy_processes,
    "simpy, lean": simpy_lean,
    "timeline": timeline,
    "engagement": engagement,
}

SIMPY = ("simpy, processes", "simpy, lean")


def measure(customers: int, repeats: int, seed: int) -> dict[str, Any]:
    draws = Draws.make(customers, seed)
    rates: dict[str, list[float]] = {name: [] for name in ENGINES}
    waits: dict[str, float] = {}
    for _ in range(repeats):
        for name, engine in ENGINES.items():
            gc.collect()
            began = time.perf_counter()
            waits[name] = engine(draws)
            rates[name].append(2 * customers / (time.perf_counter() - began))
    for name, wait in waits.items():
        if abs(wait - waits["timeline"]) > 1e-6:
            raise SystemExit(f"{name} played another queue: a mean wait of {wait}, not {waits['timeline']}")
    rows = [
        {"engine": name, **spread(values)}
        | {f"against {other}": statistics.median(ratios(values, rates[other])) for other in SIMPY}
        for name, values in rates.items()
    ]
    return {"events": 2 * customers, "repeats": repeats, "seed": seed, "mean_wait": waits["timeline"], "engines": rows}


def show(result: dict[str, Any]) -> None:
    print(f"M/M/1, {result['events']:,} events, {result['repeats']} repetitions, mean wait {result['mean_wait']:.4f}")
    rows = [
        [row["engine"], *spread_cells(row, ".0f", 1e-3), *(f"{row[f'against {other}']:.2f}" for other in SIMPY)]
        for row in result["engines"]
    ]
    print_aligned(["thousand events a second", "min", "median", "max", "x processes", "x lean"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    customers = (500_000, "each comes and leaves: two events")
    options = Options(__doc__, customers=customers, repeats=5, seed=7).parse_args(arguments)
    return tell(measure(options.customers, options.repeats, options.seed), options.json, show)


if __name__ == "__main__":
    main()
