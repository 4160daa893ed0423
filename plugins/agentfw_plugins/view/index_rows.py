"""Reads runs into the index: the rows of their episodes, made of the lines of four journals.

A line that is no record is told as damaged, and what comes after it is read all the same. Lines are read as plain
values: an episode of twenty turns takes a millisecond so, and ten as an `Episode`.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from agentfw.runs import figures_of

PART_OF = "part_of"  # event of a sub-agent's session, with the session of the agent that it works for
_DEEPEST = 6  # A loop keeps its runs in cells/VARIANT/PHASE/RUN
_STAGES = {"evaluations": "evaluation", "rollouts": "rollout"}


class Place(NamedTuple):
    """A folder with journals of episodes: the run itself, an evaluation, or the rollouts of an update."""

    path: Path
    stage: str
    number: int


class Line(NamedTuple):
    """A line of a journal."""

    at: int
    size: int
    record: dict[str, Any] | None  # None if it is damaged


def run_folders(root: Path, depth: int = _DEEPEST) -> Iterator[Path]:
    """The folders of runs: `root` itself, or those below it. Runs aren't searched for runs."""
    if os.path.isfile(root / "run.json"):  # not so if it is in a folder of somebody else
        yield root
        return
    if depth:
        try:
            below = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[:1] != ".")
        except OSError:
            return
        for name in below:
            yield from run_folders(root / name, depth - 1)


def places_of(run: Path) -> list[Place]:
    """The places of a run, in the order in which a training plays them."""
    paths = [(path, stage) for folder, stage in _STAGES.items() for path in (run / folder).glob("*")]
    found = [Place(path, stage, int(path.name)) for path, stage in paths if path.name.isdigit()]
    # The evaluation after two updates is before the rollouts that the third one learns from.
    found.sort(key=lambda place: (place.number, place.stage == "evaluation"))
    return [Place(run, "", 0), *found]


def new_lines(path: Path, since: int) -> Iterator[Line]:
    """The complete lines from this place of the file on."""
    with suppress(OSError), path.open("rb") as handle:  # there is none, or it is somebody else's
        handle.seek(since)
        at = since
        for line in handle:
            if not line.endswith(b"\n"):
                return  # it is being written
            yield Line(at, len(line), record_of(line))
            at += len(line)


def read_line(path: Path, at: int, size: int) -> bytes:
    with path.open("rb") as handle:
        handle.seek(at)
        return handle.read(size)


def content_of(path: Path) -> bytes:
    """What is in a file. Nothing if there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def record_of(line: bytes | str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


_BEGINNING = 160
_NO_SPACES = re.compile("([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
"""Characters of languages that are written without spaces. Each is a word of its own in the index."""
_AS_WRITTEN = re.compile(
    r"(?<![^\W_])(?:[^\W_]++(?:[-_'’.@+#]++[^\W_]++)++(?:\+\+|\#)?|[^\W_]++(?:\+\+|\#)|-\d++(?:\.\d++)?)"
)
"""Words that the tokenizer would take apart: `get_weather`, `don't`, `C++`, `-3`."""
_WHOLE = {ord(sign): 0xE000 + ord("'" if sign == "’" else sign) for sign in "-_'’.@+#"}
"""Each sign as a character of private use, which the tokenizer takes for a letter."""
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_in_json = json.JSONEncoder(ensure_ascii=False).encode  # as `json.dumps`, which makes an encoder for each call
_FIXED = ("place", "run", "episode", "began")
COUNTS = ("turns", "tokens", "calls", "not_understood", "refused", "cut_off", "failed", "empty", "rated")
SPENT = ("prompt_tokens", "cached_tokens", "cost", "seconds")
"""Sums of the turns. None where no turn has the number."""
_JOURNALS = ("turns", "episodes", "metrics", "failed")
_TOGETHER = 1.0  # seconds of reading after which what was read can be seen
_RUN = """
INSERT INTO runs (folder, name, began, changed, about) VALUES (?, ?, ?, ?, ?) ON CONFLICT (folder) DO UPDATE
SET began = excluded.began, changed = excluded.changed, about = excluded.about RETURNING id, about
"""


def read_runs(rows: sqlite3.Connection, root: Path, updates: dict[str, tuple[int, int]]) -> Iterator[None]:
    """Read what is new on disk, and drop what is gone. Yields whenever something new can be seen. `updates` is kept
    from look to look: it has the size of `updates.jsonl` of each training."""
    found = set()
    for run in run_folders(root):
        folder = _name(root, run)
        found.add(folder)
        try:
            changed = (run / "run.json").stat().st_mtime_ns
        except OSError:
            continue
        before = rows.execute("SELECT id, changed, about FROM runs WHERE folder = ?", (folder,)).fetchone()
        if before is None or before["changed"] != changed:
            about = record_of(content_of(run / "run.json")) or {}
            with _writing(rows):
                values = (folder, run.name, str(about.get("created", "")), changed, json.dumps(about))
                before = rows.execute(_RUN, values).fetchone()
            yield
        if updates.get(folder) != (size := _status(run, "updates")):
            updates[folder] = size
            yield
        about = json.loads(before["about"])
        for place in places_of(run):
            yield from _PlaceReader(rows, before["id"], about, place, _name(root, place.path)).refresh()
    for folder, number in rows.execute("SELECT folder, id FROM runs").fetchall():
        if folder not in found:
            with _writing(rows):
                for (place,) in rows.execute("SELECT id FROM places WHERE run = ?", (number,)).fetchall():
                    _drop_place(rows, place)
                rows.execute("DELETE FROM places WHERE run = ?", (number,))
                rows.execute("DELETE FROM runs WHERE id = ?", (number,))
            yield


class _PlaceReader:
    """Reads the journals of one place into the rows of its episodes."""

    def __init__(self, rows: sqlite3.Connection, run: int, about: Mapping[str, Any], place: Place, folder: str) -> None:
        self.rows, self.run, self.place, self.folder = rows, run, place, folder
        self.headline, self.began = str(about.get("headline", "")), str(about.get("created", ""))
        self.is_live = not (about.get("episodes") or about.get("updates"))
        """Whether its episodes are sessions. No other run has the same ones, unless it asks their questions again."""
        self.origin = str(about.get("replay_of") or self.began)

    def refresh(self) -> Iterator[None]:
        of_place = "SELECT name, file, read FROM journals WHERE place = (SELECT id FROM places WHERE folder = ?)"
        known = {name: (file, read) for name, file, read in self.rows.execute(of_place, (self.folder,))}
        there = {name: _status(self.place.path, name) for name in _JOURNALS}
        news = {name: status for name, status in there.items() if status != known.get(name, (0, 0))}
        if not news:
            return
        with _writing(self.rows):
            values = (self.run, self.folder, self.place.stage, self.place.number)
            self.rows.execute("INSERT OR IGNORE INTO places (run, folder, stage, number) VALUES (?, ?, ?, ?)", values)
            [self.number] = self.rows.execute("SELECT id FROM places WHERE folder = ?", (self.folder,)).fetchone()
        held = [(known[name], status) for name, status in news.items() if name in known]
        # If a journal was put in the place of another, nothing that was read of it holds.
        if any(before[0] != now[0] or before[1] > now[1] for before, now in held):
            with _writing(self.rows):
                _drop_place(self.rows, self.number)
            news = {name: status for name, status in there.items() if status != (0, 0)}
        for name, (file, _) in news.items():
            yield from self._read(name, file)

    def _read(self, name: str, file: int) -> Iterator[None]:
        """Read a journal to its end. What was read can be seen once a second."""
        journal, more = (self.number, name), True
        while more:
            with _writing(self.rows):  # nobody else reads the same lines meanwhile
                asked = "SELECT read FROM journals WHERE place = ? AND name = ?"
                since = self.rows.execute(asked, journal).fetchone()
                end = at = 0 if since is None else int(since["read"])
                began, more = time.monotonic(), False
                for line in new_lines(self.place.path / f"{name}.jsonl", at):
                    self._take(name, line)
                    end = line.at + line.size
                    if time.monotonic() - began > _TOGETHER:
                        more = True
                        break
                self.rows.execute("INSERT OR REPLACE INTO journals VALUES (?, ?, ?, ?)", (*journal, file, end))
            if end > at:
                yield

    def _take(self, journal: str, line: Line) -> None:
        """Write what a line says: into the row of its episode, and for the full text search."""
        try:
            if line.record is None:
                raise ValueError("the line is damaged")
            number = self._taken(journal, line, line.record)
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # whatever is in the record
            name = f"{journal}.jsonl at {line.at}"
            where = {"at": line.at, "size": line.size} if journal == "episodes" else {}
            problem = f"{self.place.path.name}/{name} can't be read: {error!r}"
            number = self._write(name, {"state": "damaged", "problem": problem, **where})
        if number is None or line.record is None:
            return
        if journal == "turns":
            self.rows.execute("INSERT INTO pieces VALUES (?, ?, ?)", (number, line.at, line.size))
        elif journal == "metrics" or self.rows.execute("SELECT 1 FROM pieces WHERE episode = ?", (number,)).fetchone():
            return  # what was said in a session is known from its turns
        text = self.rows.execute("INSERT INTO texts (episode) VALUES (?)", (number,)).lastrowid
        self.rows.execute("INSERT INTO said (rowid, text) VALUES (?, ?)", (text, words_of(line.record)))

    def _taken(self, journal: str, line: Line, record: dict[str, Any]) -> int | None:
        if journal == "failed":
            played = "UPDATE episodes SET problem = NULL, state = iif(at IS NULL, 'in progress', 'ended')"
            left_out = "WHERE place = ? AND episode = ? AND state = 'left out'"
            for name in record.get("retried", ()):
                self.rows.execute(f"{played} {left_out}", (self.number, str(name)))
            if "episode" not in record:
                return None
            problem = str(record.get("reason") or record["error"])
            return self._write(str(record["episode"]), {"state": "left out", "problem": problem})
        if journal == "turns":
            return self._session(record)
        if journal == "episodes":
            row, figures = _row_of(record) | {"state": "ended", "at": line.at, "size": line.size}, record["outcome"]
            row["finish"] = str(record["finish"])
        else:
            figures = figures_of(record, averaged=False)
            row = {"metrics_at": line.at, "metrics_size": line.size, "reward": figures.get("reward")}
        value = record["outcome"].get(self.headline)
        number = float(value) if isinstance(value, int | float) else math.nan
        figures = {name: value for name, value in figures.items() if abs(value) < math.inf}  # SQLite reads no NaN
        row |= {"figures": json.dumps(figures), "headline": None if math.isnan(number) else number}
        return self._write(_id_of(record) if journal == "episodes" else str(record["episode"]), row)

    def _session(self, record: dict[str, Any]) -> int:
        """What is new in a session in progress."""
        name, row = _id_of(record), _row_of(record)
        known = "SELECT * FROM episodes WHERE place = ? AND episode = ?"
        before = self.rows.execute(known, (self.number, name)).fetchone()
        if before is not None and record.get("whole"):  # in the place of what was there before a full disk
            for table in ("texts", "pieces"):
                self.rows.execute(f"DELETE FROM {table} WHERE episode = ?", (before["id"],))
        elif before is not None:
            row |= {count: row[count] + before[count] for count in COUNTS}
            row |= {name: _sum([before[name], row[name]]) for name in SPENT}
            row["begins"] = before["begins"] or row["begins"]
            row["parent"] = before["parent"] or row["parent"]
            row["version"] = row["version"] or before["version"]
            row["tools"] = _spaced({*str(before["tools"]).split(), *row["tools"].split()})
        state = "in progress" if row["turns"] or not row["failed"] else "failed"
        return self._write(name, row | {"state": state, "finish": str(record.get("finish", ""))})

    def _write(self, name: str, row: dict[str, Any]) -> int:
        if self.is_live and "query" in row:
            row["task"] = f"{self.origin}/{row['query']}"
        row = {"place": self.number, "run": self.run, "episode": name, **row, "began": row.get("began") or self.began}
        for tool in str(row.get("tools", "")).split():
            self.rows.execute("INSERT OR IGNORE INTO tools VALUES (?)", (tool,))
        # What stays the same isn't written again: each of its indexes would be.
        news = ", ".join(f"{column} = excluded.{column}" for column in row if column not in _FIXED)
        into = f"INSERT INTO episodes ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        values = [_storable(value) if isinstance(value, str) else value for value in row.values()]
        sql = f"{into} ON CONFLICT (place, episode) DO UPDATE SET {news} RETURNING id"
        return int(self.rows.execute(sql, values).fetchone()[0])


def words_of(record: Mapping[str, Any]) -> str:
    """Everything that was said in an episode, for the full text search."""
    try:
        text = "\n".join(_said(record))
    except Exception:  # it is no episode, and is found by whatever it says
        text = _in_json(record)
    text = _storable(text)
    # The index doesn't know where in the text a word is, so those that are kept whole can come behind it.
    signs = {word for word in set(text.split()) if not word.isalnum()}
    whole = {found.translate(_WHOLE) for word in signs for found in _AS_WRITTEN.findall(word)}
    return separated(" ".join([text, *whole]))


def words_to_find(text: str) -> list[str]:
    """The words of a search, each as the index has it.

    >>> words_to_find("rain in New York"), len(words_to_find("get_weather don't C++ -3"))
    (['rain', 'in', 'New', 'York'], 4)
    """
    written = _AS_WRITTEN.sub(lambda word: f" {word[0].translate(_WHOLE)} ", _storable(text))
    return re.findall(r"(?:[^\W_]|[\ue000-\ue0ff])+", separated(written))


def separated(text: str) -> str:
    """The text with the characters apart that are words of their own."""
    return text if text.isascii() else _NO_SPACES.sub(r" \1 ", text)


def _said(record: Mapping[str, Any]) -> Iterator[str]:
    task = record["task"]
    yield f"{task['user']} {task.get('query', '')}"
    for message in record["messages"]:
        if message[0] != "assistant":
            yield str(message[1])
    for turn in record["turns"]:
        yield str(turn["text"])
        for call in turn["calls"]:
            if (parts := _HUMPS.sub(" ", call[0])) != call[0]:
                yield parts
            if call[0] not in turn["text"]:  # else it is spelled there
                yield f"{call[0]} {_in_json(call[1])}"
        yield from map(str, turn["failures"])
    for event in record["events"]:
        if event[1:3] == ["session", "failed"]:
            yield f"{event[3]['error']} {event[3].get('answer', '')}"
        elif event[1] == "refused" or (event[1] == "observation" and event[2] == "feedback"):
            yield str(event[3].get("reason") or event[3].get("text", ""))


def _row_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the record of an episode, or a part of one, says."""
    task, turns, events = record["task"], record["turns"], record["events"]
    # The full name of the session that this one is a part of. A key's own name comes before all names of its.
    space, colon, _ = str(task.get("query", "")).rpartition(":")
    parent = next((event[3]["session"] for event in events if event[1:3] == ["session", PART_OF]), "")
    first = next((str(message[1]) for message in record["messages"] if message[0] == "user"), "")
    at = [turn["at"] for turn in turns if turn.get("at")]
    at += [event[3]["at"] for event in events[:3] if event[1] == "session" and "at" in event[3]]
    begins = " ".join(first.removeprefix("[0]")[: 4 * _BEGINNING].split())
    return {
        "environment": str(record["environment"]),
        "user": str(task["user"]),
        "task": f"{task['user']}/{task['seed']}/{task['index']}",
        "sample": int(task["sample"]),
        "query": str(task.get("query", "")),
        "parent": f"{space}{colon}{parent}" if parent else "",
        "begins": begins if len(begins) <= _BEGINNING else f"{begins[:_BEGINNING]}…",
        "began": datetime.fromtimestamp(min(at), UTC).isoformat(timespec="seconds") if at else "",
        "turns": len(turns),
        "tokens": sum(int(turn["count"]) for turn in turns),
        "calls": sum(len(turn["calls"]) for turn in turns),
        "not_understood": sum(len(turn["failures"]) for turn in turns),
        "refused": sum(is_failed_call(event[1], event[3]) for event in events),
        "cut_off": sum(event[2] == "cut_off" for event in events),
        "failed": sum((event[1], event[2]) == ("session", "failed") for event in events),
        # A session has a name. An agent in a world may have nothing to do.
        "empty": sum(not (turn["text"].strip() or turn["calls"]) for turn in turns) if task.get("query") else 0,
        "rated": sum(event[1:3] == ["observation", "feedback"] for event in events),
        "prompt_tokens": _sum(turn["usage"][0] for turn in turns),
        "cached_tokens": _sum(turn["usage"][1] for turn in turns),
        "cost": _sum(turn["usage"][3] or None for turn in turns),
        "seconds": _sum(turn["ended"] - turn["started"] for turn in turns if turn.get("at")),
        "tools": _spaced({str(call[0]) for turn in turns for call in turn["calls"]}),
        "version": next((str(turn["version"]) for turn in reversed(turns) if turn["version"]), ""),
    }


_SAYS_ERROR = re.compile(r'\s*(error:|\{\s*"error")', re.I)


def is_failed_call(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an event says that a call was refused or failed. The tools of a program answer with a text alone. By
    convention, that of a failure begins with `Error:`, or is an object that begins with the key `error`."""
    if kind != "observation" or "call" not in data:
        return kind == "refused" or (kind == "observation" and data.get("well") is False)
    return not data.get("well", not _SAYS_ERROR.match(str(data.get("text", ""))))


def _id_of(record: Mapping[str, Any]) -> str:
    return f"{record['task']['index']:05d}-{record['task']['sample']}"


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of those that are known."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _spaced(names: set[str]) -> str:
    """Names between spaces, so that one is found as ` name `. A tool's name has none."""
    return f" {' '.join(sorted(name for name in names if name))} "


def _storable(text: str) -> str:
    """SQLite takes no lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _drop_place(rows: sqlite3.Connection, place: int) -> None:
    # The words of an episode that is gone are found no more, because no text belongs to them.
    for table in ("texts", "pieces"):
        rows.execute(f"DELETE FROM {table} WHERE episode IN (SELECT id FROM episodes WHERE place = ?)", (place,))
    rows.execute("DELETE FROM episodes WHERE place = ?", (place,))
    rows.execute("DELETE FROM journals WHERE place = ?", (place,))


def _name(root: Path, path: Path) -> str:
    """A folder below the root."""
    return path.relative_to(root).as_posix().removeprefix(".")


@contextmanager
def _writing(rows: sqlite3.Connection) -> Iterator[None]:
    """One transaction."""
    rows.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        rows.execute("ROLLBACK")
        raise
    rows.execute("COMMIT")


def _status(folder: Path, name: str) -> tuple[int, int]:
    """Which file a journal is, and its size. Both are 0 if there is none."""
    try:
        status = (folder / f"{name}.jsonl").stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_size
