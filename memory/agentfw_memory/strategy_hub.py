"""StrategyHub: a short list of strategies that an agent keeps of its user, on disk, with its history.

The one rule: an update is taken whole or refused whole. A refusal says what to change in words that an agent can read,
and the hub is as it was before.

    >>> with StrategyHubs.open(":memory:") as hubs:
    ...     hub = hubs.hub("ana")
    ...     hub.update(["Deadlines today come first", "Prefers mornings"], round=3)
    ...     hub.update(["x" * 400], round=4)
    Traceback (most recent call last):
    ...
    agentfw_memory.strategy_hub.HubRefusal: strategy 1 has 400 characters; at most 350 are kept. The hub is unchanged.

Capacity (10) and length (350) are those of the pearl paper, section 5.1 and appendix E.1. A hub starts empty with each
trajectory and is carried over its rounds: a sentence of that appendix, which empties it every round, contradicts the
section.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

__all__ = ["Change", "HubRefusal", "StrategyHub", "StrategyHubs"]

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
_APPLICATION = 0x48554230  # "HUB0": tells our files from other programs' databases


class HubRefusal(ValueError):
    """An update that can't be taken, in words for the agent. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a hub held after one update."""

    round: int
    strategies: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


class StrategyHubs:
    """All hubs of one file: one for each user and trajectory. Safe to use from several threads and processes."""

    def __init__(self, connection: sqlite3.Connection, capacity: int, longest: int) -> None:
        self._connection, self.capacity, self.longest = connection, capacity, longest
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: str | Path, *, capacity: int = 10, longest: int = 350) -> StrategyHubs:
        """Open or make a file of hubs. `:memory:` keeps them only as long as this process."""
        if capacity < 1 or longest < 1:
            raise ValueError(f"a hub of {capacity} strategies of {longest} characters can hold nothing")
        connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        try:
            _prepare(connection, path)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise ValueError(f"{path} is no file of strategy hubs: {error}") from None
        except ValueError:
            connection.close()
            raise
        return cls(connection, capacity, longest)

    def hub(self, user: str, trajectory: str = "") -> StrategyHub:
        """The hub of a user in a trajectory; empty until it is updated."""
        return StrategyHub(self, user, trajectory)

    def forget(self, user: str, trajectory: str | None = None) -> int:
        """Take out a user, or one trajectory of theirs, with all history; how many changes are gone."""
        sql, values = "DELETE FROM change WHERE user = ?", [user]
        if trajectory is not None:
            sql, values = f"{sql} AND trajectory = ?", [user, trajectory]
        with self._lock:
            gone = self._connection.execute(sql, values).rowcount
            # secure_delete zeroes the pages; the log still holds what was written until it is folded in.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return gone

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> StrategyHubs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _states(self, user: str, trajectory: str) -> list[tuple[int, tuple[str, ...]]]:
        sql = "SELECT round, strategies FROM change WHERE user = ? AND trajectory = ? ORDER BY number"
        with self._lock:
            rows = self._connection.execute(sql, (user, trajectory)).fetchall()
        return [(number, tuple(json.loads(strategies))) for number, strategies in rows]

    def _latest(self, user: str, trajectory: str) -> tuple[str, ...]:
        sql = "SELECT strategies FROM change WHERE user = ? AND trajectory = ? ORDER BY number DESC LIMIT 1"
        with self._lock:
            row = self._connection.execute(sql, (user, trajectory)).fetchone()
        return tuple(json.loads(row[0])) if row else ()

    def _write(self, user: str, trajectory: str, round: int, strategies: Sequence[str]) -> None:
        sql = "INSERT INTO change (user, trajectory, round, strategies) VALUES (?, ?, ?, ?)"
        with self._lock:
            self._connection.execute(sql, (user, trajectory, round, json.dumps(list(strategies), ensure_ascii=False)))


class StrategyHub:
    """One user's strategies."""

    def __init__(self, hubs: StrategyHubs, user: str, trajectory: str) -> None:
        self._hubs, self.user, self.trajectory = hubs, user, trajectory

    def list(self) -> tuple[str, ...]:
        """The strategies as they are now."""
        return self._hubs._latest(self.user, self.trajectory)

    def update(self, strategies: Sequence[str], *, round: int = 0) -> tuple[str, ...]:
        """Put these strategies in the place of the present ones; the strategies as they are then."""
        taken = self._checked(strategies)
        if taken != self.list():
            self._hubs._write(self.user, self.trajectory, round, taken)
        return taken

    def history(self) -> tuple[Change, ...]:
        """What changed at which round, from the first."""
        changes: list[Change] = []
        before: tuple[str, ...] = ()
        for round, strategies in self._hubs._states(self.user, self.trajectory):
            added = tuple(one for one in strategies if one not in before)
            removed = tuple(one for one in before if one not in strategies)
            changes.append(Change(round, strategies, added, removed))
            before = strategies
        return tuple(changes)

    def _checked(self, strategies: Sequence[str]) -> tuple[str, ...]:
        if isinstance(strategies, str):
            raise HubRefusal("strategies must be a list of texts, not one text. The hub is unchanged.")
        capacity, longest = self._hubs.capacity, self._hubs.longest
        if len(strategies) > capacity:
            raise HubRefusal(
                f"{len(strategies)} strategies are too many; the hub holds {capacity}. Merge some. "
                "The hub is unchanged."
            )
        taken: list[str] = []
        seen: dict[str, int] = {}
        for place, text in enumerate(strategies, start=1):
            if not isinstance(text, str):
                raise HubRefusal(f"strategy {place} is no text. The hub is unchanged.")
            tidy = _tidied(text)
            if not tidy:
                raise HubRefusal(f"strategy {place} is empty; leave it out. The hub is unchanged.")
            if len(tidy) > longest:
                raise HubRefusal(
                    f"strategy {place} has {len(tidy)} characters; at most {longest} are kept. The hub is unchanged."
                )
            key = tidy.casefold()
            if key in seen:
                raise HubRefusal(f"strategies {seen[key]} and {place} are the same. The hub is unchanged.")
            seen[key] = place
            taken.append(tidy)
        return tuple(taken)


def _tidied(text: str) -> str:
    """One line, without control characters and lone surrogates, which no file could keep."""
    plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text)
    return " ".join(plain.split())


def _prepare(connection: sqlite3.Connection, path: str | Path) -> None:
    """Check whose file it is, and make the tables where it is new; several processes may come at once."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != _APPLICATION:
        # Looked at again once nobody else can write: another process may be making the same new file right now.
        connection.execute("BEGIN IMMEDIATE")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application == 0 and tables == 0:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            application = _APPLICATION
        connection.execute("COMMIT")
        if application != _APPLICATION:
            raise ValueError(f"{path} is a database of another program")
    if version > _VERSION:
        raise ValueError(f"{path} was written by a newer agentfw (format {version}, this one reads {_VERSION})")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on. SQLite doesn't wait for others here, whatever its timeout, so this does."""
    for pause in range(100):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            time.sleep(0.01 * (pause + 1))
    connection.execute("PRAGMA journal_mode = WAL")
