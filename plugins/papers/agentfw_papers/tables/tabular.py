"""The learner `tabular`: Q-learning from recorded episodes, without torch.

The adapter is the full table. The learner uses what the environment paid and when, so it needs no advantages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from agentfw import Learner, Settings
from agentfw.learner import Batch, Update

from .value_table import Table, learn


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
