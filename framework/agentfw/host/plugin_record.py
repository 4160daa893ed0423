"""The host's record of one plugin, kept whether or not the plugin works.

A problem is a value with a text and a fix. So the failure of one plugin is a line in a list and doesn't affect the
others.

    for record in host.plugins:
        print(record.name, record.distribution, record.state, record.error, record.fix)
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..boundary.metadata import EntryPoint
from ..component import KINDS, Component
from ..errors import PluginError

__all__ = ["PluginRecord", "PluginState", "Problem", "Registered"]

PluginState = Literal["active", "blocked", "failed", "refused", "incompatible"]


class Problem(NamedTuple):
    """A problem of a plugin that otherwise works."""

    error: str
    fix: str


class PluginRecord:
    """One entry point and the result of loading it."""

    def __init__(self, entry_point: EntryPoint) -> None:
        self.name = entry_point.name
        self.distribution = entry_point.distribution
        self.version = entry_point.version
        self.value = entry_point.value
        self.file = entry_point.file
        self.state: PluginState = "active"
        self.error = ""
        """Why the plugin isn't active, worded to follow its name. Empty if it is active."""
        self.fix = ""
        self.wrong = False
        """True if the plugin should work and doesn't. False for a plugin that was disabled on purpose."""
        self.cause: BaseException | None = None
        """The exception, for the traceback that `--debug` shows."""
        self.seconds = 0.0
        """Duration of the import."""
        self.problems: list[Problem] = []
        """Mistakes in the plugin that don't stop it from working. With `--strict-plugins` they are errors."""
        self.hints: list[str] = []
        """Information that needs no fix, such as a slow import."""
        self.silenced = False
        """True after one of its observer hooks raised. Its hooks are then not called again."""

    def __repr__(self) -> str:
        return f"<PluginRecord {self.title}: {self.state}>"

    @property
    def title(self) -> str:
        return f"plugin {self.name} of {self.distribution} {self.version}"

    @property
    def mend(self) -> str:
        """What to do about a mistake in its code."""
        return f"fix it in {self.file}" if self.file else f"tell the authors of {self.distribution}"

    def leave_out(self, state: Literal["blocked", "refused"], error: str, fix: str) -> None:
        """Mark the plugin as disabled on purpose. That is not a problem unless it is selected."""
        self.state, self.error, self.fix = state, error, fix

    def stop(self, state: PluginState, error: str, fix: str, cause: BaseException | None = None) -> None:
        """Mark the plugin as broken."""
        self.state, self.error, self.fix, self.cause, self.wrong = state, error, fix, cause, True

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
    def title(self) -> str:
        return f'{KINDS[self.kind].title} "{self.component.name}" of {self.record.distribution} {self.record.version}'
