"""A table of the value of each choice in each state, and how it learns from recorded episodes.

A state is the short text that a world puts into an observation as `state`. A choice is one call, or nothing. So a table
works with every environment that reports its state.

    table = Table([None, Intervention("respond")])
    learn(table, episodes, discount=0.99)
    table.best("observe 2/8, margin 3")

It does Q-learning in continuous time (an SMDP): rewards between two choices are discounted by when they were paid, and
the next state's best value by when that choice was due. The learning rate of a value falls with its number of visits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Episode, Intervention, Turn
from agentfw.errors import SettingsError
from agentfw.runs import write_whole
from agentfw.timeline import Time

Choice = Intervention | None
"""A call, or None to do nothing."""


class Table:
    """Values and visit counts of each choice, by state."""

    def __init__(self, choices: Sequence[Choice] = ()) -> None:
        self.choices: list[Choice] = list(choices)
        self.values: dict[str, list[float]] = {}
        self.visits: dict[str, list[int]] = {}

    def best(self, state: str) -> int:
        """Index of the choice with the greatest value; the first among equals and in an unknown state."""
        values = self.values.get(state)
        return max(range(len(values)), key=values.__getitem__) if values else 0

    def worth(self, state: str) -> float:
        values = self.values.get(state)
        return max(values) if values else 0.0

    def row(self, state: str) -> tuple[list[float], list[int]]:
        """The values and visits of a state, for modification."""
        values, visits = self.values.setdefault(state, []), self.visits.setdefault(state, [])
        missing = len(self.choices) - len(values)
        values += [0.0] * missing
        visits += [0] * missing
        return values, visits

    def place(self, choice: Choice) -> int:
        """Index of a choice. A new one is added at the end."""
        for number, known in enumerate(self.choices):
            if _key(known) == _key(choice):
                return number
        self.choices.append(choice)
        return len(self.choices) - 1

    def to_record(self) -> dict[str, Any]:
        return {
            "choices": [_key(choice) for choice in self.choices],
            "states": {
                state: {"values": [round(value, 6) for value in self.values[state]], "visits": self.visits[state]}
                for state in sorted(self.values)
            },
        }

    @classmethod
    def from_record(cls, record: Any) -> Table:
        """A table from plain values. Raises ValueError, KeyError or TypeError if they are no table."""
        table = cls([None if key is None else Intervention(str(key[0]), dict(key[1])) for key in record["choices"]])
        for state, row in record["states"].items():
            table.values[state] = [float(value) for value in row["values"]]
            table.visits[state] = [int(count) for count in row["visits"]]
            if not len(table.values[state]) == len(table.visits[state]) <= len(table.choices):
                raise ValueError(f'the state "{state}" has {len(table.values[state])} values')
        return table

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(self.to_record(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Table:
        fix = "pass a table written by the learner `tabular` or Table.save"
        try:
            return cls.from_record(json.loads(path.read_text("utf-8")))
        except OSError as error:
            raise SettingsError(f"can't read the table {path}: {error.strerror}", fix=fix) from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise SettingsError(f"{path} is not a value table: {error!r}", fix=fix) from None


def _key(choice: Choice) -> list[Any] | None:
    return None if choice is None else [choice.name, dict(choice.arguments)]


@dataclass(frozen=True, slots=True)
class _Step:
    """One choice in an episode, and the rewards until the next one."""

    state: str
    choice: Choice
    paid: float
    lasted: Time
    following: str | None
    """The state of the next choice; None if there is none."""


def learn(table: Table, episodes: Sequence[Episode], *, discount: float, decay: float) -> int:
    """Learn from episodes in order. Returns the number of choices learned from.

    The value of a choice with n earlier visits moves by (n + 1) ** -decay of its error.
    """
    count = 0
    for episode in episodes:
        # From the end, so that the outcome of a choice is known before it is valued.
        for step in reversed(list(_steps(episode, discount))):
            place = table.place(step.choice)
            values, visits = table.row(step.state)
            target = step.paid
            if step.following is not None:
                target += discount**step.lasted * table.worth(step.following)
            visits[place] += 1
            values[place] += (target - values[place]) * visits[place] ** -decay
            count += 1
    return count


def _steps(episode: Episode, discount: float) -> Iterator[_Step]:
    turns = iter(turn for turn in episode.turns if not turn.seat)
    state, choice, since, paid = None, None, 0.0, 0.0
    for event in episode.events:
        if event.kind == "seen" and not event.seat:
            turn = next(turns, None)
            shown = _shown(episode, event.data["events"])
            if turn is None or shown is None:
                continue
            if state is not None:
                yield _Step(state, choice, paid, event.time - since, shown)
            state, choice, since, paid = shown, _choice(turn), event.time, 0.0
        elif event.kind == "utility" and state is not None:
            paid += discount ** (event.time - since) * float(event.data["value"])
    if state is not None:
        yield _Step(state, choice, paid, 0, None)


def _shown(episode: Episode, seen: Sequence[int]) -> str | None:
    """The last state among observations that were seen together."""
    told = [episode.events[index].data["state"] for index in seen if "state" in episode.events[index].data]
    return str(told[-1]) if told else None


def _choice(turn: Turn) -> Choice:
    return Intervention(turn.calls[0].name, turn.calls[0].arguments) if turn.calls else None
