"""Turns errors of the skill graph into errors of agentfw.

The message comes from the library, the exit code from agentfw: 2 for bad input, 3 for a missing extra, 1 for the rest.

    >>> with translated_errors():
    ...     raise BadInputError("the query is empty", fix="say something")
    Traceback (most recent call last):
    ...
    agentfw.errors.UsageError: the query is empty
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentfw import errors
from agentfw_memory import BadInputError, MissingExtraError, SkillGraphError, StoreRefusedError, UnknownSkillError


def _missing(message: str, fix: str) -> errors.AgentfwError:
    missing = errors.MissingExtraError("the skill graph", "memory")
    missing.args, missing.message, missing.fix = (message,), message, fix
    return missing


ERRORS: Mapping[type[SkillGraphError], Callable[..., Any]] = {
    BadInputError: errors.UsageError,
    StoreRefusedError: errors.UsageError,
    UnknownSkillError: errors.UsageError,
    MissingExtraError: _missing,
    SkillGraphError: errors.StorageError,
}
"""The first that fits an error of the library says what it is in agentfw."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the library's errors as errors of agentfw."""
    try:
        yield
    except SkillGraphError as error:
        made = next(made for kind, made in ERRORS.items() if isinstance(error, kind))
        raise made(error.message, fix=error.fix) from error
