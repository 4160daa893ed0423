"""A policy and a learner in one file, for gateways that learn: answers are yes or no, and an adapter says how often.

An adapter is how often each was taught. What was taught more often is said 19 times of 20. Where the environment
variable LEARNER_WAITS names a file, updates wait for it, after they have made FILE.begun.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw import Generation, Learner, Policy, Request
from agentfw.learner import Batch, Update

WORDS = ("yes", "no")


class Tasting(Policy):
    def __init__(self) -> None:
        self.shares, self.version = {"yes": 0.5, "no": 0.5}, ""

    async def generate(self, request: Request) -> Generation:
        drawn = random.Random(f"{request.task.query} {request.messages[-1].content}").random()
        token = 0 if drawn < self.shares["yes"] else 1
        logprobs = tuple(await self.logprobs((), (token,)))
        return Generation(WORDS[token], prompt_ids=(7,), token_ids=(token,), logprobs=logprobs, version=self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        taught = json.loads((adapter / "adapter.json").read_text("utf-8"))
        share = 0.95 if taught.get("yes", 0) > taught.get("no", 0) else 0.05
        self.shares, self.version = {"yes": share, "no": 1 - share}, version

    async def beside(self, adapter: Path, version: str) -> Tasting:
        other = type(self)()
        await other.publish(adapter, version)
        return other

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return [math.log(self.shares[WORDS[token]]) for token in token_ids]


class Counting(Learner):
    def __init__(self) -> None:
        self.taught, self.updates = Counter[str](), 0

    def update(self, batch: Batch) -> Update:
        if waits := os.environ.get("LEARNER_WAITS", ""):
            Path(f"{waits}.begun").touch()
            while not Path(waits).exists():
                time.sleep(0.01)
        self.updates += 1
        self.taught.update(turn.text for episode in batch.episodes for turn in episode.turns)
        batch.folder.mkdir(parents=True)
        (batch.folder / "adapter.json").write_text(json.dumps(self.taught), encoding="utf-8")
        return Update(f"u{self.updates}", batch.folder)

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return ()

    def state(self) -> dict[str, Any]:
        return {"taught": dict(self.taught), "updates": self.updates}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.taught, self.updates = Counter(state["taught"]), state["updates"]
