"""Words to be said loudly. It brings no program, so its agent is the library's chat."""

from __future__ import annotations

import verifiers.v1 as vf


class ShoutTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def loud(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.isupper())


class ShoutTaskset(vf.Taskset[ShoutTask, vf.TasksetConfig]):
    def load(self) -> list[ShoutTask]:
        return [
            ShoutTask(vf.TaskData(prompt=word, system_prompt="Say it loudly."), self.config.task)
            for word in ("tea", "rain", "bus", "cat")
        ]
