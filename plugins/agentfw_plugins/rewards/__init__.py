"""Reward models that serve any world, and how errors of agentfw_rewardmodels become those of agentfw.

The message comes from the library. The exit code is agentfw's: 2 for bad input, 3 for a missing extra, 1 for the rest.

    >>> from agentfw_rewardmodels.errors import BadInputError
    >>> with translated_errors():
    ...     raise BadInputError("the table is empty", fix="give interactions")
    Traceback (most recent call last):
    ...
    agentfw.errors.UsageError: the table is empty
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentfw.errors import MissingExtraError, StorageError, UsageError

__all__ = ["translated_errors"]


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the library's errors as errors of agentfw."""
    from agentfw_rewardmodels import errors as library

    try:
        yield
    except library.MissingExtraError as error:
        missing = MissingExtraError("", error.extra)
        missing.message, missing.fix = error.message, error.fix
        missing.args = (error.message,)
        raise missing from error
    except library.RewardModelError as error:
        kind = UsageError if isinstance(error, library.BadInputError | library.FileRefusedError) else StorageError
        raise kind(error.message, fix=error.fix) from error
