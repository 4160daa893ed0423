"""Turns errors of the skill graph into errors of agentfw.

The message comes from the library. The exit code is agentfw's: 2 for bad input, 3 for a missing extra, 1 for the rest.

    >>> with translated_errors():
    ...     raise BadInputError("the query is empty", fix="say something")
    Traceback (most recent call last):
    ...
    agentfw.errors.UsageError: the query is empty
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentfw.errors import AgentfwError, MissingExtraError, StorageError, UsageError
from agentfw_memory import (
    BadInputError,
    SkillGraphError,
    StoreRefusedError,
    UnknownSkillError,
)
from agentfw_memory import MissingExtraError as MissingLibraryError

__all__ = ["translated_errors"]


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the library's errors as errors of agentfw."""
    try:
        yield
    except SkillGraphError as error:
        raise _agentfw_error(error) from error


def _agentfw_error(error: SkillGraphError) -> AgentfwError:
    if isinstance(error, MissingLibraryError):
        missing = MissingExtraError("the skill graph", error.extra)
        missing.args, missing.message, missing.fix = (error.message,), error.message, error.fix
        return missing
    usage = isinstance(error, (BadInputError, StoreRefusedError, UnknownSkillError))
    return (UsageError if usage else StorageError)(error.message, fix=error.fix)
