"""A run on disk: its settings, its records, and a lock, so that one process at a time goes on with it.

The one rule: a folder tells all that is needed to understand and to continue the run; nothing lives only in memory.

    RUNS/2026-11-21-inbox-7f3a/
        run.json         settings, resolved; plugins with versions; written once
        episodes.jsonl   one line an episode, as it ended
        metrics.jsonl    one line an episode: figures, scores, reward; written when it was scored and learned from
        summary.json     the whole run in figures; there when it is done
        report.html  curve.png
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .episode import Episode
from .errors import RunFolderError, StorageError, UnknownNameError
from .journal import Journal, read_journal, write_whole

__all__ = ["FORMAT", "RunFolder", "find_run", "list_runs"]

FORMAT = 1


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = path, about
        self._lock: int | None = None

    @property
    def id(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, root: Path, environment: str, about: Mapping[str, Any]) -> RunFolder:
        """A new folder below `root`, with everything in it that a resumption needs."""
        stem = f"{time.strftime('%Y-%m-%d')}-{re.sub(r'[^a-zA-Z0-9]+', '-', environment).strip('-') or 'run'}"
        whole = {
            "format": FORMAT,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "python": platform.python_version(),
            **about,
        }
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
            raise StorageError(f"can't make a run folder below {root}: {error.strerror}", mend="give another --runs") from None
        write_whole(path / "run.json", json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        return cls(path, whole)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A folder that is there already; refused with a reason when it is none of ours."""
        try:
            about = json.loads((path / "run.json").read_text("utf-8"))
            found = about["format"]
            about["spec"]["environment"]["name"]
        except FileNotFoundError:
            hint = "it was cut off while it was made; nothing is lost by removing it" if path.is_dir() else ""
            raise RunFolderError(f"{path} is no run folder: it has no run.json", mend=hint or "see: agentfw runs list") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(f"{path}/run.json can't be understood: {error!r}", mend="is it a run of agentfw?") from None
        if found != FORMAT:
            raise RunFolderError(
                f"{path} is in format {found}; this agentfw writes and reads {FORMAT}",
                mend="upgrade agentfw" if isinstance(found, int) and found > FORMAT else "use the agentfw that made it",
            )
        return cls(path, about)

    def lock(self) -> None:
        """Keep other processes from going on with this run at the same time."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
        except OSError:
            owner = os.read(handle, 32).decode(errors="replace").strip()
            os.close(handle)
            raise RunFolderError(
                f"{self.path} is in use" + (f" by process {owner}" if owner else ""),
                mend="wait for it to end, or stop it; then resume",
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._lock = handle

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def journal(self, name: str) -> Journal:
        return Journal.open(self.path / f"{name}.jsonl")

    def episodes(self) -> Iterator[Episode]:
        """What is on disk, in the order in which it was written."""
        for record in read_journal(self.path / "episodes.jsonl"):
            yield Episode.from_record(record)

    def metrics(self) -> list[dict[str, Any]]:
        """The figures of each episode, in the order of the tasks."""
        return sorted(read_journal(self.path / "metrics.jsonl"), key=lambda record: str(record.get("episode")))

    def summary(self) -> dict[str, Any] | None:
        """The whole run in figures, once it is done."""
        try:
            loaded: dict[str, Any] = json.loads((self.path / "summary.json").read_text("utf-8"))
            return loaded
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{self.path}/summary.json can't be read: {error}", mend="agentfw report writes it anew") from None

    @property
    def state(self) -> str:
        """done, running, or interrupted: it can be resumed."""
        if (self.path / "summary.json").exists():
            return "done"
        try:
            self.lock()
        except RunFolderError:
            return "running"
        self.unlock()
        return "interrupted"


def list_runs(root: Path) -> list[RunFolder]:
    """The runs below a folder, newest first. What isn't a run is passed over."""
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        try:
            found.append(RunFolder.open(path))
        except RunFolderError:
            continue
    return sorted(found, key=lambda folder: (str(folder.about.get("created")), folder.id), reverse=True)


def find_run(root: Path, name: str) -> RunFolder:
    """A run by its path, its name, the end of its name, or `last`."""
    path = Path(name)
    if path.is_dir() and (path / "run.json").exists():
        return RunFolder.open(path)
    if (root / name).is_dir():
        return RunFolder.open(root / name)
    runs = list_runs(root)
    if name == "last" and runs:
        return runs[0]
    matching = [folder for folder in runs if folder.id.endswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise RunFolderError(f'"{name}" fits {len(matching)} runs', mend="give more of the name: agentfw runs list")
    raise UnknownNameError("run", name, [folder.id for folder in runs], mend=f"see: agentfw runs list (below {root})")


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no flock; msvcrt locks the first byte instead
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
