"""The tracker interface: receives the metrics of a run, in addition to the run folder.

A tracker only observes. If it fails, no metric is lost, because the run folder has them all.

    class Printer(Tracker):
        def log(self, step: int, metrics: Mapping[str, float]) -> None:
            print(step, dict(metrics))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import not_implemented
from .operation import Operation

__all__ = ["Tracker"]


class Tracker:
    """Base class of trackers. Only `log` must be implemented."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of one step: an episode of a run, or an update of a training."""
        raise not_implemented(self, "log")

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        """Called when a run begins. A resumed run has the same name."""

    def trace(self, operation: Operation) -> None:
        """Record an operation of an episode: an answer of the policy, a tool call, a recall, a scoring, the whole.

        Operations are told when they are over, so those of several episodes mix, and the episode itself comes after
        its parts. A run measures them only if a tracker overrides this method.
        """

    def finish(self, summary: Mapping[str, float]) -> None:
        """Called when the run is complete, with its final metrics."""

    def close(self) -> None:
        """Close files and connections, also after a failed run."""
