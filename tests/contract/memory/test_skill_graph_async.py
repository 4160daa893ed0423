"""The asynchronous face of the skill graph."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentfw_memory import AsyncSkillGraph, SkillGraph

pytest.importorskip("igraph")


def test_an_event_loop_goes_on_while_something_is_recalled() -> None:
    """The embedder waits for the loop. If recall blocked the loop, neither could go on."""
    loop_went_on = threading.Event()
    waiting = False

    def embed(texts: Any) -> Any:
        if waiting and not loop_went_on.wait(timeout=20):
            raise ValueError("the event loop was blocked")
        return [[1.0, float(len(text))] for text in texts]

    async def both(graph: SkillGraph) -> list[str]:
        recalling = asyncio.ensure_future(AsyncSkillGraph(graph).recall("tea", user="ana"))
        await asyncio.sleep(0.01)
        loop_went_on.set()
        return [hit.skill.text for hit in await recalling]

    with SkillGraph.open(":memory:", tenant="t", embedder=embed) as graph:
        graph.add(owner="ana", text="green tea")
        waiting = True

        assert asyncio.run(both(graph)) == ["green tea"]
