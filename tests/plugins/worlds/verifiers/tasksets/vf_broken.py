"""Tasks whose reward raises."""

from __future__ import annotations

import verifiers.v1 as vf
from vf_sums import SumsHarness  # type: ignore[import-not-found]  # beside it, where verifiers looks

__all__ = ["BrokenTaskset", "SumsHarness"]


class BrokenTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        raise ValueError("no scales here")


class BrokenConfig(vf.TasksetConfig):
    count: int = 2


class BrokenTaskset(vf.Taskset[BrokenTask, BrokenConfig]):
    def load(self) -> list[BrokenTask]:
        return [BrokenTask(vf.TaskData(prompt="How heavy?"), self.config.task) for _ in range(self.config.count)]
