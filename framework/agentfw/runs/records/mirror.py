"""A copy of a run's folder in object storage, such as s3://bucket/runs: written while the run works, read anywhere.

A mirror is at each moment a folder that the run could have left if it had been killed a while ago, so what holds for a
folder after `kill -9` holds for it as well. For that, files are looked at in the reverse of the order in which a run
writes them: what the last file says of the others is then true of those that were looked at later. They are sent in the
order of writing. Journals only grow, so they are sent up to the length that they had.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ...boundary.gate import needing
from ...errors import RunFolderError, SettingsError, StorageError
from .journal import make_folder, make_private, write_whole

_OWNER = "mirror.json"
_FETCHED = ".fetched.json"
_OWN = {"lock", _OWNER, _FETCHED}
_PASSING = "streams"  # the folder with files of answers in progress, which come and go
_LEFT_OUT = (".new", ".torn", "-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\0"
_CHANGED = ("ETag", "etag", "mtime", "created", "LastModified")  # what changes with an object, in different storages
_LATE = ("metrics.jsonl", "heard.jsonl", "updates.jsonl", "state.json", "summary.json", "run.json")
"""Files that say something of others, in the order in which they are written. `run.json` makes it a run."""


class _Seen(NamedTuple):
    path: Path
    name: str
    mark: tuple[int, int]  # changes when the file does
    size: int | None = None  # bytes of a journal
    content: bytes | None = None


class Mirror:
    """The mirror of one run, as the process that executes the run writes it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, f"{address.rstrip('/')}/{folder.name}"
        self._storage, self._root = _storage(self.address)
        self._sent: dict[str, tuple[int, int]] = {}
        # Their descriptors stay open: closing a file that SQLite has open in this process would drop its locks.
        self._databases: dict[Path, int] = {}
        self._is_ours = False
        self._owner = json.dumps({"machine": socket.gethostname(), "process": os.getpid(), "id": secrets.token_hex(8)})

    def send(self) -> None:
        """Send what has changed.

        The first time, this takes the mirror over. A process on another machine that still has it stops writing to it.
        """
        with _reached(self.address), tempfile.TemporaryDirectory(prefix="agentfw-mirror-") as room:
            if not self._is_ours:
                self._storage.makedirs(self._root, exist_ok=True)
                self._storage.pipe_file(f"{self._root}/{_OWNER}", self._owner.encode())
                there = (path.removeprefix(self._root).lstrip("/") for path in self._storage.find(self._root))
                self._sent |= {name: (0, 0) for name in there if name not in _OWN}  # by a process before this one
                self._is_ours = True
            owner = self._storage.cat_file(f"{self._root}/{_OWNER}").decode()
            if owner != self._owner:
                other = json.loads(owner)
                text = f"process {other['process']} on {other['machine']} has taken {self.address} over"
                raise StorageError(text, fix="let one machine at a time execute a run")
            found = [seen for path in reversed(_files(self.folder)) if (seen := self._look(path, Path(room)))]
            for seen in reversed(found):
                target = f"{self._root}/{seen.name}"
                self._storage.makedirs(str(PurePosixPath(target).parent), exist_ok=True)
                if seen.content is not None:
                    self._storage.pipe_file(target, seen.content)
                elif seen.size is None:
                    self._storage.put_file(str(seen.path), target)
                else:
                    with seen.path.open("rb") as source, self._storage.open(target, "wb") as sink:
                        left = seen.size
                        while left and (piece := source.read(min(left, 1 << 22))):
                            sink.write(piece)
                            left -= len(piece)
                self._sent[seen.name] = seen.mark
            gone = (name for name in self._sent if not (self.folder / name).exists())
            for name in sorted(gone, key=_rank, reverse=True):  # first what says something of the others
                self._storage.rm_file(f"{self._root}/{name}")
                del self._sent[name]

    def _look(self, path: Path, room: Path) -> _Seen | None:
        """The file, if it has changed since it was sent."""
        name = path.relative_to(self.folder).as_posix()
        try:
            about, source = path.stat(), path
            mark = about.st_mtime_ns, about.st_size
            if path.suffix != ".jsonl" and path.name not in _LATE and path not in self._databases:
                handle = os.open(path, os.O_RDONLY)
                if os.read(handle, len(_SQLITE)) == _SQLITE:
                    self._databases[path] = handle
                else:
                    os.close(handle)
            is_database = path in self._databases
            if is_database:
                log = path.with_name(f"{path.name}-wal")
                mark = max(mark[0], log.stat().st_mtime_ns if log.exists() else 0), mark[1]
            if mark == self._sent.get(name):
                return None
            if is_database:  # as it is between two transactions
                address, source = f"{path.absolute().as_uri()}?mode=ro", room / secrets.token_hex(8)
                with (
                    closing(sqlite3.connect(address, uri=True, timeout=30)) as database,
                    closing(sqlite3.connect(source)) as copy,
                ):
                    database.backup(copy)
            size = about.st_size if path.suffix == ".jsonl" else None
            content = path.read_bytes() if path.name in _LATE else None
            return _Seen(source, name, mark, size, content)
        except FileNotFoundError:  # removed meanwhile
            return None


def check_address(address: str) -> None:
    """Raise if nothing reaches such an address. Nothing is asked of it."""
    _storage(address)


def fetched(address: str, root: Path) -> Path:
    """The folder below `root` of a run in object storage, brought up to date unless the run has worked in it here."""
    storage, remote = _storage(address)
    folder = root / PurePosixPath(remote).name
    known: dict[str, Any] | None = None
    with suppress(OSError, ValueError):  # else nothing was fetched before
        known = json.loads((folder / _FETCHED).read_text("utf-8"))
    if folder.exists() and known is None:
        return folder
    for name, one in (known or {}).items():
        if not (folder / name).exists() or _mark(folder / name) != one["mark"]:
            return folder
    with _reached(address):
        found = storage.find(remote, detail=True)
        names = {path.removeprefix(remote).lstrip("/"): path for path in found}
        if "run.json" not in names:
            raise RunFolderError(f"there is no run at {address}", fix="give the address of its folder")
        if outside := next((name for name in names if ".." in re.split(r"[/\\]", name)), ""):
            raise RunFolderError(f"the run at {address} has a file outside its folder: {outside}", fix="don't use it")
        tokens = {}
        for name, about in ((name, found[path]) for name, path in names.items() if name not in _OWN):
            when = next((about[key] for key in _CHANGED if about.get(key)), "")
            tokens[name] = f"{when} {about.get('size')}"
        if known is not None and {name: one["token"] for name, one in known.items()} == tokens:
            return folder
        make_folder(root)
        # A folder in a folder: it isn't a run of `root` before it is complete.
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=root) as room:
            new = Path(room) / folder.name
            # What says something of other files is fetched before them: they may grow meanwhile.
            for name in sorted(tokens, key=_rank, reverse=True):
                make_folder((new / name).parent)
                if known is not None and known.get(name, {}).get("token") == tokens[name]:
                    shutil.copy2(folder / name, new / name)
                else:
                    make_private(new / name)
                    with storage.open(names[name], "rb") as source, (new / name).open("wb") as sink:
                        shutil.copyfileobj(source, sink, 1 << 22)
            marks = {name: {"token": token, "mark": _mark(new / name)} for name, token in tokens.items()}
            write_whole(new / _FETCHED, json.dumps(marks))
            if folder.exists():
                folder.rename(Path(room) / "before")
            new.rename(folder)
    return folder


def _mark(file: Path) -> list[int]:
    about = file.stat()
    return [about.st_mtime_ns, about.st_size]


def _files(folder: Path) -> list[Path]:
    """The files to mirror, in the order in which a run writes them. A link could lead to any file of this user."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    kept = [name for name in found if name.name not in _OWN and not name.name.endswith(_LEFT_OUT)]
    names = sorted((name for name in kept if name.parts[0] != _PASSING), key=lambda name: _rank(name.as_posix()))
    return [found[name] for name in names]


def _rank(name: str) -> tuple[int, str]:
    """The place of a file in the order of writing: episodes, then memories, then what refers to both."""
    last = PurePosixPath(name).name
    if last in _LATE:
        return 2 + _LATE.index(last), name
    return int(not last.endswith((".jsonl", ".safetensors", ".json"))), name


def _storage(address: str) -> tuple[Any, str]:
    with needing("object storage", "cloud"):
        import fsspec
    try:
        with needing(f"the storage at {address}", "cloud"):
            # Listings that are kept would hide what another machine has written.
            storage, path = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ValueError as error:
        raise SettingsError(f"{address}: {error}", fix="use an address such as s3://bucket/runs") from None
    return storage, str(path).rstrip("/")


@contextmanager
def _reached(address: str) -> Iterator[None]:
    try:
        yield
    except (StorageError, RunFolderError):
        raise
    except Exception as error:  # each storage has exceptions of its own
        text = f"can't reach {address}: {type(error).__name__}: {error}"
        raise StorageError(text, fix="check the address, the network, and the keys in the environment") from error
