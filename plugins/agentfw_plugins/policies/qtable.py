"""The policy `qtable`: it follows a table of what each choice is worth in each state.

A moment without a state is no moment for a choice, so the policy does nothing in it. Exploration is drawn from the
task's seed: one task is always played the same way.

    agentfw run deliberation --policy qtable --set policy.table=table.json

The table reads the state as it was when it was observed. An interface that shows observations late shows old states.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from agentfw import Settings
from agentfw.episode import Call, Observation
from agentfw.policy import Generation, Policy, Request
from agentfw.seeds import Seeds

from .value_table import Table

__all__ = ["QTablePolicy", "QTableSettings"]


class QTableSettings(Settings):
    table: str = Field(min_length=1, description="Path of the table, as the learner `tabular` writes it.")
    explore: float = Field(0.0, ge=0, le=1, description="Probability of a random choice.")


class QTablePolicy(Policy):
    """Does what its table values most."""

    def __init__(self, settings: QTableSettings) -> None:
        self._follow(Table.load(Path(settings.table)), settings.explore, Path(settings.table).stem)

    @classmethod
    def of(cls, table: Table, explore: float = 0.0) -> QTablePolicy:
        """Follow a table that is in no file yet."""
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
            # Drawn by what is seen, not one after the other: an episode that is run a second time is the same episode.
            generator = Seeds(request.task.seed).random("explore", request.task.sample, told.time, told)
            if generator.random() < self.explore:
                return generator.randrange(len(self.table.choices))
        return self.table.best(str(told.data["state"]))
