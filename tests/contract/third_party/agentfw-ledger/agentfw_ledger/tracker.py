"""A tracker that keeps the final metrics of every run in one SQLite database.

agentfw run --tracker ledger
agentfw ledger
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from agentfw import Settings, Tracker
from pydantic import Field

TABLE = "CREATE TABLE IF NOT EXISTS results (run TEXT, metric TEXT, value REAL, PRIMARY KEY (run, metric))"


class LedgerSettings(Settings):
    path: Path = Field(Path("ledger.db"), description="The database. Several runs can share it.")


class Ledger(Tracker):
    """Writes when a run is complete. A resumed run replaces its own rows."""

    def __init__(self, settings: LedgerSettings) -> None:
        self.path = settings.path
        self.run = ""

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self.run = run
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Steps are in the folder of the run."""

    def finish(self, summary: Mapping[str, float]) -> None:
        rows = [(self.run, name, float(value)) for name, value in summary.items()]
        with closing(sqlite3.connect(self.path, timeout=30)) as database, database:
            database.execute(TABLE)
            database.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", rows)


def results(path: Path) -> list[tuple[str, str, float]]:
    """Run, metric and value of everything in the database."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT run, metric, value FROM results ORDER BY run, metric").fetchall()
