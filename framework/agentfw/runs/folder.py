"""A run on disk: its settings, its records, and a lock, so that one process at a time goes on with it.

The one rule: a folder tells all that is needed to understand and to continue the run; nothing lives only in memory.

    RUNS/2026-11-21-inbox-7f3a/
        run.json         settings, resolved; plugins with versions; written once
        episodes.jsonl   one line an episode, as it ended
        metrics.jsonl    one line an episode: figures, scores, reward; written when it was scored and learned from
        summary.json     the whole run in figures; there when it is done
        report.html  curve.png
        lock             held by the process that goes on with the run
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from ..errors import RunFolderError, StorageError, UnknownNameError
from .journal import write_whole
from .records import Records

__all__ = ["FORMAT", "RunFolder", "find_run", "list_runs"]

FORMAT = 1


class RunFolder(Records):
    """One run's folder."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        super().__init__(path)
        self.about = about
        self._lock: int | None = None

    unit = "episodes"
    """What is counted."""

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def total(self) -> int:
        """How many there will be."""
        return int(self.about["total"])

    @property
    def done(self) -> int:
        """How many of them there are."""
        return sum(1 for _ in self.concluded())

    def stages(self) -> Mapping[int, list[dict[str, Any]]]:
        """The figures of earlier stages, by the number of updates before them: a training has such."""
        return {}

    @property
    def headline(self) -> str:
        """The figure that says how well it went."""
        return str(self.about["headline"])

    @property
    def columns(self) -> dict[str, str]:
        """The figures that a table of the run is made of, with their headings; none where it lists them all."""
        return dict(self.about.get("columns", {}))

    @classmethod
    def create(cls, root: Path, environment: str, about: Mapping[str, Any]) -> Self:
        """A new folder below `root`, with everything in it that a resumption needs."""
        now = datetime.now().astimezone()
        stem = f"{now:%Y-%m-%d}-{re.sub(r'[^a-zA-Z0-9]+', '-', environment).strip('-') or 'run'}"
        whole = {"format": FORMAT, "created": now.isoformat(), "python": platform.python_version(), **about}
        try:
            root.mkdir(parents=True, exist_ok=True)
            while True:
                path = root / f"{stem}-{secrets.token_hex(2)}"
                try:
                    path.mkdir()
                    break
                except FileExistsError:
                    continue
        except OSError as error:
            raise StorageError(
                f"can't make a run folder below {root}: {error.strerror}", fix="give another --runs"
            ) from None
        try:
            write_whole(path / "run.json", json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        except StorageError:
            with suppress(OSError):
                path.rmdir()
            raise
        return cls(path, whole)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A folder that is there already; refused with a reason when it is none of ours."""
        file = path / "run.json"
        try:
            about = json.loads(file.read_text("utf-8"))
            found = about["format"]
        except FileNotFoundError:
            raise RunFolderError(f"{path} is no run folder: it has no run.json", fix=_why_no_run(path)) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunFolderError(
                f"{file} can't be understood: {_words(error)}", fix="is it a run of agentfw?"
            ) from None
        if found != FORMAT:
            newer = isinstance(found, int) and found > FORMAT
            raise RunFolderError(
                f"{path} is in format {found}; this agentfw writes and reads {FORMAT}",
                fix="pip install --upgrade agentfw" if newer else "use the agentfw that made it",
            )
        try:
            _check(about)
        except (ValueError, KeyError, TypeError) as error:
            raise RunFolderError(f"{file} can't be understood: {_words(error)}", fix="restore it from a copy") from None
        if about.get("kind") == "training":
            from ..training.folder import TrainingFolder

            return TrainingFolder(path, about)
        return RunFolder(path, about)

    def lock(self) -> None:
        """Keep other processes from going on with this run at the same time."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(
                f"can't go on with {self.path}: {error.strerror}", fix="make the folder writable, and room on its disk"
            ) from None
        # Somebody who only looks at the state holds the lock for an instant.
        for wait in (0.02, 0.05, 0.1, 0.2, None):
            try:
                _lock(handle)
                break
            except OSError:
                if wait is None:
                    owner = _owner(handle)
                    os.close(handle)
                    raise RunFolderError(
                        f"{self.path} is in use" + (f" by process {owner}" if owner else ""),
                        fix="wait for it to end, or stop it",
                    ) from None
                time.sleep(wait)
        self._lock = handle
        with suppress(OSError):  # who holds it is good to know; on a full disk it can't be said
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def summary(self) -> dict[str, Any] | None:
        """The whole run in figures, once it is done."""
        file = self.path / "summary.json"
        try:
            loaded: dict[str, Any] = json.loads(file.read_text("utf-8"))
            loaded["episodes"], loaded["figures"]
            return loaded
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            fix = f"remove it; agentfw runs resume {self.id} sums up anew"
            raise RunFolderError(f"{file} can't be understood: {_words(error)}", fix=fix) from None

    @property
    def state(self) -> str:
        """done, running, or interrupted: it can be resumed."""
        if (self.path / "summary.json").exists():
            return "done"
        try:
            handle = os.open(self.path / "lock", os.O_RDONLY)
        except OSError:
            return "interrupted"
        try:
            _lock(handle)
        except OSError:
            return "running"
        finally:
            os.close(handle)
        return "interrupted"


def list_runs(root: Path) -> list[RunFolder]:
    """The runs below a folder, newest first. What isn't a run is passed over."""
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        try:
            found.append(RunFolder.open(path))
        except RunFolderError:
            continue
    return sorted(found, key=lambda folder: (_made(folder), folder.id), reverse=True)


def find_run(root: Path, name: str) -> RunFolder:
    """A run by its path, its name, the end of its name, or `last`."""
    path = Path(name)
    if name and path.is_dir() and (len(path.parts) > 1 or (path / "run.json").exists()):
        return RunFolder.open(path)
    if name and (root / name).is_dir():
        return RunFolder.open(root / name)
    runs = list_runs(root)
    if name == "last" and runs:
        return runs[0]
    matching = [folder for folder in runs if name and folder.id.endswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise RunFolderError(f'"{name}" fits {len(matching)} runs', fix="give more of the name: agentfw runs list")
    # People type the end of a name: its nearest is looked for among ends of the same length.
    known = {folder.id for folder in runs} | {folder.id[-len(name) :] for folder in runs if name}
    raise UnknownNameError("run", name, known, fix=f"see: agentfw runs list (below {root})")


def _made(folder: RunFolder) -> float:
    try:
        return datetime.fromisoformat(str(folder.about["created"])).timestamp()
    except (KeyError, ValueError):
        return 0.0


def _check(about: Mapping[str, Any]) -> None:
    """Raise where something is missing that a list of runs shows."""
    spec = about["spec"]
    int(about["total"]), str(about["headline"]), str(spec["interface"])
    for choice in (spec["environment"], spec["policy"], *spec["memories"]):
        str(choice["name"])


def _why_no_run(path: Path) -> str:
    if not path.is_dir():
        return "see: agentfw runs list"
    if all(entry.name.startswith("run.json.") for entry in path.iterdir()):
        return "it was cut off while it was made; nothing is lost by removing it"
    return "give the folder of a run: agentfw runs list"


def _words(error: Exception) -> str:
    """What a person can make of it: a KeyError's text is a bare key."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _owner(handle: int) -> str:
    """The process that holds the lock, where that can be read."""
    with suppress(OSError):
        return os.read(handle, 32).decode(errors="replace").strip()
    return ""


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no flock; msvcrt locks the first byte instead
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
