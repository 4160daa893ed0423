"""The memory `strategyhub`: a tool with which the agent keeps a short list of its user's preferences.

A hub belongs to one trajectory. It starts empty with each episode, also when an interrupted episode is played again,
and lasts over its rounds. The run folder shows what changed in which round.

    agentfw run calendar --memory strategyhub

The tool has the two actions of the pearl paper (appendix E.1): `list`, and `update` with the complete new list. An
update that is too long, has duplicates or is invalid is refused with a reason, and the hub stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from agentfw import Memory, Settings, Task, Tool
from agentfw.errors import InterventionRefused, UsageError
from agentfw.memory import Query, Recollection
from agentfw.tool import FunctionTool
from agentfw_memory import HubRefusal, StrategyHub, StrategyHubs

__all__ = ["StrategyHubMemory", "StrategyHubSettings"]


class StrategyHubSettings(Settings):
    path: str = Field("", description="File of the hubs. Default: strategies.db in the run's folder.")
    capacity: int = Field(10, ge=1, description="Maximum number of strategies in a hub.")
    longest: int = Field(350, ge=1, description="Maximum length of a strategy in characters.")
    show: bool = Field(
        False, description="Show the strategies before every turn, so that no turn is spent on listing them."
    )


class StrategyHubMemory(Memory):
    """One hub for each episode."""

    def __init__(self, settings: StrategyHubSettings | None = None) -> None:
        self.settings = settings or StrategyHubSettings()
        self._path: str | Path = self.settings.path or ":memory:"
        self._opened: StrategyHubs | None = None
        self._rounds: dict[str, int] = {}

    def open(self, folder: Path) -> None:
        if not self.settings.path:
            self._path = folder / "strategies.db"

    def begin(self, task: Task) -> None:
        self.hubs.forget(task.user, task.id)
        self._rounds[task.id] = 0

    def tools(self, task: Task) -> Sequence[Tool]:
        hub = self.hub(task)

        async def strategy_hub(action: Literal["list", "update"], strategies: list[str] | None = None) -> str:
            """Keep a short list of what decides for this user: list it, or put a better one in its place.

            strategies: with update, the whole new list; each entry short, only what is useful
            """
            if action == "list":
                return _shown(hub.list())
            if strategies is None:
                raise InterventionRefused("update needs strategies: the whole new list. The hub is unchanged.")
            try:
                return _shown(hub.update(strategies, round=self._rounds.get(task.id, 0)))
            except HubRefusal as refusal:
                raise InterventionRefused(str(refusal)) from None

        return [FunctionTool(strategy_hub)]

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self._rounds[query.task.id] = query.round
        if not self.settings.show:
            return []
        return [Recollection(text) for text in self.hub(query.task).list()][: query.limit]

    def hub(self, task: Task) -> StrategyHub:
        return self.hubs.hub(task.user, task.id)

    async def forget(self, user: str) -> Mapping[str, int]:
        return {"changes": self.hubs.forget(user)}

    async def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def hubs(self) -> StrategyHubs:
        """The file of the hubs, which is opened when it is first needed."""
        if self._opened is None:
            chosen = self.settings
            try:
                self._opened = StrategyHubs.open(self._path, capacity=chosen.capacity, longest=chosen.longest)
            except ValueError as error:
                raise UsageError(str(error), fix="set memory.strategyhub.path to another file") from None
        return self._opened


def _shown(strategies: Sequence[str]) -> str:
    return "\n".join(strategies) if strategies else "(no strategies yet)"
