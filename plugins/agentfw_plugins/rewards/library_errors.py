"""Turns errors of agentfw_rewardmodels into errors of agentfw.

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

from agentfw.errors import AgentfwError, MissingExtraError, StorageError, UsageError
from agentfw_rewardmodels import errors as library

__all__ = ["translated_errors"]


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the library's errors as errors of agentfw."""
    try:
        yield
    except library.RewardModelError as error:
        raise _agentfw_error(error) from error


def _agentfw_error(error: library.RewardModelError) -> AgentfwError:
    if isinstance(error, library.MissingExtraError):
        missing = MissingExtraError("", error.extra)
        missing.message, missing.fix = error.message, error.fix
        missing.args = (error.message,)
        return missing
    kind = UsageError if isinstance(error, library.BadInputError | library.FileRefusedError) else StorageError
    return kind(error.message, fix=error.fix)
