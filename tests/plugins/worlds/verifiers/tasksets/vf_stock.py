"""Questions about a stock, which a tool knows."""

from __future__ import annotations

import verifiers.v1 as vf

STOCK = {"tea": 7, "rice": 12}


class StockToolset(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "stock"

    @vf.tool
    def count(self, item: str) -> str:
        """How much there is of an item."""
        return str(STOCK[item])


class StockData(vf.TaskData):
    answer: str


class StockConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class StockTask(vf.Task[StockData, vf.State, StockConfig]):
    @classmethod
    def toolsets(cls, config: StockConfig) -> list[vf.Toolset]:
        return [StockToolset(config.tools)]

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)

    @vf.metric
    async def looked(self, trace: vf.Trace) -> float:
        return float(len(trace.tool_messages))


class StockTasksetConfig(vf.TasksetConfig):
    task: StockConfig = StockConfig()


class StockTaskset(vf.Taskset[StockTask, StockTasksetConfig]):
    def load(self) -> list[StockTask]:
        return [
            StockTask(StockData(prompt=f"How much {item} is there?", answer=str(count)), self.config.task)
            for item, count in STOCK.items()
        ]


if __name__ == "__main__":
    StockToolset.run()
