"""The index of all episodes: one row each, and what was said in it for full text search, in SQLite beside the runs.

It holds nothing of its own, so it can be deleted at any time. It grows with the journals: each is read from where the
last look ended, also while a run goes on. The text itself isn't stored twice; a row knows its line in the journal.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from agentfw.runs import make_private

from .annotations import marked_in
from .index_rows import COUNTS, SPENT, read_line, read_runs

_RECENT = 0.5  # seconds for which nobody looks again

_WORDS_IN_MEMORY = 32_000_000
"""Bytes of words that are put in order before they are written. With the usual million, much is written twice."""

_FILE = ".index.sqlite"
_VERSION = 10  # of the tables. An index with another version is made again
_TABLES = f"""
CREATE TABLE runs (id INTEGER PRIMARY KEY, folder TEXT UNIQUE, name TEXT, began TEXT, changed INTEGER, about TEXT);
CREATE TABLE places (id INTEGER PRIMARY KEY, run INTEGER, folder TEXT UNIQUE, stage TEXT, number INTEGER);
CREATE TABLE journals (place INTEGER, name TEXT, file INTEGER, read INTEGER, PRIMARY KEY (place, name));
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY, place INTEGER, run INTEGER, episode TEXT, environment TEXT, user TEXT,
    task TEXT, -- the same in every run that plays it
    sample INTEGER, query TEXT,
    parent TEXT, -- the session of the agent that this one, a sub-agent's, works for
    began TEXT, -- when its first request came, or else its run began
    state TEXT, -- ended, in progress, left out, or damaged
    begins TEXT, finish TEXT, reward REAL, headline REAL,
    figures TEXT, -- all that are declared, and the outcome
    tools TEXT, version TEXT, problem TEXT,
    {" INTEGER DEFAULT 0, ".join(COUNTS)} INTEGER DEFAULT 0, {" REAL, ".join(SPENT)} REAL,
    failures INTEGER GENERATED ALWAYS AS
        (failed + not_understood + refused + cut_off + empty + (problem IS NOT NULL)) STORED,
    broken INTEGER GENERATED ALWAYS AS (failed > 0 OR problem IS NOT NULL) STORED,
    at INTEGER, size INTEGER, -- the line in episodes.jsonl
    metrics_at INTEGER, metrics_size INTEGER, -- the line in metrics.jsonl
    UNIQUE (place, episode));
CREATE TABLE pieces (episode INTEGER, at INTEGER, size INTEGER);
CREATE TABLE tools (name TEXT PRIMARY KEY);
CREATE TABLE texts (id INTEGER PRIMARY KEY AUTOINCREMENT, episode INTEGER); -- the words of one that is gone stay
CREATE VIRTUAL TABLE said USING fts5 (text, content='', detail=none, tokenize="unicode61 remove_diacritics 2");
INSERT INTO said (said, rank) VALUES ('hashsize', {_WORDS_IN_MEMORY});
CREATE INDEX episodes_of_run ON episodes (run, failures, reward);
CREATE INDEX episodes_of_task ON episodes (task);
CREATE INDEX episodes_by_reward ON episodes (reward);
CREATE INDEX episodes_with_failures ON episodes (failures) WHERE failures;
CREATE INDEX episodes_that_failed ON episodes (failed) WHERE failed > 0;
CREATE INDEX episodes_by_age ON episodes (began);
CREATE INDEX episodes_by_default ON episodes (broken, began);
CREATE INDEX episodes_of_user ON episodes (user);
CREATE INDEX episodes_of_version ON episodes (version);
CREATE INDEX episodes_by_end ON episodes (finish);
CREATE INDEX episodes_of_parent ON episodes (parent) WHERE parent > '';
CREATE INDEX texts_of_episode ON texts (episode);
CREATE INDEX pieces_of_episode ON pieces (episode);
"""


class Seen(NamedTuple):
    """What a page was made of: when this changes, there is something new to show."""

    generation: int
    is_whole: bool  # whether the runs were read to their end. If not, the page has what was read so far


class Index:
    """The index of one folder of runs, with their episodes."""

    def __init__(self, root: Path) -> None:
        self.root = self.beside = root  # where the runs are, and where tasks and filters are kept
        self._making = threading.Lock()
        self._path: Path | None = None
        self.generation = 0  # grows whenever something new can be seen
        self._updates: dict[str, tuple[int, int]] = {}
        """The size of `updates.jsonl` of each training, as of the last look."""
        self._lock = threading.Lock()
        self._wake, self._looked = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._last = -_RECENT

    @property
    def path(self) -> Path:
        """The file, made when it is first needed: beside the runs, or temporary if that folder can't be written."""
        with self._making:
            if self._path is None or not self._path.exists():  # `agentfw serve forget` removes it
                try:
                    self._path = _made(self.root / _FILE)
                except (OSError, sqlite3.OperationalError):
                    self._temporary = tempfile.TemporaryDirectory(prefix="agentfw-index-")
                    self._path = _made(Path(self._temporary.name) / _FILE)
            return self._path

    def connect(self) -> sqlite3.Connection:
        """A connection that commits each statement by itself, outside of a transaction."""
        rows = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        rows.row_factory = sqlite3.Row
        return rows

    def look(self, patience: float = 0.3) -> Seen:
        """Look for news in a thread of its own, and wait so long for it."""

        def keep_looking() -> None:
            while True:
                self._wake.wait()
                self._wake.clear()
                with suppress(sqlite3.OperationalError, OSError):  # another process writes, or the disk is full
                    self.refresh()
                    self._last = time.monotonic()
                    self._looked.set()

        if self._thread is None:
            self._thread = threading.Thread(target=keep_looking, name="agentfw-view-index", daemon=True)
            self._thread.start()
        is_whole = time.monotonic() - self._last < _RECENT
        if not is_whole:
            self._looked.clear()
            self._wake.set()
            is_whole = self._looked.wait(patience)
        return Seen(self.generation, is_whole)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The tables, with a function for phrases: the index knows which words an episode has, but not where."""
        with closing(self.connect()) as rows:

            def says(episode: int, phrase: str) -> bool:
                wanted = json.dumps(phrase.casefold(), ensure_ascii=False)[1:-1]
                try:
                    return wanted in self.lines(rows, episode).decode("utf-8", "replace").casefold()
                except OSError:
                    return False

            rows.create_function("says", 2, says)
            marked = cache(lambda: marked_in(self.root, _numbers(rows, "runs"), _numbers(rows, "places")))
            rows.create_function("marked", 3, lambda *of: marked()(*of))
            yield rows

    def count(self) -> int:
        """Number of episodes so far."""
        with closing(self.connect()) as rows:
            return int(rows.execute("SELECT count(*) FROM episodes").fetchone()[0])

    def lines(self, rows: sqlite3.Connection, episode: int) -> bytes:
        """An episode as it is on disk: its line, or those of its turns if it is a session in progress."""
        line = "SELECT e.at, e.size, p.folder FROM episodes e JOIN places p ON p.id = e.place WHERE e.id = ?"
        at, size, folder = rows.execute(line, (episode,)).fetchone()
        place = self.root / folder
        if at is not None:
            return read_line(place / "episodes.jsonl", at, size)
        pieces = rows.execute("SELECT at, size FROM pieces WHERE episode = ? ORDER BY at", (episode,))
        return b"".join(read_line(place / "turns.jsonl", at, size) for at, size in pieces.fetchall())

    def run_of(self, row: Mapping[str, Any]) -> tuple[Path, str]:
        """The folder of an episode's run, and that of its place below it."""
        run = str(row["run_folder"])
        return self.root / run, str(row["folder"]).removeprefix(run).strip("/")

    def refresh(self) -> None:
        """Read what is new on disk, and drop what is gone."""
        with self._lock, closing(self.connect()) as rows:
            for _ in read_runs(rows, self.root, self._updates):
                self.generation += 1


def _made(path: Path) -> Path:
    """Make the index, also in place of one of another version or a damaged one."""
    for attempt in (1, 2):
        make_private(path)
        try:
            with closing(sqlite3.connect(path, timeout=10)) as rows:
                [version] = rows.execute("PRAGMA user_version").fetchone()
                if version == _VERSION:
                    rows.execute("SELECT count(*) FROM runs").fetchone()
                    return path
                if not version:
                    rows.execute("PRAGMA journal_mode = WAL")
                    rows.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")
                    return path
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            if attempt == 2:
                raise
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return path


def _numbers(rows: sqlite3.Connection, table: str) -> dict[str, int]:
    """The number of each folder of a run, or of a place."""
    return {row["folder"]: row["id"] for row in rows.execute(f"SELECT id, folder FROM {table}").fetchall()}
