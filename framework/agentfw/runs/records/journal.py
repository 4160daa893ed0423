"""Files of a run: append-only journals, files that are replaced as a whole, and texts that are too long for an agent.

A journal has one JSON value per line, on disk before `append` returns. An acknowledged record is never lost and never
changed. A line that was cut short by a crash or a full disk was not acknowledged. It is removed when the journal is
opened again, and kept in a `.torn` file next to it. Damage anywhere but at the end doesn't come from a crash: the
journal is then refused with the line's number and not modified. Secrets are struck out of all that is written.

`await journal.commit(record)` promises the same as `append`, and shares a flush with all records that arrive while the
disk is busy. `journal.write(record)` doesn't wait: the record survives the end of this process at once, and a power cut
a moment later.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ...boundary.secrets import strike, struck
from ...errors import RunFolderError, StorageError, disk_fix, storing

PRIVATE = 0o600
Record = dict[str, Any]
_SOON = 0.05  # seconds until a record that nobody waits for is flushed, unless another record's flush comes first
_ROOM_TO_TRY = 65_536  # number of bytes that a full disk must have again before anything is recorded
_BINARY = getattr(os, "O_BINARY", 0)  # Windows changes line ends without it


class Journal:
    """One file of records, open for appending."""

    def __init__(self, path: Path, handle: IO[bytes], size: int) -> None:
        self.path, self._handle, self._size, self._torn = path, handle, size, False
        self._flushed = size  # size up to which everything is on disk
        self._failures: list[OSError] = []  # of shared flushes. Each took back all records that were not on disk
        self.failure: StorageError | None = None
        """Why records that were written are not on disk, if there was such a failure since the last `retry`."""
        self._flushing = asyncio.Lock()
        self._next_flush: asyncio.Task[None] | None = None
        self._waits: asyncio.TimerHandle | None = None  # what flushes the records that nobody waits for
        self._in_use = threading.Lock()  # held while another thread flushes the file

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open or create a journal, and repair its end if it was cut short."""
        if path.is_symlink():  # a run of somebody else must not have another file written
            raise StorageError(f"{path} is a link, and records are not written elsewhere", fix=f"remove it: rm {path}")
        try:
            is_new = not path.exists()
            size = 0 if is_new else _mend(path)
            make_private(path)
            # Unbuffered, so that each record is a single write.
            handle = path.open("ab", buffering=0)
            if is_new:
                _sync_folder(path.parent)
        except OSError as error:
            fix = "check that the disk is mounted, writable and not full"
            raise StorageError(f"can't open {path}: {error.strerror or error}", fix=fix) from error
        return cls(path, handle, size)

    def append(self, record: Record) -> Record:
        """Write one record, which is on disk when this returns. If it can't be written, the file is unchanged.

        Returns the record as it is read back, so that the caller continues with the same values as a resumed run. A
        value that isn't JSON raises TypeError or ValueError, and nothing is written.
        """
        line = self._write(record)
        self._flushed = self._size
        return dict(json.loads(line))

    async def commit(self, record: Record) -> Record:
        """Write one record like `append`, but share its flush with others. It is on disk when this returns."""
        line, failures = self._write(record, flush=False), len(self._failures)
        if self._next_flush is None:
            self._next_flush = asyncio.create_task(self._flush())
        await asyncio.shield(self._next_flush)
        if len(self._failures) > failures:
            raise self._cannot_write(self._failures[failures]) from self._failures[failures]
        return dict(json.loads(line))

    def write(self, record: Record) -> None:
        """Write one record without waiting for the disk. If it can't be flushed later, `failure` says so."""
        self._write(record, flush=False)

        def flush_rest() -> None:
            self._waits = None
            if self._flushed < self._size and self._next_flush is None and not self._handle.closed:
                self._next_flush = asyncio.create_task(self._flush())

        if self._waits is None:
            self._waits = asyncio.get_running_loop().call_later(_SOON, flush_rest)

    async def retry(self) -> None:
        """See whether there is room again. Then records are written as before, and otherwise StorageError is raised."""
        async with self._flushing:
            try:
                self._take_back()
                # Without the end of a line, this is no record, also if the process is killed here.
                self._handle.write(b" " * _ROOM_TO_TRY)
                os.fsync(self._handle.fileno())
                self._take_back()
            except OSError as error:
                self._torn = True
                raise self._cannot_write(error) from error
            self.failure = None

    async def _flush(self) -> None:
        """Flush everything that was written until the disk is free."""
        async with self._flushing:
            await asyncio.sleep(0)  # whoever is ready writes first
            self._next_flush = None
            size = self._size
            try:
                await asyncio.to_thread(self._flush_file)
            except OSError as error:
                # Also what was written meanwhile: nobody knows how much of it is on disk.
                self._failures.append(error)
                if self.failure is None:
                    self.failure = self._cannot_write(error)
                    self.failure.__cause__ = error
                self._size, self._torn = self._flushed, True
                with suppress(OSError):
                    self._take_back()
            else:
                self._flushed = size

    def _flush_file(self) -> None:
        with self._in_use:
            if not self._handle.closed:  # closing has flushed it
                os.fsync(self._handle.fileno())

    def _write(self, record: Record, *, flush: bool = True) -> bytes:
        line = encoded(record)
        try:
            if self._torn:
                self._take_back()
            view = memoryview(line)
            while view:
                view = view[self._handle.write(view) :]
            if flush:
                os.fsync(self._handle.fileno())
        except BaseException as error:  # also on interruption: half a line must not remain for the next append
            self._torn = True
            with suppress(OSError):  # otherwise the next append tries again, or the next opening removes the torn end
                self._take_back()
            if not isinstance(error, OSError):
                raise
            raise self._cannot_write(error) from error
        self._size += len(line)
        return line

    def close(self) -> None:
        with self._in_use, self._handle, storing(f"write to {self.path}"):
            if self._flushed < self._size:
                os.fsync(self._handle.fileno())

    def _cannot_write(self, error: OSError) -> StorageError:
        text = f"can't write to {self.path}: {error.strerror or error}"
        return StorageError(text, fix=f"{disk_fix(error)}; earlier records are intact")

    def _take_back(self) -> None:
        os.ftruncate(self._handle.fileno(), self._size)
        self._torn = False

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class NoJournal(Journal):
    """Stands in for a journal where another record has everything: it writes nothing."""

    def __init__(self, path: Path) -> None:
        self.path, self.failure = path, None

    async def commit(self, record: Record) -> Record:
        return dict(json.loads(encoded(record)))

    def write(self, record: Record) -> None:
        """Write nothing."""

    async def retry(self) -> None:
        """Nothing has failed."""

    def close(self) -> None:
        """Nothing is open."""


def read_journal(path: Path) -> Iterator[Record]:
    """Read the records of a journal, even while another process writes it. An incomplete last line is skipped."""
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


def drop_records(path: Path, drops: Callable[[Record], bool], then: Iterable[Record] = ()) -> int:
    """Write a journal again without some of its records, with others at its end. Returns the number of those dropped.

    What was cut off its end before may be of anybody, and is dropped, too.
    """
    dropped, unfinished = 0, path.with_name(f"{path.name}.part")
    with storing(f"write {path}"):
        if path.exists():
            with _replacing(path, unfinished, PRIVATE) as file:
                for record in read_journal(path):
                    if drops(record):
                        dropped += 1
                    else:
                        file.write(encoded(record))
                file.writelines(map(encoded, then))
        _torn_file(path).unlink(missing_ok=True)
        _sync_folder(path.parent)
    return dropped


def _torn_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.torn")


def write_whole(path: Path, data: bytes | str, *, mode: int | None = None) -> None:
    """Replace a file atomically: it is written under a new name and renamed, so readers see it whole, old or new.

    Secrets are struck out of text, and bytes are written as they are. `mode` is that of the file, without what the
    umask takes away. By default it is that of the file before, and a new file is private.
    """
    if mode is None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else PRIVATE
    # Two processes may write the same report at the same time, so each uses its own temporary name.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with storing(f"write {path}"), _replacing(path, temporary, mode) as file:
            file.write(strike(data).encode() if isinstance(data, str) else data)
    except StorageError:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def _replacing(path: Path, temporary: Path, mode: int) -> Iterator[IO[bytes]]:
    """A file that takes the place of another one when it is written."""
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, mode), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def sealed(record: Record) -> str:
    """The text of a file with one record, and a digest by which a change is noticed when it is opened again."""
    record = json.loads(encoded(record))
    return json.dumps({**record, "sha256": _digest(record)}, indent=1, ensure_ascii=False) + "\n"


def unsealed(text: str) -> Record:
    """The record of a sealed file. Raises a ValueError if it isn't as it was written."""
    record: Record = dict(json.loads(text))
    if (digest := record.pop("sha256", None)) is not None and digest != _digest(record):
        raise ValueError("it was changed after it was written")
    return record


def _digest(record: Record) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read, if there is none.

    Whatever holds what people said is made by this, by `write_whole` or by `make_folder`. SQLite gives its other files
    the mode of the database. A file that exists isn't opened: closing one that SQLite has open in this process would
    drop its locks.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, PRIVATE))


def make_folder(path: Path) -> None:
    """Create a folder that only its owner can open, and its parents, if they don't exist."""
    with storing(f"make {path}"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


def sync(path: Path) -> None:
    """Flush a version, a file or a folder, to disk before it is recorded."""
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
        with storing(f"flush {file} to disk"), file.open("r+b") as handle:
            os.fsync(handle.fileno())


def _mend(path: Path) -> int:
    """Remove the torn end of a journal. Returns the size of the rest."""
    good = 0
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if _parse(line) is None:
                if line.endswith(b"\n") and handle.read(1):
                    raise _damaged(path, number)
                handle.seek(good)
                rest = _torn_file(path)
                make_private(rest)
                with rest.open("ab") as torn:
                    torn.write(handle.read())
                os.truncate(path, good)
                break
            good += len(line)
    return good


def encoded(record: Record) -> bytes:
    """The line of a record. Secrets are struck out of it."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    if strike(text) != text:  # in the values, so that a number which looks like a secret stays a number
        record = struck(record)
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A model can write lone surrogates, which UTF-8 can't encode. Escaped, they are valid JSON.
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Record | None:
    """The record of a line, or None if the line is incomplete."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _damaged(path: Path, number: int) -> RunFolderError:
    text = f"{path}, line {number}, is damaged, and more lines follow"
    return RunFolderError(text, fix="restore the file from a backup, or move it away and start a new run")


def _sync_folder(folder: Path) -> None:
    """Flush the folder: a new or renamed file survives a power cut only when its folder is on disk too."""
    if os.name == "nt":  # Windows can't open folders, and flushes them itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network disks can't; the file itself is written
        pass
    finally:
        os.close(handle)


_ROOM = 1_000_000_000  # bytes that the files of a run may take together. What is longer than the rest of it is not kept


class LongTexts:
    def __init__(self, longest: int = 100_000, notes: list[str] | None = None) -> None:
        self.longest, self._notes = longest, [] if notes is None else notes
        self._folder: Path | None = None
        self._room = _ROOM
        self._told = set[str]()

    def open(self, folder: Path) -> None:
        self._folder = folder / "long_texts"
        self._room = _ROOM - sum(file.stat().st_size for file in self._folder.glob("*.txt"))

    def shortened(self, text: str, whose: str) -> str:
        """The text, or its beginning and where the whole is."""
        if len(text) <= self.longest:
            return text
        data, place = text.encode(errors="replace"), ""
        if self._folder is not None:
            path = self._folder / f"{hashlib.sha256(data).hexdigest()[:32]}.txt"
            if not path.exists() and len(data) <= self._room:
                make_folder(self._folder)
                write_whole(path, data)
                self._room -= len(data)
            place = f"{self._folder.name}/{path.name}" if path.exists() else ""
        where = f"the whole is in {place}" if place else "the rest is not kept: there is no room left for long texts"
        if whose not in self._told:
            self._told.add(whose)
            self._notes.append(
                f"{whose} gave a text of {len(text):,} characters; the agent is shown the first {self.longest:,} "
                f"(max_answer), and {where}"
            )
        return f"{text[: self.longest]}\n[shortened: {len(text):,} characters; {where}]"
