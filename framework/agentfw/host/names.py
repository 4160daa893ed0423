"""Names of plugins and components: which of several is meant, and whether a version is the wanted one.

What agentfw itself offers wins, so that installing a plugin never changes what a command does. A qualified name such as
`acme:scripted`, with the distribution before the colon, says whose is meant.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..boundary.metadata import normalise, source_tree
from ..errors import DuplicateComponentError, UsageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OWN_DISTRIBUTION = "agentfw"
_FILE = ".py"


class Offering(Protocol):
    """Something that offers names: the record of a plugin."""

    @property
    def distribution(self) -> str: ...
    @property
    def version(self) -> str: ...


class Named(Protocol):
    """What has been offered, with its name."""

    @property
    def name(self) -> str: ...
    @property
    def record(self) -> Offering: ...


Offer = TypeVar("Offer", bound=Named)


def is_file(name: str) -> bool:
    """Whether what stands in the place of a name is the path of a Python file, as FILE.py or FILE.py:NAME."""
    return name.endswith(_FILE) or f"{_FILE}:" in name


def file_and_attribute(name: str) -> tuple[Path, str]:
    """The file, and what is meant in it; empty where it has only one component.

    >>> file_and_attribute("rewards.py:correct")
    (PosixPath('rewards.py'), 'correct')
    """
    file, colon, attribute = name.rpartition(f"{_FILE}:")
    return (Path(file + _FILE), attribute) if colon else (Path(name), "")


def component_name(name: str) -> str:
    file, attribute = file_and_attribute(name)
    return re.sub(r"[^a-z0-9._-]+", "-", (attribute or file.stem).lower()).strip("._-") or "file"


def parted(name: str) -> tuple[str, str]:
    """The distribution of a qualified name, empty if there is none, and the rest."""
    whose, _, rest = name.rpartition(":")
    return normalise(whose), rest


def meant(offers: Iterable[Offer], name: str) -> list[Offer]:
    """The offers that a name stands for."""
    whose, rest = parted(name)
    found = [each for each in offers if each.name == rest and whose in ("", normalise(each.record.distribution))]
    return [offer for offer in found if offer.record.distribution == OWN_DISTRIBUTION] or found


def duplicate(what: str, name: str, whose: Sequence[Offering]) -> DuplicateComponentError:
    """The error for a name that two plugins offer, neither of them built in."""
    titles = " and ".join(f"{each.distribution} {each.version}" for each in whose)
    text = f'{what} "{name}" is offered twice: by {titles}'
    return DuplicateComponentError(text, fix=f"select one of them: {_qualified(name, whose)}")


def overshadowed(what: str, name: str, whose: Sequence[Offering]) -> str:
    """A warning that a built-in is used and not that of another plugin. Empty if there is nothing to warn of."""
    others = [each for each in whose if each.distribution != OWN_DISTRIBUTION]
    if not others or len(others) == len(whose):
        return ""
    titles = " and ".join(f"{each.distribution} {each.version}" for each in others)
    return f'{what} "{name}" is built in, and {titles} offers one, too; to select that: {_qualified(name, others)}'


def _qualified(name: str, whose: Sequence[Offering]) -> str:
    return " or ".join(dict.fromkeys(f"{each.distribution}:{name}" for each in whose))


def parse_requirement(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        problem = f'"{text}" names no plugin: {reason}'
        raise UsageError(problem, fix="write NAME, or NAME with versions: 'agentfw-tea>=1.2,<2'") from None


def is_met(requirement: Requirement, version: str) -> bool:
    """Whether an installed version meets a requirement. A version that can't be parsed never does."""
    from packaging.version import InvalidVersion

    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return not requirement.specifier


def mend_of(distribution: str) -> str:
    """What to do about a mistake in its code. Whoever has installed it from a folder is taken for its author."""
    tree = None if distribution == OWN_DISTRIBUTION else source_tree(distribution)
    return f"fix it in {tree}" if tree else f"tell the authors of {distribution}"


def pip_install(what: str, index: str = "") -> str:
    """The command that installs a requirement, from this index alone, or where pip is configured to look."""
    return f"pip install {f'--index-url {shlex.quote(index)} ' if index else ''}{what}"
