"""A tracker that adds the final metrics of every run to one file.

agentfw run --tracker ledger
agentfw ledger
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentfw import Settings, Tracker
from pydantic import Field


class LedgerSettings(Settings):
    path: Path = Field(Path("ledger.jsonl"), description="The file. Several runs can share it.")


class Ledger(Tracker):
    """Writes when a run is complete."""

    def __init__(self, settings: LedgerSettings) -> None:
        self.path = settings.path

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self.run = run

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Steps are in the folder of the run."""

    def finish(self, summary: Mapping[str, float]) -> None:
        rows = [{"run": self.run, "metric": name, "value": float(value)} for name, value in summary.items()]
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
