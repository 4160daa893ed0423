"""What a turn costs beside the policy and the environment: everything that agentfw itself does in between.

The one rule: the difference is measured, not guessed. The same calls of the same policy and environment are timed alone
and taken off, and each part is timed in every repetition, one after the other.

    python benchmarks/turn_overhead.py
    python benchmarks/turn_overhead.py --turns 500 --repeats 3 --json

A turn here is a whole one: an observation, a prompt of the last four turns, a call read out of the model's text,
checked against its schema and carried out, and all of it recorded. A run besides tells every plugin of the turn,
through the host: "hook, nobody listens" is what that costs with the plugins that come with agentfw, "one listener"
with one more that does nothing.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from typing import Any, cast

from agentfw import (
    Engagement,
    Environment,
    Episode,
    Generation,
    Host,
    Intervention,
    Moment,
    Policy,
    PolicyAgent,
    Request,
    Task,
    Turn,
    World,
    action,
    hookimpl,
)
from agentfw.testing import fresh_host
from agentfw.turns.parsing import parse_calls
from agentfw_benchmarks import Options, print_aligned, spread, spread_cells, tell

ANSWER = 'Good. <tool_call>{"name": "answer", "arguments": {"choice": 1}}</tool_call>'
LIMIT = 200e-6  # seconds


class Trivia(Environment):
    """Choose."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.left = self.turns
        self.ask()

    def ask(self) -> None:
        self.world.observe("question", {"left": self.left})

    @action
    def answer(self, choice: int) -> None:
        """Choose one."""
        self.left -= 1
        if self.left:
            self.world.after(1, self.ask)
        else:
            self.world.finish()


class Parrot(Policy):
    async def generate(self, request: Request) -> Generation:
        return Generation(ANSWER, count=12)


class Nowhere:
    """A world for the environment alone: nothing is scheduled, nothing is kept."""

    def observe(self, name: str, data: Any = None, *, text: str = "") -> None: ...

    def after(self, delay: float, call: Any) -> Any:
        call()

    def finish(self, **outcome: float) -> None: ...


async def alone(turns: int) -> float:
    """Seconds that the policy and the environment take by themselves, for one turn."""
    policy, environment = Parrot(), Trivia(turns)
    request = Request([], moment=Moment(0))
    environment.begin(cast(World, Nowhere()), Task(0, seed=0))
    began = time.perf_counter()
    for _ in range(turns):
        await policy.generate(request)
        environment.answer(1)
    return (time.perf_counter() - began) / turns


async def engaged(turns: int) -> float:
    engagement = Engagement(Trivia(turns), PolicyAgent(Parrot(), window=4), max_turns=turns + 1)
    began = time.perf_counter()
    episode = await engagement.run(Task(0, seed=0))
    seconds = time.perf_counter() - began
    if len(episode.turns) != turns or any(event.kind == "refused" for event in episode.events):
        raise SystemExit("the episode did not go as it should")
    return seconds / turns


def checked_alone(turns: int) -> float:
    """Seconds to read the call and check it against its schema: a part of the overhead, told apart."""
    environment = Trivia(turns)
    environment.begin(cast(World, Nowhere()), Task(0, seed=0))
    began = time.perf_counter()
    for _ in range(turns):
        call = parse_calls(ANSWER, {"answer"}).calls[0]
        environment.intervene(Intervention(call.name, call.arguments))
    return (time.perf_counter() - began) / turns


class Listener:
    """A plugin that watches every turn and does nothing about it."""

    @hookimpl
    def agentfw_turn(self, episode_id: str, turn: Turn) -> None: ...


def hook(host: Host, turns: int) -> float:
    """Seconds that it takes to tell the plugins of one turn, as a run does."""
    episode, turn = Episode(Task(0, seed=0)), Turn(0, 0, 0)
    began = time.perf_counter()
    for _ in range(turns):
        host.call("agentfw_turn", run=None, episode_id=episode.id, turn=turn)
    return (time.perf_counter() - began) / turns


def measure(turns: int, repeats: int) -> dict[str, Any]:
    nobody, listener = fresh_host(builtins=True), fresh_host(Listener(), builtins=True)
    parts = ("overhead", "of which reading and checking", "hook, nobody listens", "hook, one listener")
    seconds: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(repeats):
        gc.collect()
        direct = asyncio.run(alone(turns))
        figures = (
            asyncio.run(engaged(turns)) - direct,
            checked_alone(turns) - direct,
            hook(nobody, turns),
            hook(listener, turns),
        )
        for part, figure in zip(parts, figures, strict=True):
            seconds[part].append(figure)
    rows: list[dict[str, Any]] = [{"part": part, **spread(values)} for part, values in seconds.items()]
    return {"turns": turns, "repeats": repeats, "limit": LIMIT, "within": rows[0]["median"] < LIMIT, "parts": rows}


def show(result: dict[str, Any]) -> None:
    limit = f"less than {LIMIT * 1e6:.0f} microseconds"
    print(f"{result['turns']} turns, {result['repeats']} repetitions; required: {limit}")
    rows = [[row["part"], *spread_cells(row, ".1f", 1e6)] for row in result["parts"]]
    print_aligned(["microseconds a turn", "min", "median", "max"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, turns=2000, repeats=7).parse_args(arguments)
    return tell(measure(options.turns, options.repeats), options.json, show)


if __name__ == "__main__":
    main()
