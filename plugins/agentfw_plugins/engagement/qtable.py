"""The policy `qtable`, which follows a table, and the learner `tabular`, which makes the table better.

The one rule: a moment that tells no state is none for a choice, and the policy does nothing in it. What it explores is
drawn from the task's seed: one task is played one way.

    agentfw run deliberation --policy qtable --set policy.table=table.json

A table reads the state as it was when it became known. Under an interface that shows it later, the state is old, as it
would be for anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from agentfw import Settings
from agentfw.episode import Call, Observation
from agentfw.learner import Batch, Learner, Update
from agentfw.policy import Generation, Policy, Request
from agentfw.seeds import Seeds

from .table import Table, learn

__all__ = ["QTablePolicy", "QTableSettings", "TabularLearner", "TabularSettings"]


class QTableSettings(Settings):
    table: str = Field(min_length=1, description="The table's file, as `agentfw engagement` writes it.")
    explore: float = Field(0.0, ge=0, le=1, description="How often it chooses at random.")


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


class TabularSettings(Settings):
    table: str = Field("", description="A table to begin with; without one it begins with nothing.")
    discount: float = Field(0.99, gt=0, le=1, description="What a unit of time takes from the worth of what comes.")
    decay: float = Field(0.85, gt=0.5, le=1, description="How fast the rate of a value falls with its visits.")


class TabularLearner(Learner):
    """Q-learning from what is on record; no torch. The adapter is the table, whole.

    It learns from what the environment paid and when, so it needs no advantages.
    """

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
