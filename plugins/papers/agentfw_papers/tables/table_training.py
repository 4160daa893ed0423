"""Trains a value table: batches of episodes, played with less and less exploration.

The same seed gives the same table. Training uses the split `train`; choose settings on `validation` and report results
on `test`.

    table = train(Deliberation, [Intervention("think", {"mode": mode}) for mode in range(1, 6)], episodes=20_000)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from agentfw import Engagement, Environment, Episode, Interface, Policy, PolicyAgent, Task

from .value_table import Choice, QTablePolicy, Table, TabularSettings, learn

_BATCHES = 100
_FIRST, _LAST = 1.0, 0.05
"""Probability of a random choice in the first and in the last batch; linear in between."""
_HELD = 50
"""Maximum number of episodes in memory; thousands would slow down Python's garbage collector."""


def train(make: Callable[[], Environment], choices: Sequence[Choice], *, episodes: int, seed: int = 42) -> Table:
    """Train a table for the environment that `make` makes."""
    settings, table = TabularSettings(), Table(choices)
    tasks = make().tasks(episodes, seed, "train")
    size = max(1, -(-len(tasks) // _BATCHES))
    for first in range(0, len(tasks), size):
        explore = _FIRST + (_LAST - _FIRST) * first / len(tasks)
        played = list(play(make, QTablePolicy.of(table, explore), tasks[first : first + size]))
        learn(table, played, discount=settings.discount, decay=settings.decay)
    return table


def play(
    make: Callable[[], Environment], policy: Policy, tasks: Sequence[Task], interface: Interface | None = None
) -> Iterator[Episode]:
    """Play tasks one after the other and yield their episodes."""
    for first in range(0, len(tasks), _HELD):
        played: list[Episode] = []
        # It returns nothing, because Python 3.11 formats whatever asyncio.run returns, however large.
        asyncio.run(_play(make, policy, tasks[first : first + _HELD], interface, played))
        yield from played


async def _play(
    make: Callable[[], Environment],
    policy: Policy,
    tasks: Sequence[Task],
    interface: Interface | None,
    played: list[Episode],
) -> None:
    # A table and a rule only read the last moment, so a longer conversation isn't needed.
    played += [await Engagement(make(), PolicyAgent(policy, window=1), interface).run(task) for task in tasks]
