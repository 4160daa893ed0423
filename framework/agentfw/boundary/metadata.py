"""Installed entry points, read through importlib.metadata, with the broken ones listed instead of raised.

`importlib.metadata.entry_points` raises when a single distribution has a malformed file, whosever it is. Here, a file
that doesn't mention the group is left alone, and one that does is a problem of its distribution.

    >>> "agentfw-notes" in [found.distribution for found in entry_points("agentfw")]
    True
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["EntryPoint", "MetadataProblem", "Scan", "entry_points", "normalise", "scan", "version_of"]

_FILE = "entry_points.txt"


class EntryPoint(NamedTuple):
    """One entry point of one distribution."""

    name: str
    value: str
    distribution: str
    version: str
    file: str = ""
    """The path of a plugin that is a single file and no distribution."""

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


class Scan(NamedTuple):
    """The entry points of one group."""

    entry_points: list[EntryPoint]
    problems: list[MetadataProblem]


def normalise(name: str) -> str:
    """A distribution's normalised name: `Agentfw_Notes` and `agentfw-notes` are the same."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def version_of(distribution: str) -> str:
    """The installed version of a distribution; empty where it isn't installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except (PackageNotFoundError, ValueError):  # ValueError: an empty name
        return ""


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of `group`, sorted by distribution and name."""
    return scan(group).entry_points


def scan(group: str) -> Scan:
    """The entry points of `group`, sorted, and the distributions that were meant to have some and can't be read."""
    from importlib.metadata import distribution, distributions

    # Only the names of those that mention the group are read: parsing all METADATA files would take a second.
    names = {installed.name for installed in distributions() if _mentions(installed, group)}
    found: list[EntryPoint] = []
    problems: list[MetadataProblem] = []
    for name in sorted(filter(None, names), key=normalise):
        installed = distribution(name)  # of two with one name the first on the path, as for imports
        try:
            entries = installed.entry_points.select(group=group)
        except Exception as error:  # the parser of the standard library raises whatever a malformed line leads to
            text = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"is malformed: {error}"
            problems.append(MetadataProblem(normalise(name), installed.version, f"{_FILE} {text}"))
            continue
        found += [EntryPoint(each.name, each.value, normalise(name), installed.version) for each in entries]
    found.sort(key=lambda entry: (entry.distribution, entry.name))
    return Scan(found, problems)


def _mentions(installed: Distribution, group: str) -> bool:
    section = f"[{group}]"
    try:
        return section in (installed.read_text(_FILE) or "")
    except UnicodeDecodeError as error:
        return section.encode() in error.object
    except OSError:
        return False
