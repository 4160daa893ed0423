"""The one gate through which code of plugins is imported, whatever it is imported for, and the libraries of extras.

An entry point, a factory, a settings model, a hook module and a plugin of a single file may each raise when they are
imported, end Python, or take for ever. Here each of that is told with the plugin's name.

    plugin = let_in("plugin notes of agentfw-notes 1.0", entry_point.load)
    rule = function_at("my_package.rules:triage", "policy.rule")

    with needing("the engine ray", "ray"):  # an extra of agentfw
        import ray
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..errors import AgentfwError, Interruption, MissingExtraError, PluginError, SettingsError, in_words

__all__ = ["SLOW_SECONDS", "ImportFailed", "function_at", "let_in", "needing", "object_at"]

Imported = TypeVar("Imported")

SLOW_SECONDS = 2.0
"""Seconds after which the user is told what is being imported."""
tells_slow = True
"""Whether the user is told. A command sets it, because one with --quiet doesn't want it."""


class ImportFailed(Exception):
    """Code of a plugin can't be imported. The text follows the name of the plugin."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.ends_python = error, isinstance(error, SystemExit)
        """`ends_python` says that it called `sys.exit`, which reinstalling wouldn't change."""
        if self.ends_python:
            super().__init__(f"tried to end Python when it was imported ({in_words(error)})")
        else:
            super().__init__(f"can't be imported: {in_words(error)}")

    def named(self, who: str, fix: str) -> AgentfwError:
        """The error to raise, unless the code has raised one of agentfw's own, which says what is wrong."""
        if isinstance(self.error, AgentfwError):
            return self.error
        error = PluginError(f"{who} {self}", fix=fix)
        error.__cause__ = self.error
        return error


def let_in(who: str, load: Callable[[], Imported], *, advice: str = "", fix: str = "") -> Imported:
    """What `load` imports. Raises ImportFailed where it fails, or with a `fix`, the error that names `who`.

    An interruption by the user passes. One line on stderr says `who` is being imported, with `advice`, where that takes
    long.
    """
    watch = threading.Timer(SLOW_SECONDS, sys.stderr.write, [f"still importing {who} ...{advice and f'; {advice}'}\n"])
    watch.daemon = True
    if tells_slow:
        watch.start()
    try:
        return load()
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, Interruption)):
            raise
        failure = ImportFailed(error)
        if not fix:
            raise failure from error
        named = failure.named(who, fix)
        raise named from named.__cause__
    finally:
        watch.cancel()


def object_at(path: str) -> object:
    """What "package.module:Name" stands for. Only to be called by what `let_in` calls."""
    module, _, attributes = path.partition(":")
    found: object = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def function_at(path: str, setting: str) -> Callable[..., Any]:
    """The function that a setting names as `package.module:function`. Whatever is wrong with it is a SettingsError."""
    form = "write package.module:function, of a module that is installed or in the current directory"
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise SettingsError(f'{setting}: "{path}" isn\'t of the form package.module:function', fix=form)
    # As for `python -m`, but at the end: nothing that is installed can be replaced by a file of the same name.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        found = let_in(f"{path} ({setting})", lambda: object_at(path))
    except ImportFailed as failure:
        raise SettingsError(f"{setting}: {path} {failure}", fix=form) from failure.error
    if not callable(found):
        raise SettingsError(f"{setting}: {path} is not a function", fix=form)
    return found


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Say which extra of agentfw has what is imported in this block, if it isn't installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(what, extra, module=error.name or "") from error
