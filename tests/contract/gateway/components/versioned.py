"""A policy and a learner in one file, for gateways that learn. An adapter is a list of the answers it was taught.

Half of the answers are good. The policy with an adapter gives the words that it was taught most likely. What it says
names all users whose feedback its adapter has learned from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Generation, Policy, Request

GOOD, BAD = 1, 2


class Versioned(Policy):
    """Good and bad answers in turn. Its tokens are one of GOOD and BAD."""

    def __init__(self) -> None:
        self.adapter: dict[str, Any] = {}
        self.version = ""

    async def generate(self, request: Request) -> Generation:
        said = request.messages[-1].content
        token = GOOD if "good" in said else BAD
        text = f"{said}; taught by {', '.join(self.adapter.get('users', [])) or 'nobody'}"
        logprobs = tuple(await self.logprobs((), (token,)))
        return Generation(text, prompt_ids=(7,), token_ids=(token,), logprobs=logprobs, version=self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        self.adapter, self.version = json.loads((adapter / "adapter.json").read_text("utf-8")), version

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        likely = {GOOD: -0.2, BAD: -1.7} if self.adapter else {GOOD: -0.7, BAD: -0.7}
        return [likely.get(token, -9.0) for token in token_ids]
