"""Plugins and what they offer, by name: a record of each plugin, and which of several offers is meant.

What agentfw itself offers wins, so that installing a plugin never changes what a command does. A qualified name such as
`acme:scripted`, with the distribution before the colon, says whose is meant. A file may stand in the place of a name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from ..boundary.metadata import EntryPoint, normalise, source_tree
from ..component import KINDS, Component
from ..errors import DuplicateComponentError, PluginError
from ..hookspecs import KnownPlugin, NamedSpec

OWN_DISTRIBUTION = "agentfw"
_FILE = ".py"


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


def mend_of(distribution: str) -> str:
    """What to do about a mistake in its code. Whoever has installed it from a folder is taken for its author."""
    tree = None if distribution == OWN_DISTRIBUTION else source_tree(distribution)
    return f"fix it in {tree}" if tree else f"tell the authors of {distribution}"


def pip_install(what: str, index: str = "") -> str:
    """The command that installs a requirement, from this index alone, or where pip is configured to look."""
    return f"pip install {f'--index-url {shlex.quote(index)} ' if index else ''}{what}"


PluginState = Literal["active", "blocked", "failed", "refused", "incompatible"]


class Problem(NamedTuple):
    """A problem of a plugin that otherwise works."""

    error: str
    fix: str


class PluginRecord:
    """One entry point and the result of loading it."""

    def __init__(self, entry_point: EntryPoint) -> None:
        self.name, self.value, self.file = entry_point.name, entry_point.value, entry_point.file
        self.distribution, self.version = entry_point.distribution, entry_point.version
        self.state: PluginState = "active"
        self.error = ""  # why the plugin isn't active, worded to follow its name. Empty if it is active
        self.fix = ""
        self.wrong = False  # True if the plugin should work and doesn't. False if it was disabled on purpose
        self.cause: BaseException | None = None  # the exception, for the traceback that `--debug` shows
        self.seconds = 0.0  # duration of the import
        self.problems: list[Problem] = []  # don't stop it from working. With `--strict-plugins` they are errors
        self.hints: list[str] = []  # information that needs no fix, such as a slow import

    def __repr__(self) -> str:
        return f"<PluginRecord {self.title}: {self.state}>"

    @property
    def title(self) -> str:
        return f"plugin {self.name} of {self.distribution} {self.version}"

    @property
    def names(self) -> tuple[str, str, str]:
        """What a person may call it."""
        return self.name, self.distribution, self.distribution.removeprefix("agentfw-")

    @property
    def mend(self) -> str:
        """What to do about a mistake in its code."""
        return f"fix it in {self.file}" if self.file else mend_of(self.distribution)

    @property
    def mend_or_disable(self) -> str:
        """The same, for whoever can also do without it."""
        return self.mend if self.file else f"{self.mend}, or disable it with --no-plugin {self.name}"

    def leave_out(self, state: Literal["blocked", "refused"], error: str, fix: str) -> None:
        """Mark the plugin as disabled on purpose. That is not a problem unless it is selected."""
        self.state, self.error, self.fix = state, error, fix

    def stop(self, state: PluginState, error: str, fix: str | None = None, cause: BaseException | None = None) -> None:
        """Mark the plugin as broken. By default, its authors can mend it."""
        self.state, self.error, self.cause, self.wrong = state, error, cause, True
        self.fix = self.mend_or_disable if fix is None else fix

    def failure(self) -> PluginError:
        """The error for a run that selected this plugin."""
        error = PluginError(f"{self.title} {self.error}", fix=self.fix)
        error.__cause__ = self.cause
        return error

    def problem_lines(self) -> list[str]:
        """All problems of the plugin, one line each."""
        stopped = [f"{self.title} {self.error}; {self.fix}"] if self.wrong else []
        return stopped + [f"{self.title} {problem.error}; {problem.fix}" for problem in self.problems]


class Registered(NamedTuple):
    """A component together with its kind and the plugin that offers it."""

    component: Component
    kind: str
    record: PluginRecord

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def title(self) -> str:
        return f'{KINDS[self.kind].title} "{self.name}" of {self.record.distribution} {self.record.version}'


ItemOffered = TypeVar("ItemOffered", NamedSpec, KnownPlugin)


class Offered(NamedTuple, Generic[ItemOffered]):
    """A spec or a known plugin, and the plugin that offers it."""

    item: ItemOffered
    record: PluginRecord

    @property
    def name(self) -> str:
        return self.item.name


Offer = TypeVar("Offer", Registered, Offered[NamedSpec])


def meant(offers: Sequence[Offer], name: str) -> list[Offer]:
    """The offers that a name stands for."""
    whose, rest = parted(name)
    found = [each for each in offers if each.name == rest and whose in ("", normalise(each.record.distribution))]
    return [offer for offer in found if offer.record.distribution == OWN_DISTRIBUTION] or found


def duplicate(what: str, name: str, whose: Sequence[PluginRecord]) -> DuplicateComponentError:
    """The error for a name that two plugins offer, neither of them built in."""
    return DuplicateComponentError(
        f'{what} "{name}" is offered twice: by {titles(whose)}', fix=f"select one of them: {qualified(name, whose)}"
    )


def titles(whose: Sequence[PluginRecord]) -> str:
    return " and ".join(f"{each.distribution} {each.version}" for each in whose)


def qualified(name: str, whose: Sequence[PluginRecord]) -> str:
    return " or ".join(dict.fromkeys(f"{each.distribution}:{name}" for each in whose))
