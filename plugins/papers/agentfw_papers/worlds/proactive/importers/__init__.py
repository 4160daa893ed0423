"""Readers of public data sets. Each module reads one format, and may know the domain that the data is of.

>>> importer_names()
('abcd',)
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from agentfw.errors import UnknownNameError

from .imported import Imported, Importer

__all__ = ["Imported", "Importer", "importer", "importer_names"]

_NOT_FORMATS = {"__init__", "imported"}


def importer_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in _NOT_FORMATS))


def importer(name: str) -> Importer:
    """The reader of a format."""
    if name not in importer_names():
        raise UnknownNameError("data format", name, importer_names())
    read: Importer = import_module(f"{__name__}.{name}").read
    return read
