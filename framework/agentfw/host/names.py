"""Chooses among several plugins that offer one name.

What agentfw itself offers wins, so that installing a plugin never changes what a command does. A qualified name such as
`acme:scripted`, with the distribution before the colon, says whose is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from ..boundary.metadata import normalise
from ..errors import DuplicateComponentError

__all__ = ["OWN_DISTRIBUTION", "component_name", "duplicate", "is_file", "meant", "overshadowed", "parted"]

OWN_DISTRIBUTION = "agentfw"
_FILE = ".py"


class Offering(Protocol):
    """Something that offers a name: the record of a plugin, or an entry point."""

    @property
    def distribution(self) -> str: ...
    @property
    def version(self) -> str: ...


Offer = TypeVar("Offer")


def is_file(name: str) -> bool:
    """Whether what stands in the place of a name is the path of a Python file."""
    return name.endswith(_FILE)


def component_name(file: Path) -> str:
    """What the component of a file is called."""
    return re.sub(r"[^a-z0-9._-]+", "-", file.stem.lower()).strip("._-") or "file"


def parted(name: str) -> tuple[str, str]:
    """The distribution of a qualified name, empty if there is none, and the rest."""
    whose, _, rest = name.rpartition(":")
    return normalise(whose), rest


def meant(offers: Iterable[Offer], name: str, of: Callable[[Offer], tuple[str, Offering]]) -> list[Offer]:
    """The offers that a name stands for; `of` says the name of an offer and whose it is."""
    whose, rest = parted(name)
    found = [offer for offer in offers if of(offer)[0] == rest and whose in ("", normalise(of(offer)[1].distribution))]
    return [offer for offer in found if of(offer)[1].distribution == OWN_DISTRIBUTION] or found


def duplicate(what: str, name: str, whose: Sequence[Offering]) -> DuplicateComponentError:
    """The error for a name that two plugins offer, neither of them built in."""
    titles = " and ".join(f"{each.distribution} {each.version}" for each in whose)
    return DuplicateComponentError(
        f'{what} "{name}" is offered twice: by {titles}', fix=f"select one of them: {_qualified(name, whose)}"
    )


def overshadowed(what: str, name: str, whose: Sequence[Offering]) -> str:
    """A warning that a built-in is used and not that of another plugin. Empty if there is nothing to warn of."""
    others = [each for each in whose if each.distribution != OWN_DISTRIBUTION]
    if not others or len(others) == len(whose):
        return ""
    titles = " and ".join(f"{each.distribution} {each.version}" for each in others)
    return f'{what} "{name}" is built in, and {titles} offers one, too; to select that: {_qualified(name, others)}'


def _qualified(name: str, whose: Sequence[Offering]) -> str:
    return " or ".join(dict.fromkeys(f"{each.distribution}:{name}" for each in whose))
