"""A table of the value of each choice in each state, and how it learns from recorded episodes.

A state is the short text that a world puts into an observation as `state`. A choice is one call, or nothing. So a table
works with every environment that reports its state.

    table = Table([None, Intervention("respond")])
    learn(table, episodes, discount=0.99)
    table.best("observe 2/8, margin 3")

It does Q-learning in continuous time (an SMDP): rewards between two choices are discounted by when they were paid, and
the next state's best value by when that choice was due. The learning rate of a value falls with its number of visits.

The policy `qtable` follows a table. Without a state in a moment, it does nothing. Exploration is seeded by the task, so
a task is always played the same way.

    agentfw run deliberation --policy qtable --set policy.table=table.json

The table uses the state as it was observed. Interfaces that delay observations show old states.

The adapter of the learner `tabular` is the full table. The learner uses what the environment paid and when, so it needs
no advantages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from agentfw import Episode, Generation, Intervention, Learner, Observation, Policy, Request, Settings, Turn
from agentfw.episode import Call
from agentfw.errors import SettingsError
from agentfw.learner import Batch, Update
from agentfw.runs import write_whole
from agentfw.seeds import Seeds
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


class QTableSettings(Settings):
    table: str = Field(min_length=1, description="Path of the table, as the learner `tabular` writes it.")
    explore: float = Field(0.0, ge=0, le=1, description="Probability of a random choice.")


class QTablePolicy(Policy):
    """Chooses the action with the highest value."""

    is_program = True

    def __init__(self, settings: QTableSettings) -> None:
        self._follow(Table.load(Path(settings.table)), settings.explore, Path(settings.table).stem)

    @classmethod
    def of(cls, table: Table, explore: float = 0.0) -> QTablePolicy:
        """Follow a table that is not in a file."""
        policy = cls.__new__(cls)
        policy._follow(table, explore, "table")
        return policy

    def _follow(self, table: Table, explore: float, version: str) -> None:
        self.table, self.explore, self.version = table, explore, version

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        told = [one for one in request.moment.observations if "state" in one.data]
        if not told or not self.table.choices:
            return Generation(version=self.version)
        choice = self.table.choices[self._place(told[-1], request)]
        calls = () if choice is None else (Call(choice.name, dict(choice.arguments)),)
        return Generation(calls=calls, version=self.version)

    def _place(self, told: Observation, request: Request) -> int:
        if self.explore > 0:
            # Seeded by the state, not by the order, so that a repeated episode is the same.
            generator = Seeds(request.task.seed).random("explore", request.task.sample, told.time, told)
            if generator.random() < self.explore:
                return generator.randrange(len(self.table.choices))
        return self.table.best(str(told.data["state"]))


class TabularSettings(Settings):
    table: str = Field("", description="Table to start from. Default: an empty one.")
    discount: float = Field(0.99, gt=0, le=1, description="Discount factor per unit of time.")
    decay: float = Field(
        0.85,
        gt=0.5,
        le=1,
        description="Exponent with which the learning rate of a value falls with its number of visits.",
    )


class TabularLearner(Learner):
    """Q-learning of a value table."""

    def __init__(self, settings: TabularSettings | None = None) -> None:
        self.settings = settings or TabularSettings()
        self.table = Table.load(Path(self.settings.table)) if self.settings.table else Table()
        self._updates = 0

    def update(self, batch: Batch) -> Update:
        learned = learn(self.table, batch.episodes, discount=self.settings.discount, decay=self.settings.decay)
        self._updates += 1
        batch.folder.mkdir(parents=True, exist_ok=True)
        path = batch.folder / "table.json"
        self.table.save(path)
        metrics = {"choices": float(learned), "states": float(len(self.table.values))}
        return Update(f"table-{self._updates}", path, metrics)

    def state(self) -> dict[str, Any]:
        return {"updates": self._updates, "table": self.table.to_record()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._updates, self.table = int(state["updates"]), Table.from_record(state["table"])
