"""Installed entry points, each with its distribution.

    >>> "agentfw" in [found.distribution for found in entry_points("agentfw")]
    True

This module also knows where a distribution was installed from, so that an error can say what to install beside it. pip
writes the address of a local installation into `direct_url.json`, which what came from an index doesn't have.

    source_of("agentfw-papers", "plugins/papers", beside="agentfw")     # /home/ada/agentfw/plugins/papers
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from ..errors import direct_url, one_line

__all__ = [
    "EntryPoint",
    "blame",
    "direct_url",
    "entry_points",
    "normalise",
    "source_of",
    "source_tree",
    "version_of",
]

_LINE = 120
"""Longest summary, in letters. A distribution may have written a paragraph."""


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


def entry_points(*groups: str) -> list[EntryPoint]:
    """The entry points of these groups, sorted by distribution and name."""
    from importlib.metadata import entry_points as installed

    found: list[EntryPoint] = []
    for each in (each for group in groups for each in installed(group=group)):
        assert each.dist is not None
        about = each.dist.metadata
        summary = one_line(about["Summary"], _LINE) if "Summary" in about else ""
        owner = normalise(about["Name"]), about["Version"]
        found.append(EntryPoint(each.name, each.value, *owner, summary=summary, group=each.group))
    return sorted(found, key=lambda entry: (entry.distribution, entry.name))


def source_tree(name: str) -> Path | None:
    """The folder that a distribution was installed from. None if it came from an index, or the folder is gone."""
    folder = direct_url(name).get("folder")
    return Path(folder) if folder else None


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
    found = entry_points("agentfw", "agentfw.commands")
    homes = {entry.module.partition(".")[0]: entry.distribution for entry in found if entry.distribution != "agentfw"}
    trace, who = error.__traceback__, ("", "")
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if name in homes:
            who = homes[name], f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return who
