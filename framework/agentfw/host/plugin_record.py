"""What the host knows of one plugin: typed, and kept whether or not the plugin works.

The one rule: a problem is a value with a text and a fix, so that one plugin's failure is a line in a list and never
the end of the others.

    for record in host.plugins:
        print(record.name, record.distribution, record.state, record.error, record.fix)
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..component import KINDS, Component
from ..errors import PluginError
from ..metadata import EntryPoint

__all__ = ["PluginRecord", "PluginState", "Problem", "Registered", "describe", "one_line"]

PluginState = Literal["active", "blocked", "failed", "refused", "incompatible"]


class Problem(NamedTuple):
    """Something wrong with a plugin that otherwise works."""

    error: str
    fix: str


class PluginRecord:
    """One entry point and what became of it."""

    def __init__(self, entry_point: EntryPoint) -> None:
        self.name = entry_point.name
        self.distribution = entry_point.distribution
        self.version = entry_point.version
        self.value = entry_point.value
        self.state: PluginState = "active"
        self.error = ""
        """Why it isn't active, as the rest of a sentence that begins with its name; empty while it is."""
        self.fix = ""
        self.wrong = False
        """True where it ought to work and doesn't; a plugin that somebody left out on purpose isn't wrong."""
        self.cause: BaseException | None = None
        """What it raised, for the traceback that `--debug` shows."""
        self.seconds = 0.0
        """How long its import took."""
        self.problems: list[Problem] = []
        """Mistakes of its authors that don't keep it from working; with `--strict-plugins` they do."""
        self.hints: list[str] = []
        """What a person should know of it but needn't fix, such as a slow import."""
        self.silenced = False
        """True once one of its observers raised: none of them is called again."""

    def __repr__(self) -> str:
        return f"<PluginRecord {self.title}: {self.state}>"

    @property
    def title(self) -> str:
        return f"plugin {self.name} of {self.distribution} {self.version}"

    def leave_out(self, state: Literal["blocked", "refused"], error: str, fix: str) -> None:
        """Somebody doesn't want it: no problem, and nothing to tell until it is asked for."""
        self.state, self.error, self.fix = state, error, fix

    def stop(self, state: PluginState, error: str, fix: str, cause: BaseException | None = None) -> None:
        """It ought to work and doesn't."""
        self.state, self.error, self.fix, self.cause, self.wrong = state, error, fix, cause, True

    def failure(self) -> PluginError:
        """The error for whoever selected this plugin."""
        error = PluginError(f"{self.title} {self.error}", fix=self.fix)
        error.__cause__ = self.cause
        return error

    def problem_lines(self) -> list[str]:
        """Everything that is wrong with it, one line each."""
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


def one_line(text: str, limit: int = 300) -> str:
    """Foreign text on one line, without control characters (a terminal would obey them), at most `limit` long."""
    flat = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def describe(error: BaseException) -> str:
    """An exception in one line, with the place where it is a syntax error."""
    if isinstance(error, SyntaxError) and error.filename:
        return one_line(f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})")
    try:
        text = str(error)
    except Exception as another:  # what is wrong with a plugin may be its exceptions
        text = f"its text can't be shown, {type(another).__name__}"
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)
