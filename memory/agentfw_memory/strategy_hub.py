"""StrategyHub: a short list of strategies that an agent keeps for a user, stored on disk with its history.

    >>> with StrategyHubs.open(":memory:") as hubs:
    ...     hub = hubs.hub("ana")
    ...     hub.update(["Deadlines today come first", "Prefers mornings"], round=3)
    ...     hub.update(["x" * 400], round=4)
    Traceback (most recent call last):
    ...
    agentfw_memory.errors.HubRefusal: strategy 1 has 400 characters; the maximum is 350. The hub is unchanged.

The capacity (10) and the maximum length (350) are those of the pearl paper, section 5.1 and appendix E.1. A hub starts
empty for each trajectory and is carried over its rounds. One sentence of that appendix contradicts this.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import HubRefusal, SkillGraphError
from .files import open_sqlite

_SCHEMA = """
CREATE TABLE IF NOT EXISTS change (
    number INTEGER PRIMARY KEY,
    user TEXT NOT NULL,
    trajectory TEXT NOT NULL,
    round INTEGER NOT NULL,
    strategies TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS change_of ON change (user, trajectory, number);
"""
_VERSION = 1
_APPLICATION = 0x48554230  # "HUB0": marks our files


@dataclass(frozen=True, slots=True)
class Change:
    """One update: the strategies after it, and what it added and removed."""

    round: int
    strategies: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


class StrategyHubs:
    """All hubs of one file, one for each user and trajectory. Safe for threads and processes."""

    def __init__(self, connection: sqlite3.Connection, capacity: int, longest: int) -> None:
        self._connection, self.capacity, self.longest = connection, capacity, longest
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: str | Path, *, capacity: int = 10, longest: int = 350) -> StrategyHubs:
        """Open or create a file of hubs. `:memory:` keeps them only as long as this process."""
        if capacity < 1 or longest < 1:
            raise ValueError(f"invalid capacity {capacity} or maximum length {longest}: both must be 1 or more")
        try:
            connection = open_sqlite(
                path, what="strategy hubs", application=_APPLICATION, version=_VERSION, tables=_SCHEMA.split(";")
            )
        except SkillGraphError as error:
            raise ValueError(error.message) from None
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        return cls(connection, capacity, longest)

    def hub(self, user: str, trajectory: str = "") -> StrategyHub:
        """Return the hub of a user in a trajectory. It is empty until the first update."""
        return StrategyHub(self, user, trajectory)

    def forget(self, user: str, trajectory: str | None = None) -> int:
        """Delete a user, or one of their trajectories, with all history. Return the number of deleted changes."""
        sql, values = "DELETE FROM change WHERE user = ?", [user]
        if trajectory is not None:
            sql, values = f"{sql} AND trajectory = ?", [user, trajectory]
        with self._lock:
            gone = self._connection.execute(sql, values).rowcount
            # secure_delete overwrites the pages, but the log holds the data until it is checkpointed.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return gone

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> StrategyHubs:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()


class StrategyHub:
    """One user's strategies."""

    def __init__(self, hubs: StrategyHubs, user: str, trajectory: str) -> None:
        self._hubs, self.user, self.trajectory = hubs, user, trajectory

    def list(self) -> tuple[str, ...]:
        """Return the current strategies."""
        sql = "SELECT strategies FROM change WHERE user = ? AND trajectory = ? ORDER BY number DESC LIMIT 1"
        rows = self._hubs._execute(sql, self.user, self.trajectory)
        return tuple(json.loads(rows[0][0])) if rows else ()

    def update(self, strategies: Sequence[str], *, round: int = 0) -> tuple[str, ...]:
        """Replace the strategies, and return the new ones."""
        if isinstance(strategies, str):
            raise HubRefusal("strategies must be a list of strings, not a single string.")
        capacity, longest = self._hubs.capacity, self._hubs.longest
        if len(strategies) > capacity:
            raise HubRefusal(f"{len(strategies)} strategies are too many; the maximum is {capacity}. Merge some.")
        taken: list[str] = []
        seen: dict[str, int] = {}
        for place, text in enumerate(strategies, start=1):
            if not isinstance(text, str):
                raise HubRefusal(f"strategy {place} is not a string.")
            # One line, without control characters and lone surrogates.
            plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text)
            tidy = " ".join(plain.split())
            if not tidy:
                raise HubRefusal(f"strategy {place} is empty; leave it out.")
            if len(tidy) > longest:
                raise HubRefusal(f"strategy {place} has {len(tidy)} characters; the maximum is {longest}.")
            if (key := tidy.casefold()) in seen:
                raise HubRefusal(f"strategies {seen[key]} and {place} are the same.")
            seen[key] = place
            taken.append(tidy)
        if tuple(taken) != self.list():
            sql = "INSERT INTO change (user, trajectory, round, strategies) VALUES (?, ?, ?, ?)"
            self._hubs._execute(sql, self.user, self.trajectory, round, json.dumps(taken, ensure_ascii=False))
        return tuple(taken)

    def history(self) -> tuple[Change, ...]:
        """Return all changes, oldest first."""
        changes: list[Change] = []
        before: tuple[str, ...] = ()
        sql = "SELECT round, strategies FROM change WHERE user = ? AND trajectory = ? ORDER BY number"
        for round, kept in self._hubs._execute(sql, self.user, self.trajectory):
            strategies = tuple(json.loads(kept))
            added = tuple(one for one in strategies if one not in before)
            removed = tuple(one for one in before if one not in strategies)
            changes.append(Change(round, strategies, added, removed))
            before = strategies
        return tuple(changes)
