"""What goes wrong in agentfw_rewardmodels, as an error of agentfw.

The one rule: the words are the library's, the exit code is agentfw's: 2 for what the caller can change, 3 for what
isn't installed, 1 for the rest.

    >>> from agentfw_rewardmodels.errors import BadInputError
    >>> with told():
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

__all__ = ["told"]


@contextmanager
def told() -> Iterator[None]:
    """Raise the library's errors as agentfw's."""
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
