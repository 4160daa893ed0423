"""Reads the files of a user's copy. What is damaged becomes a gap that names the file and the line.

Nothing here raises for bad content. No code and no pickle of a copy is ever loaded.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_LARGEST = 256 * 1024 * 1024
"""Largest file that is read, in bytes."""
_PICKLE = b"\x80"
_SHOWN = 60
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that is missing or can't be used."""

    file: str
    line: int
    """0 where it is about the whole file."""
    what: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' if self.line else ''}: {self.what}"


@dataclass(slots=True)
class Gaps:
    """All gaps of one copy."""

    root: Path
    found: list[Gap] = field(default_factory=list)

    def add(self, file: Path, what: str, line: int = 0) -> None:
        name = file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else file.name
        self.found.append(Gap(name, line, what))


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table, each with the columns of the file."""

    columns: tuple[str, ...] = ()
    rows: tuple[dict[str, str], ...] = ()


def parse_time(text: object) -> datetime | None:
    """A time such as 2024-09-06 08:30:00, or None."""
    if not isinstance(text, str) or not _TIME.fullmatch(text.strip()):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def read_text(path: Path, gaps: Gaps) -> str | None:
    """The text of a file, or None where there is none to read."""
    try:
        if not path.is_file():
            gaps.add(path, "there is no such file")
            return None
        if path.stat().st_size > _LARGEST:
            gaps.add(path, f"the file has more than {_LARGEST // 2**20} MiB")
            return None
        data = path.read_bytes()
    except OSError as error:
        gaps.add(path, f"can't be read: {error.strerror}")
        return None
    if data.startswith(_PICKLE):
        gaps.add(path, "is a pickle, which isn't read; convert it to JSON")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        gaps.add(path, "isn't UTF-8, and is read as Latin-1", data.count(b"\n", 0, error.start) + 1)
        return data.decode("latin-1")


def read_json(path: Path, gaps: Gaps) -> Any:
    """The value of a JSON file, or None."""
    text = read_text(path, gaps)
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        gaps.add(path, f"isn't JSON: {error.msg}", error.lineno)
    except (ValueError, RecursionError) as error:
        gaps.add(path, f"can't be read as JSON: {str(error)[:_SHOWN] or type(error).__name__}")
    return None


def read_list(path: Path, gaps: Gaps) -> Iterator[tuple[int, Any]]:
    """The entries of a JSON file that holds a list, each with its line. What stands before damage is still given."""
    text = read_text(path, gaps)
    if text is None:
        return
    decoder, place = json.JSONDecoder(), _skip(text, 0)
    if text[place : place + 1] != "[":
        gaps.add(path, "isn't a list", 1)
        return
    place = _skip(text, place + 1)
    line, counted = 1, 0
    while text[place : place + 1] != "]":
        line, counted = line + text.count("\n", counted, place), place
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "lineno", line)
            gaps.add(path, f"isn't JSON from here on: {str(error)[:_SHOWN]}", at)
            return
        yield line, value
        place = _skip(text, place)
        if text[place : place + 1] == ",":
            place = _skip(text, place + 1)
        elif text[place : place + 1] != "]":
            gaps.add(path, "isn't JSON from here on: no comma", line)
            return


def read_table(
    path: Path, gaps: Gaps, *, required: Sequence[str] = (), times: Sequence[str] = (), key: str = ""
) -> Table:
    """The rows of a CSV file. `times` are columns of times, and `key` is a column whose values must differ."""
    text = read_text(path, gaps)
    if text is None:
        return Table()
    reader = csv.reader(io.StringIO(text.replace("\0", ""), newline=""), strict=True)
    columns = [name.strip() for name in next(_lines(reader, path, gaps), (0, []))[1]]
    if not columns:
        gaps.add(path, "has no columns", 1)
        return Table()
    missing = [name for name in required if name not in columns]
    if missing:
        gaps.add(path, f"has no column {', '.join(missing)}", 1)
    if len(set(columns)) < len(columns):
        gaps.add(path, "has two columns of one name", 1)
    rows: list[dict[str, str]] = []
    seen: set[str] = set()
    for line, values in _lines(reader, path, gaps):
        if not values:
            continue
        if len(values) != len(columns):
            gaps.add(path, f"has {len(values)} values in {len(columns)} columns; the row is left out", line)
            continue
        row = dict(zip(columns, values, strict=True))
        wrong = next((name for name in times if name in row and parse_time(row[name]) is None), None)
        if wrong is not None:
            gaps.add(path, f"has the {wrong} {row[wrong][:_SHOWN]!r}, which is no time; the row is left out", line)
            continue
        if key in row:
            if row[key] in seen:
                gaps.add(path, f"has the {key} {row[key][:_SHOWN]!r} twice; the first row counts", line)
                continue
            seen.add(row[key])
        rows.append(row)
    return Table(tuple(columns), tuple(rows))


def _lines(reader: Any, path: Path, gaps: Gaps) -> Iterator[tuple[int, list[str]]]:
    """The rows of a reader. A line that can't be read is left out."""
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            gaps.add(path, f"can't be read: {error}; the row is left out", reader.line_num)
            continue
        yield reader.line_num, values


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place
