"""Imports plugins one by one through the gate, and registers them with pluggy.

A disabled plugin is never imported. One that fails is recorded with its distribution, and the others still load. This
replaces pluggy's own loading, which stops at the first broken plugin.

    manager = new_manager()
    records = load_plugins(entry_points("agentfw"), manager, Selection())
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pluggy import PluginManager, PluginValidationError

from .. import hookspecs
from ..boundary.gate import SLOW_SECONDS, ImportFailed, let_in
from ..boundary.metadata import EntryPoint, MetadataProblem, normalise, source_tree
from ..boundary.output import printed_elsewhere
from ..errors import in_words, nearest, one_line
from .names import OWN_DISTRIBUTION
from .plugin_record import PluginRecord, Problem

__all__ = ["ALL", "Selection", "load_plugins", "manager_name", "new_manager", "unreadable"]

PREFIX = "agentfw_"
ALL = "all"
NOTED_SECONDS = 1.0
"""Seconds after which a slow import is noted."""


class Selection(NamedTuple):
    """Which plugins may be imported. All names are normalised, and belong to plugins or distributions."""

    blocked: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    allowed: dict[str, str] | None = None
    """Allowed distributions with their exact versions. None allows everything."""
    project: str = ""
    """Path of the agentfw.toml with the allow list and the next one."""
    turned_off: frozenset[str] = frozenset()
    slow_import_seconds: float = SLOW_SECONDS


def new_manager() -> PluginManager:
    manager = PluginManager("agentfw")
    manager.add_hookspecs(hookspecs)
    return manager


def manager_name(record: PluginRecord) -> str:
    """The name a plugin is registered under. It is unique; entry-point names of two distributions may be equal."""
    return f"{record.distribution}:{record.name}:{record.value}"


def load_plugins(
    entry_points: Sequence[EntryPoint], manager: PluginManager, selection: Selection
) -> list[PluginRecord]:
    """Import and register allowed plugins. Returns one record per entry point, by distribution and name."""
    records = []
    for entry_point in sorted(entry_points, key=lambda found: (found.distribution, found.name)):
        record = PluginRecord(entry_point)
        records.append(record)
        if _left_out(record, selection):
            continue
        plugin = _import(entry_point, record, selection)
        if record.state == "active":
            _register(plugin, entry_point, record, manager)
    return records


def unreadable(problem: MetadataProblem, selection: Selection) -> PluginRecord:
    """The record for a distribution whose entry_points.txt had to be skipped; it stands for all plugins in there."""
    record = PluginRecord(EntryPoint(problem.distribution, "", problem.distribution, problem.version))
    if not _left_out(record, selection):
        record.stop("failed", f"can't be read: {one_line(problem.text)}", problem.fix or reinstall(record))
    return record


def reinstall(record: PluginRecord) -> str:
    if record.file:
        return record.mend
    return f"pip install --force-reinstall {record.distribution}, or disable it with --no-plugin {record.name}"


def tell_authors(record: PluginRecord) -> str:
    """What to do about a mistake in a plugin. Whoever has installed it from a folder is taken for its author."""
    if record.file:
        return record.mend
    tree = source_tree(record.distribution)
    mend = f"report it to the authors of {record.distribution}" if tree is None else f"fix it in {tree}"
    return f"{mend}, or disable it with --no-plugin {record.name}"


def _left_out(record: PluginRecord, selection: Selection) -> bool:
    """Set the state of a plugin that must not be imported."""
    own = record.distribution == OWN_DISTRIBUTION
    names = {normalise(record.name), normalise(record.distribution)}
    if names & selection.blocked:
        record.leave_out("blocked", "is disabled by --no-plugin", "run without that flag")
    elif names & selection.disabled or (ALL in selection.disabled and not own):
        record.leave_out("blocked", "is disabled by AGENTFW_DISABLE_PLUGINS", "unset AGENTFW_DISABLE_PLUGINS")
    elif names & selection.turned_off:
        record.leave_out("blocked", f"is disabled by {selection.project}", "remove it from [plugins] disabled there")
    elif selection.allowed is not None and not own:
        pin = f'"{record.distribution}=={record.version}"'
        allowed = selection.allowed.get(normalise(record.distribution))
        if allowed is None:
            record.leave_out("refused", f"isn't allowed by {selection.project}", f"add {pin} to [plugins] allow there")
        elif allowed != record.version:
            error = f"isn't the version {allowed} that {selection.project} allows"
            fix = f"write {pin} there"
            if not record.file:
                fix = f'pip install "{record.distribution}=={allowed}", or {fix}'
            # The pin shows that this plugin is wanted. So unlike an unlisted plugin, this is a problem to fix.
            record.stop("refused", error, fix)
    return record.state != "active"


def _import(entry_point: EntryPoint, record: PluginRecord, selection: Selection) -> object:
    started, plugin, disable = time.perf_counter(), None, f"disable it with --no-plugin {record.name}"
    printed = printed_elsewhere()
    try:
        plugin = let_in(record.title, entry_point.load, advice=disable, slow=selection.slow_import_seconds)
    except ImportFailed as failure:
        text, error = str(failure), failure.error
        if isinstance(error, ModuleNotFoundError) and _is_own_module(entry_point.module, error.name):
            text = f"names the module {entry_point.module}, which isn't there"
        fix = tell_authors(record) if failure.ends_python else reinstall(record)
        record.stop("failed", text, fix, error)
    record.seconds = time.perf_counter() - started
    if record.seconds > NOTED_SECONDS:
        record.hints.append(f"took {record.seconds:.1f} s to import; {disable}")
    if printed_elsewhere() > printed:
        record.hints.append(f"printed to stdout when it was imported (sent to stderr); {tell_authors(record)}")
    return plugin


def _is_own_module(module: str, missing: str | None) -> bool:
    return module == missing or module.startswith(f"{missing}.")


def _register(plugin: object, entry_point: EntryPoint, record: PluginRecord, manager: PluginManager) -> None:
    try:
        if not _speaks_our_api(plugin, entry_point, record):
            return
        if plugin is None or manager.is_registered(plugin):
            what = "is None" if plugin is None else "is the same object as that of another entry point"
            record.stop("failed", f"offers {record.value}, which {what}", tell_authors(record))
            return
        manager.register(plugin, manager_name(record))
        _check_functions(plugin, record, manager)
    except KeyboardInterrupt:
        raise
    except PluginValidationError as error:
        record.stop("failed", f"has a hook with wrong arguments: {one_line(str(error))}", tell_authors(record), error)
    except BaseException as error:  # a plugin can be any object, with properties that raise
        record.stop("failed", f"can't be registered: {in_words(error)}", tell_authors(record), error)
    if record.state != "active" and manager.has_plugin(manager_name(record)):
        manager.unregister(name=manager_name(record))


def _speaks_our_api(plugin: object, entry_point: EntryPoint, record: PluginRecord) -> bool:
    module = sys.modules.get(entry_point.module)
    spoken = getattr(plugin, "AGENTFW_PLUGIN_API", getattr(module, "AGENTFW_PLUGIN_API", hookspecs.PLUGIN_API))
    ours = hookspecs.PLUGIN_API
    if not isinstance(spoken, int) or isinstance(spoken, bool):
        error = f"states AGENTFW_PLUGIN_API = {one_line(repr(spoken), 40)}, which isn't a whole number"
        record.stop("incompatible", error, tell_authors(record))
    elif spoken > ours:
        error = f"is written for plugin API {spoken}, and this agentfw supports {ours}"
        record.stop("incompatible", error, "upgrade agentfw: pip install --upgrade agentfw")
    elif spoken < ours:
        error = f"is written for plugin API {spoken}, and this agentfw supports {ours}"
        record.stop("incompatible", error, f"upgrade the plugin: pip install --upgrade {record.distribution}")
    return record.state == "active"


def _check_functions(plugin: object, record: PluginRecord, manager: PluginManager) -> None:
    """Find hooks that can't work, and functions that look like hooks but aren't marked."""
    marked = 0
    for caller in manager.get_hookcallers(plugin) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is not plugin:
                continue
            marked += 1
            function = implementation.function
            if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
                error = (
                    f"has a hook that isn't a plain function: {caller.name} is a wrapper, a generator or a coroutine"
                )
                record.stop("failed", error, tell_authors(record))
            if not caller.has_spec() and not implementation.optionalhook:
                guess = _nearest_hook(caller.name)
                meant = f'; did you mean "{guess}"?' if guess else ""
                record.problems.append(
                    Problem(f'implements "{caller.name}", which is not a hook{meant}', tell_authors(record))
                )
    forgotten = list(_unmarked(plugin))
    for name in forgotten:
        guess = _nearest_hook(name)
        error = f'has a function "{name}" without @hookimpl'
        if guess != name:
            error += f'; did you mean the hook "{guess}"?'
        record.problems.append(Problem(error, tell_authors(record)))
    if not marked and not forgotten:
        record.problems.append(Problem("implements no hook at all", tell_authors(record)))


def _unmarked(plugin: object) -> Iterable[str]:
    """Functions of the plugin with a hook's name, or nearly, that are not marked with @hookimpl."""
    home = plugin.__name__ if inspect.ismodule(plugin) else getattr(plugin, "__module__", None)
    for name in dir(plugin):
        if not name.startswith(PREFIX):
            continue
        function = inspect.getattr_static(plugin, name)
        own = inspect.isfunction(function) and function.__module__ == home
        if own and not hasattr(function, "agentfw_impl") and _nearest_hook(name):
            yield name


def _nearest_hook(name: str) -> str | None:
    # Compared without the prefix; otherwise every name with the prefix would be close to some hook.
    tails = {hook.removeprefix(PREFIX): hook for hook in hookspecs.HOOKS}
    guess = nearest(name.removeprefix(PREFIX), tails)
    return tails[guess] if guess else None
