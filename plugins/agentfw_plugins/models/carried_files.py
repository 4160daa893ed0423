"""The files of an adapter as plain values, for processes that don't share a disk with this one.

write_files(read_files(adapter), elsewhere)
marks_of(adapter)       # equal where the disk is shared
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["marks_of", "read_files", "write_files"]


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by their path in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}


def write_files(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def marks_of(folder: Path) -> list[list[object]]:
    """Name, size and time of each file: whoever sees the same marks sees the same files."""
    readable = [path for path in _files(folder) if os.access(path, os.R_OK)]
    found = [(path.relative_to(folder).as_posix(), path.stat()) for path in readable]
    return [[name, about.st_size, about.st_mtime_ns] for name, about in found]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
