"""Plants a secret in the settings of a component, runs its contract, and looks for the secret everywhere.

A run strikes secrets out of what passes through it. It can't strike what a component writes to files of its own, and
errors and prints may also be seen by a program that uses the component without agentfw.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..boundary.secrets import Secrets, is_secret_name
from ..errors import SettingsError
from ..settings import input_key, is_secret
from .checks import CheckFunction, DoesNotApply, Subject, require

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["look_for_secrets"]


def look_for_secrets(
    model: type[BaseModel] | None,
    make: Callable[[dict[str, Any]], object],
    checks: Sequence[CheckFunction],
    subject: Subject[Any],
) -> None:
    """Broken if a secret setting of the component gets out while these checks run. `make` is given the settings."""
    planted = f"planted-{secrets.token_hex(8)}"
    with _planted(model, planted) as settings:
        if not settings:
            raise DoesNotApply("it has no secret settings")
        try:
            make(settings)
        except SettingsError:
            raise DoesNotApply("its settings don't take a made-up secret") from None
        printed, errors = io.StringIO(), list[str]()
        with redirect_stdout(printed), redirect_stderr(printed):
            for check in checks:
                folder = subject.folder / check.__name__
                folder.mkdir()
                try:
                    _run(check, Subject(lambda: make(settings), deepcopy(subject.episodes), folder))
                except Exception as error:  # whether it keeps its promises is seen elsewhere
                    errors += traceback.format_exception(error)
    sys.stderr.write(printed.getvalue().replace(planted, "(the planted secret)"))
    known = Secrets()
    known.add(planted)
    name = ", ".join(settings)
    for place in filter(Path.is_file, subject.folder.rglob("*")):
        text = place.read_bytes().decode(errors="replace")
        require(not known.occur_in(text), f'it writes its setting "{name}" into {place.name}; keep secrets in memory')
    require(not known.occur_in(printed.getvalue()), f'it prints its setting "{name}"')
    require(not known.occur_in("".join(errors)), f'its errors quote its setting "{name}"; leave it out of them')


def _run(check: CheckFunction, subject: Subject[Any]) -> None:
    answer = check(subject)
    if inspect.isawaitable(answer):

        async def waited() -> None:
            await answer

        asyncio.run(waited())


@contextmanager
def _planted(model: type[BaseModel] | None, secret: str) -> Iterator[dict[str, Any]]:
    """Settings with this secret wherever there is room for one: as a text, or in an environment variable."""
    variable, settings = "AGENTFW_PLANTED", dict[str, Any]()
    for name, field in (model.model_fields if model is not None else {}).items():
        if is_secret(field.annotation) or (field.annotation is str and is_secret_name(name)):
            settings[input_key(name, field)] = secret
        elif field.annotation is str and name.endswith("_env") and is_secret_name(name.removesuffix("_env")):
            settings[input_key(name, field)] = variable
    os.environ[variable] = secret
    try:
        yield settings
    finally:
        del os.environ[variable]
