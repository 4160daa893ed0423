"""The exceptions of the memories.

    SkillGraphError
    ├── BadInputError       invalid input: an empty query, a NaN, a text of megabytes
    ├── UnknownSkillError   the skill doesn't exist in this tenant, or has ended
    ├── StoreRefusedError   the file belongs to another program or a newer version, or the embedder doesn't match
    ├── StorageError        the disk or server failed; acknowledged writes are intact
    │   └── DisconnectedError   the connection to the server broke
    ├── StoreBusyError      another process held the store for too long
    ├── MissingExtraError   an optional library isn't installed
    └── WriterError         the model that writes memories gave no answer that can be used
    HubRefusal              an update of a list of strategies is refused, in words for the agent

An operation that raises one of these leaves stored data unchanged.

    >>> str(UnknownSkillError("s17"))
    'unknown skill "s17"'
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


class SkillGraphError(Exception):
    """Base class. `message` says what happened, and `fix` what to do about it."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class BadInputError(SkillGraphError, ValueError):
    """Raised for invalid input."""


class UnknownSkillError(SkillGraphError, LookupError):
    """Raised when a skill doesn't exist in the tenant, or has ended."""

    def __init__(self, skill: object) -> None:
        super().__init__(f'unknown skill "{skill}"', fix="pass an id that add or recall returned")


class StoreRefusedError(SkillGraphError):
    """Raised when a store can't be opened, belongs to something else, or holds vectors of another embedder."""


class StorageError(SkillGraphError):
    """Raised when the disk or the server fails. Acknowledged writes are intact."""


class DisconnectedError(StorageError):
    """Raised when the connection to the server broke and wasn't back in time. `unsure` says that it broke during the
    commit: whether the call was stored isn't known."""

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        known = "whether the call was stored isn't known" if unsure else "nothing of the call was stored"
        super().__init__(message, fix=f"repeat the call: {known}; acknowledged writes are safe")
        self.unsure = unsure


class StoreBusyError(SkillGraphError):
    """Raised when another process holds the store for longer than the timeout."""


class MissingExtraError(SkillGraphError, ImportError):
    """Raised when an optional library isn't installed. `fix` is the command that installs it."""

    def __init__(self, what: str, extra: str, module: str = "") -> None:
        needs = f" (no module {module})" if module else ""
        super().__init__(f'{what} needs the extra "{extra}"{needs}', fix=f"pip install {_with_extra(extra)}")
        self.extra = extra


class WriterError(SkillGraphError):
    """The writer's model gave no answer that can be used."""


class HubRefusal(ValueError):
    """Raised when an update is refused. The message is written for the agent. Nothing was changed."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem} The hub is unchanged.")


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Say which extra has what is imported in this block, if it isn't installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(what, extra, module=error.name or "") from None


def _with_extra(extra: str) -> str:
    """What to give pip: the folder that agentfw was installed from, or its name if it came from an index."""
    with suppress(PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        origin = json.loads(distribution("agentfw").read_text("direct_url.json") or "{}")
        url = urlsplit(str(origin["url"]))
        if url.scheme == "file":
            return f'{"-e " if origin["dir_info"].get("editable") else ""}"{unquote(url.path)}[{extra}]"'
    return f'"agentfw[{extra}]"'
