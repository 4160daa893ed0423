"""A tracker that fails after a while, as a tracking server does."""

from __future__ import annotations

from collections.abc import Mapping

from agentfw import Tracker


class Leaky(Tracker):
    def __init__(self) -> None:
        self._count = 0

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._count += 1
        if self._count > 3:
            raise ConnectionError("the tracking server is gone")
