"""Sums, with one answer each. The program of its agent runs in the calling process and asks once."""

from __future__ import annotations

import httpx
import verifiers.v1 as vf


class SumsData(vf.TaskData):
    answer: str


class SumsTask(vf.Task[SumsData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.5)
    async def brief(self, trace: vf.Trace) -> float:
        return 1 / (1 + len(trace.last_reply))

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class SumsConfig(vf.TasksetConfig):
    count: int = 6
    split: str = ""


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self) -> list[SumsTask]:
        first = 0 if self.config.split in ("", "train") else 100
        return [
            SumsTask(SumsData(prompt=f"What is {n} + {n}?", answer=str(n + n)), self.config.task)
            for n in range(first, first + self.config.count)
        ]


class SumsHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    NEEDS_CONTAINER = False
    EXECUTES_CODE = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        body = {"model": ctx.model, "messages": [{"role": "user", "content": data.prompt}]}
        async with httpx.AsyncClient(timeout=60) as client:
            url, headers = f"{endpoint}/chat/completions", {"authorization": f"Bearer {secret}"}
            (await client.post(url, json=body, headers=headers)).raise_for_status()
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
