"""The policy `qtable`: follows a table with the value of each choice in each state.

Without a state in a moment, the policy does nothing. Exploration is seeded by the task, so a task is always played the
same way.

    agentfw run deliberation --policy qtable --set policy.table=table.json

The table uses the state as it was observed. Interfaces that delay observations show old states.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from agentfw import Generation, Observation, Policy, Request, Settings
from agentfw.episode import Call
from agentfw.seeds import Seeds

from .value_table import Table


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
