"""Calls the lifecycle hooks of plugins during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...episode import Episode, Turn
from ...host import Host
from ...scores import Score
from ..records.summary import Summary
from .observer import Observer, RunInfo

__all__ = ["HookCalls"]


class HookCalls(Observer):
    """Forwards the events of a run to plugins."""

    def __init__(self, run: RunInfo, host: Host) -> None:
        self.run, self.host = run, host

    def started(self, run: RunInfo, done: int) -> None:
        self.host.call("agentfw_run_started", run=run)

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.host.call("agentfw_turn", run=self.run, episode_id=episode.id, turn=turn)

    def played(self, episode: Episode) -> None:
        self.host.call("agentfw_episode_done", run=self.run, episode=episode)

    def scored(self, scores: Sequence[Score]) -> None:
        self.host.call("agentfw_scored", run=self.run, scores=scores)

    def updated(self, line: Mapping[str, Any]) -> None:
        if line["served"]:
            self.host.call("agentfw_updated", run=self.run, version=line["version"], metrics=line["learner"])

    def finished(self, summary: Summary) -> None:
        self.host.call("agentfw_run_finished", run=self.run, summary=summary)
