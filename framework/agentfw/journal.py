"""Append-only records on disk: one JSON value a line, on disk before `append` returns.

The one rule: what was acknowledged is never lost and never changed. A line that a crash or a full disk cut short was never
acknowledged; it is taken out when the journal is opened again, and kept beside it in a `.torn` file.

    with Journal.open(folder / "episodes.jsonl") as journal:
        journal.append({"id": "00000-0"})
        list(journal.records())

Damage anywhere but at the end is no crash of ours: the journal is refused with the line's number, and nothing is touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from .errors import RunFolderError, StorageError

__all__ = ["Journal", "read_journal", "write_whole"]


class Journal:
    """One file of records, open for appending."""

    def __init__(self, path: Path, handle: IO[bytes], size: int) -> None:
        self.path = path
        self._handle = handle
        self._size = size

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open or begin a journal, and mend its end where it was cut short."""
        try:
            size = _mend(path) if path.exists() else 0
            # Unbuffered: a record is one write, whole or cut short, never half of two.
            handle = path.open("ab", buffering=0)
        except OSError as error:
            raise StorageError(f"can't open {path}: {error.strerror or error}", mend="is the disk there and writable?") from error
        return cls(path, handle, size)

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it is on disk when this returns. When it can't be, the file is as it was before."""
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=True).encode() + b"\n"
        try:
            view = memoryview(line)
            while view:
                view = view[self._handle.write(view) :]
            os.fsync(self._handle.fileno())
        except OSError as error:
            self._take_back()
            raise StorageError(
                f"can't write to {self.path}: {error.strerror or error}",
                mend="what was written before is intact; make room on the disk, then resume the run",
            ) from error
        self._size += len(line)

    def records(self) -> Iterator[dict[str, Any]]:
        return read_journal(self.path)

    def close(self) -> None:
        self._handle.close()

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._handle.fileno(), self._size)
        except OSError:
            pass  # the next opening takes the torn end out

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal, also of one that another process is writing: a line that isn't whole yet is left out."""
    if not path.exists():
        return
    with path.open("rb") as handle:
        number = 0
        for line in handle:
            number += 1
            record = _parse(line)
            if record is None:
                if not line.endswith(b"\n") or not handle.read(1):
                    return
                raise _damaged(path, number)
            yield record


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a file under a new name and rename it: whoever reads it sees the old one or the new one, whole."""
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as handle:
            handle.write(data.encode() if isinstance(data, str) else data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(
            f"can't write {path}: {error.strerror or error}", mend="make room on the disk, or write somewhere else"
        ) from error


def _mend(path: Path) -> int:
    """Take a torn end out of a journal; the size of what is whole."""
    good = number = 0
    with path.open("rb") as handle:
        for line in handle:
            number += 1
            if _parse(line) is None:
                if line.endswith(b"\n") and handle.read(1):
                    raise _damaged(path, number)
                handle.seek(good)
                path.with_name(path.name + ".torn").write_bytes(handle.read())
                os.truncate(path, good)
                break
            good += len(line)
    return good


def _parse(line: bytes) -> dict[str, Any] | None:
    """A line's record, or None where it isn't whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _damaged(path: Path, number: int) -> RunFolderError:
    return RunFolderError(
        f"{path}, line {number}, is damaged, and there is more after it",
        mend="a crash doesn't do that: restore the file from a copy, or move it away and start a new run",
    )
