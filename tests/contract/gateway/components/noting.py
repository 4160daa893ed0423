"""A learner in one file, for `versioned.py`: the adapter names the users who taught it.

Where the environment variable LEARNER_WAITS names a file, the first update waits for it, after it has made FILE.begun.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw import Learner
from agentfw.learner import Batch, Update


class Noting(Learner):
    """Learns who said what it was taught."""

    def __init__(self) -> None:
        self.users = set[str]()
        self.updates = 0

    def update(self, batch: Batch) -> Update:
        if waits := os.environ.get("LEARNER_WAITS", ""):
            Path(f"{waits}.begun").touch()
            while not Path(waits).exists():
                time.sleep(0.05)
        self.updates += 1
        for episode in batch.episodes:
            for message in episode.messages:
                self.users |= set(re.findall(r"(\w+)-says", message.content))
        batch.folder.mkdir(parents=True)
        (batch.folder / "adapter.json").write_text(json.dumps({"users": sorted(self.users)}), encoding="utf-8")
        return Update(f"u{self.updates}", batch.folder)

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return ()

    def state(self) -> dict[str, Any]:
        return {"users": sorted(self.users), "updates": self.updates}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.users, self.updates = set(state["users"]), state["updates"]
