"""The exceptions of the reward models.

    RewardModelError
    ├── BadInputError        invalid input: an empty table, a NaN, an empty text
    │   └── UnknownUserError the user has neither interactions nor a profile
    ├── FileRefusedError     the folder holds no model, one of another version, a damaged one, or NaN weights
    ├── StorageError         the disk failed; earlier files are intact
    └── MissingExtraError    an optional library isn't installed

A call that raises one of these leaves models in memory and on disk unchanged.

    >>> error = UnknownUserError("zoe")
    >>> print(error, "-", error.fix)
    unknown user "zoe" - pass a profile, or update the model with interactions of this user
"""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


class RewardModelError(Exception):
    """Base class. `message` says what happened, and `fix` what to do about it."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class BadInputError(RewardModelError, ValueError):
    """Raised for invalid input."""


class UnknownUserError(BadInputError, LookupError):
    """Raised for a user who has neither interactions nor a profile."""

    def __init__(self, user: object) -> None:
        super().__init__(
            f'unknown user "{user}"', fix="pass a profile, or update the model with interactions of this user"
        )


class FileRefusedError(RewardModelError):
    """Raised when a file is missing, damaged, or belongs to something else."""


class StorageError(RewardModelError):
    """Raised when the disk fails. Earlier files are intact."""


class MissingExtraError(RewardModelError, ImportError):
    """Raised when an optional library isn't installed. `fix` is the command that installs it."""

    def __init__(self, what: str, extra: str, module: str = "") -> None:
        needs, source = f" (no module {module})" if module else "", f'"agentfw[{extra}]"'
        # The folder that agentfw was installed from, unless it came from an index.
        with suppress(PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
            origin = json.loads(distribution("agentfw").read_text("direct_url.json") or "{}")
            url = urlsplit(str(origin["url"]))
            if url.scheme == "file":
                source = f'{"-e " if origin["dir_info"].get("editable") else ""}"{unquote(url.path)}[{extra}]"'
        super().__init__(f'{what} needs the extra "{extra}"{needs}', fix=f"pip install {source}")
        self.extra = extra
