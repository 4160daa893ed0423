"""Remembers which folders of others a person has read and approved, by a digest of every file in them.

Skills, and the servers that come with them, tell a model what to do, and start programs. Until a person has approved
them they are data. What a person has approved is in `approved.json` beside their agentfw.toml. A folder that has
changed since is no longer approved. What an installed distribution ships was approved when it was installed.

    ask(Path("skills"), out)              # in the terminal, if there is one
    require_approved(Path("skills"))      # an error with the command that approves, or nothing
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from ..errors import StorageError, UsageError
from ..printing.out import Out
from .project import user_folder

__all__ = ["approve", "ask", "ask_for_skills", "is_approved", "require_approved"]

_FILE = "approved.json"
_MOST, _LARGEST = 10_000, 100_000_000
"""How many files a folder that is approved may have, and bytes in all. Nobody reads more."""
_SHOWN = 20
"""How many files are listed before a person is asked."""


def files_of(folder: Path) -> list[Path]:
    """Every file in a folder, sorted, but for what links lead to, and what Git and Python keep there."""
    found: list[Path] = []
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__"))
        found += [Path(here, name) for name in sorted(files)]
        if len(found) > _MOST:
            raise UsageError(f"{folder} has more than {_MOST:,} files", fix="name a smaller folder")
    return found


def digest_of(folder: Path) -> str:
    """The digest of what is in a folder: names, contents, and where links lead to."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", fix="check the path")
    whole, size = sha256(), 0
    for file in files_of(folder):
        try:
            content = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        except OSError as error:
            raise UsageError(f"{file} can't be read: {error.strerror}", fix="make the file readable") from error
        size += len(content)
        if size > _LARGEST:
            raise UsageError(f"{folder} has more than {_LARGEST // 1_000_000} MB", fix="name a smaller folder")
        for part in (file.relative_to(folder).as_posix().encode(), content):
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _approved() -> dict[str, str]:
    try:
        found = json.loads((user_folder() / _FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_approved(folder: Path) -> bool:
    """Whether a person has approved what is in a folder now."""
    return digest_of(folder) in _approved()


def approve(folder: Path) -> None:
    """Remember that a person has approved what is in a folder now."""
    file = user_folder() / _FILE
    known = {**_approved(), digest_of(folder): str(folder.absolute())}
    partial = file.with_name(f"{_FILE}.{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(known, indent=1), "utf-8")
        partial.replace(file)
    except OSError as error:
        raise StorageError(f"can't write {file}: {error.strerror}", fix="make its folder writable") from error


def ask_for_skills(skills: Sequence[str], out: Out, *, yes: bool = False) -> None:
    """Ask about each folder of `--skill`. What is no folder is the name of a distribution, and needs no approval."""
    for folder in map(Path, skills):
        if folder.is_dir():
            ask(folder, out, yes=yes)


def ask(folder: Path, out: Out, *, yes: bool = False) -> None:
    """Approve a folder if a person says so: with `yes`, or in the terminal, where its files are listed."""
    if is_approved(folder):
        return
    if not yes:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            require_approved(folder)
        files = files_of(folder)
        for file in files[:_SHOWN]:
            out.note(f"{file} ({file.lstat().st_size:,} bytes)")
        if len(files) > _SHOWN:
            out.note(f"and {len(files) - _SHOWN:,} more files")
        sys.stderr.write(
            f"What is in {folder} tells a model what to do, and may start programs. Read it first. Approve? [y/N] "
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError(f"{folder} isn't approved", fix="leave it out, or approve it when you have read it")
    approve(folder)


def require_approved(folder: Path) -> None:
    """Raise unless a person has approved the folder as it is."""
    if not is_approved(folder):
        raise UsageError(
            f"nobody has approved what is in {folder}, or it has changed since",
            fix=f"read its files, then: agentfw plugins approve {shlex.quote(str(folder))}",
        )
