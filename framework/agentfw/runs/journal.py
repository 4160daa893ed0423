"""Append-only records on disk: one JSON value a line, on disk before `append` returns.

What was acknowledged is never lost and never changed. A line that a crash or a full disk cut short was never
acknowledged; it is taken out when the journal is opened again, and kept beside it in a `.torn` file.

    with Journal.open(folder / "episodes.jsonl") as journal:
        record = journal.append({"id": "00000-0", "times": (1, 2)})    # as it will be read: {"times": [1, 2], ...}

Damage anywhere but at the end doesn't come from a crash: the journal is refused with the number of the line, and
nothing is changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..errors import RunFolderError, StorageError

__all__ = ["Journal", "make_folder", "read_journal", "write_whole"]

Record = dict[str, Any]


class Journal:
    """One file of records, open for appending."""

    def __init__(self, path: Path, handle: IO[bytes], size: int) -> None:
        self.path = path
        self._handle = handle
        self._size = size
        self._torn = False

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open or begin a journal, and repair its end where it was cut short."""
        try:
            is_new = not path.exists()
            size = 0 if is_new else _mend(path)
            # Unbuffered: a record is one write, whole or cut short, never half of two.
            handle = path.open("ab", buffering=0)
            if is_new:
                _sync_folder(path.parent)
        except OSError as error:
            reason = error.strerror or error
            raise StorageError(
                f"can't open {path}: {reason}", fix="is the disk there, writable and not full?"
            ) from error
        return cls(path, handle, size)

    def append(self, record: Record) -> Record:
        """Write one record; it is on disk when this returns. When it can't be, the file is as it was before.

        The answer is the record as a reader finds it: whoever goes on with that does the same as after a resumption. A
        record that can't be JSON is a TypeError or ValueError, and nothing is written.
        """
        line = _encode(record)
        try:
            if self._torn:
                self._take_back()
            view = memoryview(line)
            while view:
                view = view[self._handle.write(view) :]
            os.fsync(self._handle.fileno())
        except BaseException as error:  # an interruption, too, must not leave half a line for the next append
            self._torn = True
            with suppress(OSError):  # else the next append tries again, or the next opening takes the torn end out
                self._take_back()
            if not isinstance(error, OSError):
                raise
            raise StorageError(
                f"can't write to {self.path}: {error.strerror or error}",
                fix="make room on the disk; what was written before is intact",
            ) from error
        self._size += len(line)
        loaded: Record = json.loads(line)
        return loaded

    def close(self) -> None:
        self._handle.close()

    def _take_back(self) -> None:
        os.ftruncate(self._handle.fileno(), self._size)
        self._torn = False

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[Record]:
    """The records of a journal, also of one that another process is writing: a line that isn't whole is left out."""
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunFolderError(f"can't read {path}: {error.strerror}", fix="make it readable") from error
    with handle:
        for number, line in enumerate(handle, start=1):
            record = _parse(line)
            if record is None:
                if not line.endswith(b"\n") or not handle.read(1):
                    return
                raise _damaged(path, number)
            yield record


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a file under a new name and rename it: whoever reads it sees the old one or the new one, whole."""
    # Two processes may write the same report at once: each has a name of its own until it is whole.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as handle:
            handle.write(data.encode() if isinstance(data, str) else data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StorageError(
            f"can't write {path}: {error.strerror or error}", fix="make room on the disk, and make the folder writable"
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where there is none yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"can't make {path}: {error.strerror or error}", fix="make room on the disk, and make the folder writable"
        ) from error


def _mend(path: Path) -> int:
    """Take a torn end out of a journal; the size of what is whole."""
    good = 0
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if _parse(line) is None:
                if line.endswith(b"\n") and handle.read(1):
                    raise _damaged(path, number)
                handle.seek(good)
                with path.with_name(f"{path.name}.torn").open("ab") as torn:
                    torn.write(handle.read())
                os.truncate(path, good)
                break
            good += len(line)
    return good


def _encode(record: Record) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A model can say half of a surrogate pair, which UTF-8 can't hold. Escaped, it is JSON like any other.
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Record | None:
    """A line's record, or None where it isn't whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _damaged(path: Path, number: int) -> RunFolderError:
    return RunFolderError(
        f"{path}, line {number}, is damaged, and there is more after it",
        fix="a crash doesn't do that: restore the file from a copy, or move it away and start a new run",
    )


def _sync_folder(folder: Path) -> None:
    """A file that is new or renamed survives a power cut once its folder is on disk, too."""
    if os.name == "nt":  # Windows can't open folders, and does this by itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network disks can't; the file itself is written
        pass
    finally:
        os.close(handle)
