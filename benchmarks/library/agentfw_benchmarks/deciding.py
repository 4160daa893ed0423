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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median
from typing import Any

from agentfw import Generation, Intervention, Moment, Policy, PolicyAgent, Request, Task
from agentfw.engagement import Engagement
from agentfw.environment import Environment
from agentfw.episode import Message
from agentfw.interfaces import parse_interface
from agentfw.request import Sampling
from agentfw.timeline import Time

__all__ = ["Choices", "Choose", "Deciding", "chance", "continuing", "first", "pace_of", "played_under"]

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


async def played_under(
    interface: str,
    tasks: Sequence[Task],
    world: Callable[[], Environment],
    look: Callable[[], Callable[[Moment], tuple[str, Choices]]],
    choose: Callable[[Task], Choose],
    pace: Time,
) -> list[dict[str, Any]]:
    """The figures of the same tasks under an interface, with the utility and the number of decisions."""

    async def play(task: Task) -> dict[str, Any]:
        policy = Deciding(look(), choose(task), pace)
        episode = await Engagement(world(), PolicyAgent(policy), parse_interface(interface)).run(task)
        return {**episode.outcome, "utility": episode.utility, "decisions": float(policy.decisions)}

    return list(await asyncio.gather(*map(play, tasks)))
