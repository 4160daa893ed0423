"""The errors of agentfw, in one tree.

An error says what failed and, in `fix`, what to do about it. The command line prints both lines and
exits with `exit_code`; a traceback appears only with `--debug`. What a *model* does wrong is never an exception: it
is data.

    AgentfwError                    1   the run failed
    ├── UsageError                  2   the caller asked for something that can't be
    │   ├── SettingsError           2   a settings key or value is wrong
    │   ├── UnknownNameError        2   no such component, key or run; names the nearest
    │   └── RunFolderError          2   a run folder is missing, foreign, newer or in use
    ├── PluginError                 3   a plugin failed to load or broke its contract
    │   ├── DuplicateComponentError 3   two plugins offer one name
    │   └── MissingExtraError       3   an optional dependency isn't installed
    ├── TimelineError               1   time would run back, or a model scheduled nonsense
    ├── EndpointError               1   a model server can't be reached or keeps failing
    │   └── RequestRefusedError     1   it is there, and doesn't take this one request
    └── StorageError                1   the disk refused; what was acknowledged is intact

    InterventionRefused                 not a failure: the agent sees it as an observation

Example:

    >>> str(UnknownNameError("environment", "calender", ["calendar", "inbox"]))
    'no environment is called "calender"; did you mean "calendar"?'
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "AgentfwError",
    "DuplicateComponentError",
    "EndpointError",
    "InterventionRefused",
    "MissingExtraError",
    "PluginError",
    "RequestRefusedError",
    "RunFolderError",
    "SettingsError",
    "StorageError",
    "TimelineError",
    "UnknownNameError",
    "UsageError",
    "nearest",
]


class AgentfwError(Exception):
    """What failed (`message`) and what to do about it (`fix`)."""

    exit_code = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class UsageError(AgentfwError):
    exit_code = 2


class SettingsError(UsageError):
    pass


class UnknownNameError(UsageError):
    """A name that nobody knows, with the nearest one that somebody does."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, fix: str = "") -> None:
        choices = sorted(known)
        guess = nearest(name, choices)
        message = f'no {kind} is called "{name}"'
        if guess:
            message += f'; did you mean "{guess}"?'
        if not fix:
            fix = f"known: {', '.join(choices)}" if choices else f"there is no {kind} at all here"
        super().__init__(message, fix=fix)
        self.kind, self.name, self.guess = kind, name, guess


class RunFolderError(UsageError):
    pass


class PluginError(AgentfwError):
    exit_code = 3


class DuplicateComponentError(PluginError):
    pass


class MissingExtraError(PluginError):
    """An optional dependency is missing; the fix is the command that installs it."""

    def __init__(self, what: str, extra: str, *, distribution: str = "agentfw", module: str = "") -> None:
        needs = f" (no module {module})" if module else ""
        super().__init__(f'{what} needs the extra "{extra}"{needs}', fix=f'pip install "{distribution}[{extra}]"')
        self.extra = extra


class TimelineError(AgentfwError):
    pass


class EndpointError(AgentfwError):
    pass


class RequestRefusedError(EndpointError):
    pass


class StorageError(AgentfwError):
    pass


class InterventionRefused(Exception):
    """An environment or tool can't do what it was asked. The text goes to the agent as an observation."""


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that a person who typed `name` most likely meant, or None."""
    import difflib

    lowered = {choice.lower().replace("-", "_"): choice for choice in choices}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None
