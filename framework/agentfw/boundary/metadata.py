"""Installed entry points, read through importlib.metadata, with the broken ones listed instead of raised.

`importlib.metadata.entry_points` raises when a single distribution has a malformed file, whosever it is. Here, a file
that doesn't mention the group is left alone, and one that does is a problem of its distribution.

    >>> "agentfw-notes" in [found.distribution for found in entry_points("agentfw")]
    True

It also knows where a distribution was installed from, so that an error can say what to install beside it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import direct_url, one_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = [
    "EntryPoint",
    "MetadataProblem",
    "Scan",
    "blame",
    "direct_url",
    "entry_points",
    "installed_places",
    "normalise",
    "scan",
    "source_of",
    "source_tree",
    "version_of",
]

_FILE = "entry_points.txt"
_LINE = 120  # letters of a summary; a distribution may have written a paragraph


class EntryPoint(NamedTuple):
    """One entry point of one distribution."""

    name: str
    value: str
    distribution: str
    version: str
    file: str = ""
    """The path of a plugin that is a single file and no distribution."""
    summary: str = ""
    """The line on the distribution in its metadata."""
    group: str = ""

    @property
    def module(self) -> str:
        return self.value.partition("[")[0].partition(":")[0].strip()

    def folder(self) -> Path | None:
        """The folder of the package that it names. Nothing is imported; None if the package isn't there."""
        from importlib.util import find_spec

        top, *below = self.module.split(".")
        try:
            found = find_spec(top)
        except (ImportError, ValueError):
            return None
        places = found.submodule_search_locations if found is not None else None
        folders = (Path(place, *below) for place in places or ())
        return next((folder for folder in folders if folder.is_dir()), None)

    def load(self) -> object:
        """Import the module and walk to the object; raises whatever the import raises."""
        from importlib.metadata import EntryPoint as Installed

        loaded: object = Installed(self.name, self.value, "").load()
        return loaded


class MetadataProblem(NamedTuple):
    """A distribution whose entry points can't be read, and why."""

    distribution: str
    version: str
    text: str
    fix: str = ""
    """What to do about it, if that isn't to install it again."""


class Scan(NamedTuple):
    """The entry points of some groups."""

    entry_points: list[EntryPoint]
    problems: list[MetadataProblem]


@cache
def normalise(name: str) -> str:
    """A distribution's normalised name: `Agentfw_Notes` and `agentfw-notes` are the same."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def version_of(distribution: str) -> str:
    """The installed version of a distribution; empty where it isn't installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution) or ""
    except (PackageNotFoundError, ValueError, KeyError):  # ValueError: an empty name, or METADATA that isn't UTF-8
        return ""


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of `group`, sorted by distribution and name."""
    return scan(group).entry_points


def scan(*groups: str) -> Scan:
    """The entry points of groups, sorted, and the distributions that were meant to have some and can't be read."""
    found: list[EntryPoint] = []
    problems: list[MetadataProblem] = []
    for installed, folder, own, own_version in _installed():
        # Only the names of those that mention a group are read: parsing all METADATA files would take a second.
        if not _mentions(installed, folder, groups):
            continue
        if own.startswith("~"):
            left = f"an interrupted pip left {folder} behind"
            problems.append(MetadataProblem(own, own_version, left, "delete that folder"))
            continue
        file = "METADATA"
        try:
            parsed = installed.metadata
            about = {key: parsed[key] for key in ("Name", "Version", "Summary") if key in parsed}
            name, version = normalise(about.get("Name") or own), about.get("Version") or own_version
            summary, file = one_line(about.get("Summary", ""), _LINE), _FILE
            entries = [each for each in installed.entry_points if each.group in groups]
        except Exception as error:  # both files may be anything, and their parser raises whatever that leads to
            why = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"is malformed: {error}"
            problems.append(MetadataProblem(normalise(own), own_version, f"{file} {why}"))
            continue
        found += [EntryPoint(each.name, each.value, name, version, "", summary, each.group) for each in entries]
    found.sort(key=lambda entry: (entry.distribution, entry.name))
    return Scan(found, sorted(problems))


def installed_places() -> dict[str, tuple[str, str]]:
    """The folder with the metadata of each installed distribution, and its version, by its normalised name.

    To look one name up means to go through all of `sys.path`; this goes through it once for all names. The version is
    that in the folder's name: to parse all METADATA files would take longer than a small run.
    """
    return {normalise(name): (str(folder), version) for _, folder, name, version in _installed()}


def _installed() -> Sequence[tuple[Distribution, Path | None, str, str]]:
    """Each distribution (of two with one name the first on the path), its folder, and the name and version it says."""
    places = []
    for place in sys.path:
        with suppress(OSError):
            found = os.stat(place or ".")
            places.append((found.st_dev, found.st_ino, found.st_mtime_ns))
    return _found_in(tuple(places))


@lru_cache(maxsize=1)
def _found_in(places: tuple[tuple[int, int, int], ...]) -> Sequence[tuple[Distribution, Path | None, str, str]]:
    """What is installed in the folders of `sys.path`, which one call of a command asks for several times."""
    from importlib.metadata import distributions

    listed, seen = [], set[str]()
    for installed in distributions():
        folder = getattr(installed, "_path", None)
        file = getattr(folder, "name", "")
        stem = file.removesuffix(".dist-info")
        name, _, version = stem.rpartition("-") if stem != file else file.removesuffix(".egg-info").partition("-")
        if not name or normalise(name) not in seen:
            seen.add(normalise(name))
            # What follows in the version of an egg is that of Python.
            listed.append((installed, folder, name, version.partition("-")[0]))
    return listed


def _mentions(installed: Distribution, folder: Path | None, groups: Sequence[str]) -> bool:
    try:
        if isinstance(folder, Path):
            text = _text_of(folder / _FILE, os.stat(folder / _FILE).st_mtime_ns)
        else:  # in an archive
            text = installed.read_text(_FILE) or ""
    except UnicodeDecodeError as error:
        text = error.object.decode(errors="replace")
    except OSError:
        return False
    return any(f"[{group}]" in text for group in groups)


@cache
def _text_of(file: Path, changed: int) -> str:
    """What a file says that was changed last at this time. What isn't UTF-8 is told by whoever parses it."""
    return file.read_text("utf-8", errors="replace")


def source_tree(name: str) -> Path | None:
    """The folder that a distribution was installed from. None if it came from an index, or the folder is gone."""
    return Path(folder) if (folder := direct_url(name).get("folder")) else None


def source_of(name: str, folder: str, *, beside: str) -> str:
    """What to give pip for a distribution: its folder in the sources of one that is installed, or else its name."""
    tree = source_tree(beside) if folder else None
    if tree is not None and (tree / folder / "pyproject.toml").is_file():
        return shlex.quote(str(tree / folder))
    return name


def blame(error: BaseException) -> tuple[str, str]:
    """The distribution of the plugin whose code an unexpected error comes from, and the place. Empty if there is none.

    This is for what is raised outside of the calls that a guard knows.
    """
    found = scan("agentfw", "agentfw.commands").entry_points
    homes = {entry.module.partition(".")[0]: entry.distribution for entry in found if entry.distribution != "agentfw"}
    trace, who = error.__traceback__, ("", "")
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if name in homes:
            who = homes[name], f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return who
