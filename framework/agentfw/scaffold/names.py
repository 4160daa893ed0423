"""Names for a new plugin: of its distribution, its package and its component.

A name that conflicts with an existing one is refused, with the reason and an alternative.

    >>> derive("Agentfw_Tea")
    Names(distribution='agentfw-tea', package='agentfw_tea', component='tea')
"""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from ..boundary import metadata
from ..boundary.metadata import normalise
from ..component import KINDS
from ..errors import UsageError

if TYPE_CHECKING:
    from ..host import Host

__all__ = ["Names", "check_name", "derive"]

_VALID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")  # as the packaging standards define it
_PREFIX = "agentfw-"
_LONGEST = 50


class Names(NamedTuple):
    """The names of a plugin's parts."""

    distribution: str
    """Name of the distribution, for pip."""
    package: str
    """Name of the package, for import."""
    component: str
    """Name of the component: the distribution's name without `agentfw-`."""


def derive(name: str) -> Names:
    """Derive the names from the one that the user chose."""
    distribution = normalise(name)
    return Names(distribution, distribution.replace("-", "_"), distribution.removeprefix(_PREFIX))


def check_name(name: str, kind: str, host: Host) -> Names:
    """The names for a new plugin. Raises a UsageError if they can't be used.

    `kind` is that of the component, or empty where it isn't known or there is none.
    """
    if not _VALID.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f'"{name[:100]}" can\'t be the name of a package',
            fix=f"use at most {_LONGEST} letters, digits and hyphens, starting with a letter: agentfw-tea",
        )
    names = derive(name)
    if not names.component or not names.package.isidentifier() or keyword.iskeyword(names.package):
        raise UsageError(
            f'"{name}" would make a package that Python can\'t import: {names.package}',
            fix=f"start with a letter: agentfw-{names.component or 'tea'}",
        )
    version = metadata.version_of(names.distribution)
    if version:
        raise UsageError(f"{names.distribution} {version} is already installed", fix="take another name")
    if names.package in sys.stdlib_module_names or _importable(names.package):
        raise UsageError(
            f"Python already has a module called {names.package}", fix=f"choose another name: agentfw-{names.component}"
        )
    for offer in host.components(kind) if kind else ():
        if offer.component.name == names.component:
            raise UsageError(
                f'{offer.record.distribution} already offers the {KINDS[offer.kind].title} "{names.component}"',
                fix="choose another name: two plugins with the same component name can't be used together",
            )
    return names


def _importable(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # a module without a spec, inserted by hand
        return True
