"""Every error that the reward models raise on purpose, in one tree.

The one rule: an error says what failed and, in `fix`, what to do about it; a model in memory or on disk is as it was
before the call that ended in one.

    RewardModelError
    ├── BadInputError        what was given can't be learned from or scored: an empty table, a NaN, an empty text
    │   └── UnknownUserError a user without interactions and without a profile
    ├── FileRefusedError     the folder holds no model, another version's, a damaged one, or NaN weights
    ├── StorageError         the disk refused; what was there before is intact
    └── MissingExtraError    an optional library isn't installed

Example:

    >>> error = UnknownUserError("zoe")
    >>> print(error, "-", error.fix)
    nothing is known of the user "zoe" - give a profile with the call, or update the model with interactions of theirs
"""

from __future__ import annotations

__all__ = [
    "BadInputError",
    "FileRefusedError",
    "MissingExtraError",
    "RewardModelError",
    "StorageError",
    "UnknownUserError",
]


class RewardModelError(Exception):
    """What failed (`message`) and what to do about it (`fix`)."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class BadInputError(RewardModelError, ValueError):
    pass


class UnknownUserError(BadInputError, LookupError):
    def __init__(self, user: object) -> None:
        super().__init__(
            f'nothing is known of the user "{user}"',
            fix="give a profile with the call, or update the model with interactions of theirs",
        )


class FileRefusedError(RewardModelError):
    pass


class StorageError(RewardModelError):
    pass


class MissingExtraError(RewardModelError, ImportError):
    """An optional library is missing; the fix is the command that installs it."""

    def __init__(self, what: str, extra: str, module: str = "") -> None:
        needs = f" (no module {module})" if module else ""
        super().__init__(f'{what} needs the extra "{extra}"{needs}', fix=f'pip install "agentfw[{extra}]"')
        self.extra = extra
