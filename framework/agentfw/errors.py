"""The errors that agentfw raises, in one tree.

Every error says what failed and, in `fix`, what to do about it. The command line prints both and exits with
`exit_code`. A mistake of a *model* is never an exception; it is recorded as data.

    AgentfwError                    1   the run failed
    ├── UsageError                  2   the caller asked for something impossible
    │   ├── SettingsError           2   a settings key or value is wrong
    │   ├── UnknownNameError        2   no such component, key or run; suggests the nearest name
    │   ├── UntrustedError          2   a file or folder of others wants what a person has to allow first
    │   └── RunFolderError          2   a run folder is missing, damaged, or has another format
    │       └── RunInUseError       2   another process works on the run
    ├── PluginError                 3   a plugin failed to load or broke its contract
    │   ├── DuplicateComponentError 3   two plugins offer one name
    │   ├── MissingExtraError       3   an optional dependency isn't installed
    │   └── TimelineError           3   a world schedules into the past, or goes on for ever
    ├── EndpointError               1   a model server can't be reached or keeps failing
    │   ├── RequestRefusedError     1   the server is up but rejects this request
    │   ├── UpstreamError           1   it rejects a request that is passed on for a program
    │   └── QuotaEndedError         1   the account at a server is used up
    ├── BudgetSpentError            1   a run has reached its limit on tokens or money
    └── StorageError                1   writing to disk failed; acknowledged data is intact

    InterventionRefused                 not a failure: the agent receives it as an observation
    Interruption                        not a failure: a signal ends what is going on

    >>> str(UnknownNameError("environment", "calender", ["calendar", "inbox"]))
    'no environment is called "calender"; did you mean "calendar"?'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "AgentfwError",
    "BudgetSpentError",
    "DuplicateComponentError",
    "EndpointError",
    "Interruption",
    "InterventionRefused",
    "MissingExtraError",
    "PluginError",
    "QuotaEndedError",
    "RequestRefusedError",
    "RunFolderError",
    "RunInUseError",
    "SettingsError",
    "StorageError",
    "TimelineError",
    "UnknownNameError",
    "UntrustedError",
    "UpstreamError",
    "UsageError",
    "direct_url",
    "disk_fix",
    "in_words",
    "is_failure",
    "known_names",
    "nearest",
    "not_implemented",
    "one_line",
    "storing",
    "strike_with",
    "with_extra",
]

_NEAR = 5  # maximum number of similar names that an error lists
_MOST = 40  # maximum number of wrong settings that an error lists
_strike: Callable[[str], str] = str


def strike_with(strike: Callable[[str], str]) -> None:
    """Let all messages pass this function first. `agentfw.boundary.secrets`, which knows the secrets, gives it."""
    global _strike
    _strike = strike


class AgentfwError(Exception):
    """Base class of all errors. `message` says what failed, `fix` what to do about it.

    `change` is a setting with which a run that has stopped so may be resumed, as `--set` takes it.
    """

    exit_code = 1
    has_culprit = False
    """Whether the guard of a component has attributed the error."""

    def __init__(self, message: str, *, fix: str = "", change: str = "") -> None:
        # A plugin's message may quote an address or a header.
        self.message, self.change = _strike(message), change
        super().__init__(self.message)
        self.fix = fix

    def __reduce__(self) -> tuple[Any, ...]:  # pickled by its attributes: each constructor takes something else
        return type(self).__new__, (type(self), *self.args), self.__dict__

    @property
    def fix(self) -> str:
        """What to do about it. A traceback has it below the message."""
        return self._fix

    @fix.setter
    def fix(self, text: str) -> None:
        self._fix = _strike(text)
        self.__notes__ = [f"fix: {self._fix}"] if text else []


class UsageError(AgentfwError):
    """Raised when a command, a setting or a file that was given can't be used."""

    exit_code = 2


class SettingsError(UsageError):
    """Raised when a setting is unknown or has a value that it can't have. `problems` says what is wrong, by its key."""

    def __init__(self, message: str, *, fix: str = "", problems: Mapping[str, str] | None = None) -> None:
        super().__init__(message, fix=fix)
        self.problems = {key: _strike(text) for key, text in (problems or {}).items()}
        self.more = 0

    @classmethod
    def of(cls, problems: Mapping[str, str], fix: str, more: int = 0) -> SettingsError:
        """One error for all these, and for some `more` that aren't told: a file of another kind has thousands."""
        lines = [f"{key}: {text}" if text else key for key, text in problems.items()]
        left = len(lines[_MOST:]) + more
        lines = [*lines[:_MOST], *([f"and {left} more"] if left else [])]
        message = lines[0] if len(lines) == 1 else "\n  ".join([f"{len(problems) + more} settings are wrong:", *lines])
        error = cls(message, fix=fix, problems=problems)
        error.more = more
        return error


class UntrustedError(UsageError):
    """Raised for a spec or a folder that a person has to allow first (`agentfw.host.trust`)."""

    def __init__(self, message: str, *, fix: str, path: Path, digest: str) -> None:
        super().__init__(message, fix=fix)
        self.path, self.digest = path, digest


class UnknownNameError(UsageError):
    """An unknown name. The message suggests the nearest known one, or names the distribution that has it."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, fix: str = "", offered_by: tuple[str, str] | None = None
    ) -> None:
        """`offered_by` is a distribution that isn't installed, and how to install it."""
        choices = sorted(known)
        guess = nearest(name, choices)
        message = f'no {kind} is called "{name}"'
        if offered_by is not None:
            message += f"; {offered_by[0]} has it and isn't installed"
            fix = fix or offered_by[1]
        elif kind == "environment" and name.endswith(".toml"):
            fix = fix or f"a spec is given by --spec {name}"
        elif guess:
            message += f'; did you mean "{guess}"?'
        if not fix:
            fix = known_names("", name, choices) if choices else f"no {kind} is available here"
        super().__init__(message, fix=fix)
        self.kind, self.name, self.guess = kind, name, guess


class RunFolderError(UsageError):
    """Raised when a run folder is missing, incomplete or can't be read."""


class RunInUseError(RunFolderError):
    """Raised when another process writes to the run folder."""


class PluginError(AgentfwError):
    """Raised when a plugin failed. The message names its distribution."""

    exit_code = 3


class DuplicateComponentError(PluginError):
    """Raised when two plugins bring components of the same kind and name."""


class MissingExtraError(PluginError):
    """An optional dependency is missing. The fix is the command that installs it."""

    def __init__(self, what: str, extra: str, *, distribution: str = "agentfw", module: str = "") -> None:
        needs = f" (no module {module})" if module else ""
        message = f'{what} needs the extra "{extra}"{needs}'
        super().__init__(message, fix=f"pip install {with_extra(distribution, extra)}")


class TimelineError(PluginError):
    """Raised when an environment breaks a rule of the timeline, such as by an event in the past."""


class EndpointError(AgentfwError):
    """Raised when a server that a run needs can't be reached, or answers with an error."""


class RequestRefusedError(EndpointError):
    """Raised when a server refuses a request that is wrong in itself."""


class UpstreamError(EndpointError):
    """A server's refusal of a request that was passed on, for the program that asked."""

    def __init__(self, message: str, status: int, *, headers: Mapping[str, str] | None = None, content: bytes = b""):
        super().__init__(message)
        self.status, self.headers, self.content = status, headers or {}, content


class QuotaEndedError(EndpointError):
    """The account is used up. No other request succeeds until somebody pays or waits, so a run stops and is resumed."""


class BudgetSpentError(AgentfwError):
    """A run has reached its limit on tokens or money. It can be resumed with a higher limit."""


class StorageError(AgentfwError):
    """Raised when a file or a database can't be written or read."""


class InterventionRefused(Exception):
    """An environment or tool can't do what it was asked to. The text goes to the agent as an observation."""


class Interruption(BaseException):
    """A signal ends the run. Not an Exception, so that nothing takes it for the failure of a plugin."""


def disk_fix(error: BaseException) -> str:
    """What to do about a file that can't be written or read."""
    import errno

    fixes = {
        ("EMFILE", "ENFILE"): "allow more open files: ulimit -n 8192",
        ("EACCES", "EPERM", "EROFS"): "make the folder writable, or choose another one",
        ("EEXIST", "ENOTDIR"): "move the file that has the name of this folder",
        ("ENOSPC", "EDQUOT"): "free disk space",
    }
    name = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
    return next((fix for names, fix in fixes.items() if name in names), "free disk space, and make the folder writable")


@contextmanager
def storing(doing: str, advice: str = "") -> Iterator[None]:
    """Tell of a file that can't be written: `doing` is what couldn't be done, and `advice` ends the fix."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"can't {doing}: {error.strerror or error}", fix=disk_fix(error) + advice) from error


def is_failure(error: BaseException) -> bool:
    """Whether foreign code has failed, which SystemExit or a panic in Rust are too. False where it was interrupted."""
    from asyncio import CancelledError

    return not isinstance(error, (KeyboardInterrupt, GeneratorExit, CancelledError, Interruption))


def not_implemented(component: object, method: str) -> NotImplementedError:
    """The error of a base class whose method must be overridden."""
    name = type(component).__name__
    return NotImplementedError(f"the class {name} has no method {method}(), which its kind requires")


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that the user most likely meant by `name`, or None."""
    import difflib

    lowered = {choice.lower().replace("-", "_"): choice for choice in choices}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def known_names(what: str, name: str, choices: Iterable[str]) -> str:
    """The choices for a fix: all if they are few or none is like `name`, otherwise those that are like it.

    >>> known_names("", "episods", ["episodes", "policy", "seed", "groups", "samples", "updates", "retries"])
    'similar: episodes (of 7)'
    """
    import difflib

    listed = sorted(choices)
    wanted = name.lower().replace("-", "_")
    lowered = {choice.lower().replace("-", "_"): choice for choice in listed}
    close = difflib.get_close_matches(wanted, lowered, n=_NEAR, cutoff=0.5)
    part = [choice for choice in lowered if wanted in choice or choice in wanted]
    near = [lowered[choice] for choice in dict.fromkeys([*close, *part])][:_NEAR]
    if len(listed) <= _NEAR + 1 or not near:
        return f"known{what}: {', '.join(listed)}"
    return f"similar{what}: {', '.join(near)} (of {len(listed)})"


def direct_url(distribution: str) -> dict[str, Any]:
    """pip's record of where a distribution came from, with `folder` if that was one. Empty if it was an index."""
    import json
    from importlib import metadata
    from os.path import isdir
    from urllib.parse import unquote, urlsplit

    try:
        origin = dict(json.loads(metadata.distribution(distribution).read_text("direct_url.json") or "{}"))
    except (metadata.PackageNotFoundError, OSError, ValueError, TypeError):
        return {}
    url = urlsplit(str(origin.get("url", "")))
    return {**origin, "folder": unquote(url.path)} if url.scheme == "file" and isdir(unquote(url.path)) else origin


def with_extra(distribution: str, extra: str) -> str:
    """What to give pip for an extra of an installed distribution: the folder it was installed from, or its name."""
    origin = direct_url(distribution)
    editable = "folder" in origin and dict(origin.get("dir_info", {})).get("editable")
    return f'{"-e " if editable else ""}"{origin.get("folder", distribution)}[{extra}]"'


def one_line(text: str, limit: int = 300) -> str:
    """Foreign text on one line, at most `limit` long, without secrets and control characters."""
    # Before it is cut: of half a secret nobody could tell what it is.
    flat = "".join(filter(str.isprintable, " ".join(_strike(text).split())))
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def in_words(error: BaseException) -> str:
    """An exception on one line. For a syntax error, with its location."""
    if isinstance(error, SyntaxError) and error.filename:
        return one_line(f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})")
    try:
        text = str(error)
    except Exception as another:  # what is wrong with a plugin may be its exceptions
        text = f"its text can't be shown, {type(another).__name__}"
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)
