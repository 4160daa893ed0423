"""Reads installed entry points directly from the `*.dist-info` folders on `sys.path`.

Nothing is imported and nothing raises. `importlib.metadata` costs 60 ms of CPU, more than the rest of `agentfw --help`,
so this module reads only the one file that matters, in the folders that pip and uv write. Zip files and old
`*.egg-info` folders are not supported on purpose. Unreadable files are skipped and listed in `Scan.problems`.

    >>> [found.distribution for found in entry_points("agentfw")]
    ['agentfw', 'agentfw-notes']
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["EntryPoint", "MetadataProblem", "Scan", "entry_points", "normalise", "scan"]

SUFFIX = ".dist-info"


class EntryPoint(NamedTuple):
    """One line of a distribution's entry_points.txt."""

    name: str
    value: str
    group: str
    distribution: str
    version: str
    location: str
    """The dist-info folder that it was read from."""

    @property
    def module(self) -> str:
        return self.value.partition("[")[0].partition(":")[0].strip()

    def load(self) -> object:
        """Import the module and return the object. Raises whatever the import raises."""
        loaded: object = importlib.import_module(self.module)
        # The part in brackets is an old syntax for extras. Installers ignore it too.
        for attribute in self.value.partition("[")[0].partition(":")[2].strip().split("."):
            if attribute:
                loaded = getattr(loaded, attribute)
        return loaded


class MetadataProblem(NamedTuple):
    """An entry_points.txt that was skipped, and why."""

    distribution: str
    version: str
    location: str
    text: str


class Scan(NamedTuple):
    """The result of one scan of the path."""

    entry_points: list[EntryPoint]
    problems: list[MetadataProblem]
    distributions: dict[str, str]
    """Every installed distribution with its version, including those without entry points."""


def normalise(name: str) -> str:
    """A distribution's normalised name: `Agentfw_Notes` and `agentfw-notes` are the same."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def entry_points(group: str, path: Sequence[str] | None = None) -> list[EntryPoint]:
    """The entry points of `group`, sorted by distribution and name."""
    return scan(group, path).entry_points


def scan(group: str, path: Sequence[str] | None = None) -> Scan:
    """Scan `path` (default: `sys.path`). Of two distributions with the same name the first wins, as for imports."""
    found: list[EntryPoint] = []
    problems: list[MetadataProblem] = []
    distributions: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path if path is None else path):
        for entry in _dist_infos(folder or os.curdir):
            stem, _, version = entry[: -len(SUFFIX)].rpartition("-")
            distribution = normalise(stem)
            if not distribution or distribution in distributions:
                continue
            distributions[distribution] = version
            location = os.path.join(folder, entry)
            try:
                pairs = _read(os.path.join(location, "entry_points.txt"), group)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                problems.append(MetadataProblem(distribution, version, location, reason))
                continue
            for name, value in pairs.items():
                found.append(EntryPoint(name, value, group, distribution, version, location))
    found.sort(key=lambda entry_point: (entry_point.distribution, entry_point.name))
    return Scan(found, problems, distributions)


def _dist_infos(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:  # not a folder (a zip file), deleted, or not readable: Python's import skips it too
        return []
    # pip renames folders to "~name" before deleting them. An interrupted upgrade leaves such a folder behind.
    return sorted(name for name in names if name.endswith(SUFFIX) and not name.startswith("~"))


def _read(file: str, group: str) -> dict[str, str]:
    """The entries of one group. Raises ValueError with a readable message if the file is malformed."""
    try:
        with open(file, "rb") as stream:
            content = stream.read()
    except FileNotFoundError:
        return {}
    if group.encode() not in content:  # true for most distributions, so it saves decoding and splitting
        return {}
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError("entry_points.txt isn't UTF-8 text") from None
    pairs: dict[str, str] = {}
    section: str | None = None
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            if line[-1] != "]":
                raise ValueError(f"entry_points.txt line {number}: the bracket of {line!r} isn't closed")
            section = line[1:-1].strip()
            continue
        if section is None:
            raise ValueError(f"entry_points.txt line {number}: {line!r} comes before any [group]")
        if section != group:
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        if not name or not value:
            raise ValueError(f"entry_points.txt line {number}: {line!r} isn't of the form name = package.module")
        if name in pairs:
            raise ValueError(f"entry_points.txt line {number}: the name {name!r} is defined twice")
        pairs[name] = value
    return pairs
