"""The tracker interface: metrics of a run are also logged to trackers.

A tracker watches. Losing it loses no figure, because the run folder has them all.

    class Printer(Tracker):
        def log(self, step: int, metrics: Mapping[str, float]) -> None:
            print(step, dict(metrics))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Tracker"]


class Tracker:
    """Something that is told figures. `log` is the one method that it must have."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """The figures of one step: an episode of a run, an update of a training."""
        raise NotImplementedError

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        """A run begins, or goes on after it was broken off: then under the same name."""

    def finish(self, summary: Mapping[str, float]) -> None:
        """The run is over, with these figures."""

    def close(self) -> None:
        """Let go of files and connections, also when the run failed."""
