"""Memories, and how errors of agentfw_memory become those of agentfw.

The message comes from the library. The exit code is agentfw's: 2 for bad input, 3 for a missing extra, 1 for the rest.

    >>> from agentfw_memory import BadInputError
    >>> with translated_errors():
    ...     raise BadInputError("the query is empty", fix="say something")
    Traceback (most recent call last):
    ...
    agentfw.errors.UsageError: the query is empty
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentfw.errors import MissingExtraError, StorageError, UsageError


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the library's errors as errors of agentfw."""
    from agentfw_memory import errors as library

    try:
        yield
    except library.MissingExtraError as error:
        missing = MissingExtraError("the skill graph", error.extra)
        missing.message, missing.fix = error.message, error.fix
        missing.args = (error.message,)
        raise missing from error
    except library.SkillGraphError as error:
        of_the_caller = library.BadInputError | library.StoreRefusedError | library.UnknownSkillError
        raise (UsageError if isinstance(error, of_the_caller) else StorageError)(
            error.message, fix=error.fix
        ) from error
