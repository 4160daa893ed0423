"""Agents that decide among a few choices, and take as long for it as a pretrained base model really does.

A base model makes no calls, so it isn't asked for one: it goes on with some examples and the state of things, at
temperature 0, with one of the choices. Beside it, `first` takes the first choice, as whoever lists them puts the best
first, and `chance` takes one at random, both at the model's pace.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from agentfw import Generation, Intervention, Moment, Policy, PolicyAgent, Request, Task
from agentfw.environment import Environment
from agentfw.episode import Message
from agentfw.interfaces import parse_interface
from agentfw.request import Sampling
from agentfw.timeline import Time
from agentfw.turns.engagement import Engagement

from .figures import difference_of, mean_of, shown
from .tables import print_markdown

__all__ = ["Choices", "Choose", "Deciding", "continuing", "pace_of", "play_each", "print_rows", "rows_of"]

Choices = Mapping[str, Intervention | None]
"""What can be done, in words; None goes on with what is being done."""
Choose = Callable[[str, Sequence[str]], Awaitable[str]]
"""Takes one of the choices in a state."""

_SAMPLING = Sampling(temperature=0.0, max_tokens=16)


class Deciding(Policy):
    """Decides in one episode. `look` tells the state and the choices of each moment; a decision takes `pace`."""

    is_program = True

    def __init__(self, look: Callable[[Moment], tuple[str, Choices]], choose: Choose, pace: Time) -> None:
        self._look, self._choose, self._pace = look, choose, pace
        self.decisions = 0

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        state, choices = self._look(request.moment)
        chosen = next(iter(choices))
        if len(choices) > 1:
            self.decisions += 1
            chosen = await self._choose(state, tuple(choices))
        call = choices[chosen]
        return Generation(chosen, () if call is None else (call,), count=int(len(choices) > 1), said=chosen)

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self._pace * generation.length


async def first(state: str, choices: Sequence[str]) -> str:
    return choices[0]


def chance(seed: str) -> Choose:
    draws = random.Random(seed)

    async def choose(state: str, choices: Sequence[str]) -> str:
        return draws.choice(choices)

    return choose


def continuing(model: Policy, examples: str) -> Choose:
    """Ask a base model which choice the text goes on with."""

    async def choose(state: str, choices: Sequence[str]) -> str:
        schema = {"type": "string", "enum": list(choices)}
        text = f"{examples}\n{state}\nnext:"
        answer = await model.generate(Request([Message("user", text)], sampling=_SAMPLING, schema=schema, plain=True))
        return str(json.loads(answer.text))

    return choose


async def pace_of(choose: Choose, state: str, choices: Sequence[str], decisions: int = 20) -> float:
    """Median seconds that the processor takes for a decision, one at a time: other programs shouldn't count."""
    took = []
    for number in range(decisions):
        began = time.process_time()
        await choose(state.format(number), [choice.format(number) for choice in choices])
        took.append(time.process_time() - began)
    return round(median(took), 2)


async def play_each(
    interfaces: Sequence[str],
    tasks: Sequence[Task],
    world: Callable[[], Environment],
    look: Callable[[], Callable[[Moment], tuple[str, Choices]]],
    model: Choose,
    pace: Time,
) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """The model, the rule and chance under each interface, with the figures of the same tasks."""
    agents: dict[str, Callable[[Task], Choose]] = {
        "model": lambda _: model,
        "rule": lambda _: first,
        "chance": lambda task: chance(task.id),
    }
    found = []
    for agent, choose in agents.items():
        for interface in interfaces:

            async def play(task: Task, choose: Any = choose, interface: str = interface) -> dict[str, Any]:
                policy = Deciding(look(), choose(task), pace)
                episode = await Engagement(world(), PolicyAgent(policy), parse_interface(interface)).run(task)
                return {**episode.outcome, "utility": episode.utility, "decisions": float(policy.decisions)}

            found.append((agent, interface, list(await asyncio.gather(*map(play, tasks)))))
    return found


def rows_of(
    played: Iterable[tuple[str, str, list[dict[str, Any]]]], figures: Sequence[str], by: str
) -> list[dict[str, Any]]:
    """The means of each agent under each interface, and the difference in the figure `by` to its first interface."""
    rows, before = [], dict[str, list[float]]()
    for agent, interface, tasks in played:
        values = [one[by] for one in tasks]
        row: dict[str, Any] = {"agent": agent, "interface": interface}
        row |= {name: mean_of([one.get(name, float("nan")) for one in tasks]) for name in figures}
        row |= {"difference": difference_of(values, before[agent])} if agent in before else {}
        before.setdefault(agent, values)
        rows.append(row)
    return rows


def print_rows(rows: Sequence[dict[str, Any]], figures: Sequence[str]) -> None:
    shapes = {"difference": "+.3f", "decisions": ".1f"}
    columns = (figures[0], "difference", *figures[1:])
    cells = [[shown(row[name], shapes.get(name, ".3f")) if name in row else "" for name in columns] for row in rows]
    named = [[row["agent"], f"`{row['interface']}`", *some] for row, some in zip(rows, cells, strict=True)]
    print_markdown(["agent", "interface", *columns], named)
