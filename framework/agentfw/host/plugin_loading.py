"""Imports plugins one by one through the gate, registers them with pluggy, and asks each what it offers.

A disabled plugin is never imported. One that fails is recorded with its distribution, and the others still load. This
replaces pluggy's own loading, which stops at the first broken plugin. A plugin that doesn't answer with a list of valid
descriptions has failed as a whole: all that it offered is withdrawn, so that nobody uses half of it unknowingly.

A single file can be a plugin, too: `host.find("tool", "./weather.py")`. The file takes the place of an entry point, and
a hash of its content that of its version.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from pluggy import PluginValidationError

from .. import hookspecs
from ..boundary.gate import ImportFailed, function_at, let_in
from ..boundary.metadata import EntryPoint, MetadataProblem, normalise, source_tree
from ..component import KINDS, Component
from ..errors import SettingsError, UsageError, in_words, nearest, one_line
from ..hookspecs import DECIDING_HOOKS, LIFECYCLE_HOOKS, REGISTRATION_HOOKS, KnownPlugin, NamedSpec, hookimpl
from .hook_calls import HookManager, HookOwner, misused
from .offers import (
    OWN_DISTRIBUTION,
    Offered,
    PluginRecord,
    Problem,
    Registered,
    component_name,
    file_and_attribute,
    is_file,
    pip_install,
)
from .project import ProjectFile

__all__ = ["function_named", "import_file", "module_of"]


class FileEntryPoint(EntryPoint):
    """Stands in for the entry point of a distribution."""

    def load(self) -> object:
        """The plugin: an object whose only hook offers the component of the kind that the value names."""
        module, (_, kind, attribute) = import_file(Path(self.file)), self.value.split(":")

        def make() -> object:
            from .from_functions import component_of

            return component_of(kind, module, self.name, attribute)

        def offer() -> list[Component]:
            name = f"_{kind}_{attribute}"
            setattr(module, name, make)
            summary = next(iter((module.__doc__ or "").strip().splitlines()), "") or self.file
            return [Component(self.name, f"{module.__name__}:{name}", summary)]

        offer.__name__ = KINDS[kind].hook
        return SimpleNamespace(**{KINDS[kind].hook: hookimpl(offer)})


def file_entry_point(kind: str, name: str) -> FileEntryPoint:
    """What stands in for an entry point: the file's name for the distribution, and its hash for the version."""
    file, attribute = file_and_attribute(os.path.abspath(name))
    value = f"{_module_name(file)}:{kind}:{attribute}"
    return FileEntryPoint(component_name(name), value, file.name, _digest(file), str(file))


class _ReadSoFar(BaseException):
    """Ends the import of a file that runs something itself."""


_reading: list[Path] = []


def end_reading() -> None:
    """Called where a run begins. A script that is read for its functions isn't to run again: its import ends here."""
    if _reading:
        raise _ReadSoFar


def import_file(file: Path) -> ModuleType:
    """The module of a file, imported once in the state that it has now, or up to where it begins a run itself."""
    name = _module_name(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    sys.modules[name] = module
    _reading.append(file)
    try:
        spec.loader.exec_module(module)
    except _ReadSoFar:
        pass
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        _reading.pop()
    return sys.modules[name]


def module_of(file: Path) -> ModuleType:
    """The module of a file that isn't known as a plugin yet."""
    file = file.absolute()
    return let_in(str(file), lambda: import_file(file), fix=f"fix it in {file}")


def function_named(name: str, setting: str) -> Callable[..., Any]:
    """The function that a setting names as FILE.py:FUNCTION or as package.module:function."""
    if not is_file(name):
        return function_at(name, setting)
    file, attribute = file_and_attribute(name)
    found = getattr(module_of(file), attribute or "_", None)
    if not callable(found):
        raise SettingsError(f"{setting}: {name} is not a function", fix=f"write {file}:FUNCTION")
    return found  # type: ignore[no-any-return]


def _module_name(file: Path) -> str:
    return f"agentfw_file_{hashlib.sha256(f'{file}:{_digest(file)}'.encode()).hexdigest()[:12]}"


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"can't read {file}: {reason}", fix="give the path of a Python file that is there") from None


PREFIX = "agentfw_"
ALL = "all"


class Selection(NamedTuple):
    """Which plugins may be imported. All names are normalised, and belong to plugins or distributions."""

    blocked: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    allowed: dict[str, str] | None = None
    """Allowed distributions with their exact versions. None allows everything."""
    project: str = ""
    """Path of the agentfw.toml with the allow list."""
    turned_off: Mapping[str, str] = MappingProxyType({})
    """What agentfw.toml disables, with the path of the file that does."""
    package_index: str = ""
    """The URL of the index that pip is told to install from. Empty: pip's own choice."""


def manager_name(record: PluginRecord) -> str:
    """The name a plugin is registered under. It is unique; entry-point names of two distributions may be equal."""
    return f"{record.distribution}:{record.name}:{record.value}"


def load_plugins(entry_points: Sequence[EntryPoint], manager: HookManager, selection: Selection) -> list[PluginRecord]:
    """Import and register allowed plugins. Returns one record per entry point, by distribution and name."""
    records = []
    for entry_point in sorted(entry_points, key=lambda found: (found.distribution, found.name)):
        record = PluginRecord(entry_point)
        records.append(record)
        if is_left_out(record, selection):
            continue
        plugin = None
        try:
            plugin = let_in(record.title, entry_point.load, advice=f"disable it with --no-plugin {record.name}")
        except ImportFailed as failure:
            text, error = str(failure), failure.error
            if isinstance(error, ModuleNotFoundError) and f"{entry_point.module}.".startswith(f"{error.name}."):
                text = f"names the module {entry_point.module}, which isn't there"
            record.stop("failed", text, None if failure.ends_python else _reinstall(record), error)
        if record.state == "active":
            _register(plugin, entry_point, record, manager)
    return records


def unreadable(problem: MetadataProblem, selection: Selection) -> PluginRecord:
    """The record for a distribution whose entry_points.txt had to be skipped; it stands for all plugins in there."""
    record = PluginRecord(EntryPoint(problem.distribution, "", problem.distribution, problem.version))
    if not is_left_out(record, selection):
        record.stop("failed", f"can't be read: {one_line(problem.text)}", problem.fix or _reinstall(record))
    return record


def _reinstall(record: PluginRecord) -> str:
    if record.file:
        return record.mend
    tree = source_tree(record.distribution)
    again = f"fix it in {tree} and install it again" if tree else f"pip install --force-reinstall {record.distribution}"
    return f"{again}, or disable it with --no-plugin {record.name}"


def is_left_out(record: PluginRecord, selection: Selection) -> bool:
    """Set the state of a plugin that must not be imported."""
    own = record.distribution == OWN_DISTRIBUTION
    names = {normalise(record.name), normalise(record.distribution)}
    if names & selection.blocked:
        record.leave_out("blocked", "is disabled by --no-plugin", "run without that flag")
    elif names & selection.disabled or (ALL in selection.disabled and not own):
        record.leave_out("blocked", "is disabled by AGENTFW_DISABLE_PLUGINS", "unset AGENTFW_DISABLE_PLUGINS")
    elif off := [file for name, file in selection.turned_off.items() if name in names]:
        record.leave_out("blocked", f"is disabled by {off[0]}", "remove it from [plugins] disabled there")
    elif selection.allowed is not None and not own:
        pin = f'"{record.distribution}=={record.version}"'
        allowed = selection.allowed.get(normalise(record.distribution))
        if allowed is None:
            record.leave_out("refused", f"isn't allowed by {selection.project}", f"add {pin} to [plugins] allow there")
        elif allowed != record.version:
            error = f"isn't the version {allowed} that {selection.project} allows"
            fix = f"write {pin} there"
            if not record.file:
                pin_wanted = f'"{record.distribution}=={allowed}"'
                fix = f"{pip_install(pin_wanted, selection.package_index)}, or {fix}"
            # The pin shows that this plugin is wanted. So unlike an unlisted plugin, this is a problem to fix.
            record.stop("refused", error, fix)
    return record.state != "active"


def _register(plugin: object, entry_point: EntryPoint, record: PluginRecord, manager: HookManager) -> None:
    name = manager_name(record)
    try:
        module = sys.modules.get(entry_point.module)
        spoken = getattr(plugin, "AGENTFW_PLUGIN_API", getattr(module, "AGENTFW_PLUGIN_API", hookspecs.PLUGIN_API))
        oldest, ours = hookspecs.OLDEST_PLUGIN_API, hookspecs.PLUGIN_API
        if not isinstance(spoken, int) or isinstance(spoken, bool):
            shown = one_line(repr(spoken), 40)
            record.stop("incompatible", f"states AGENTFW_PLUGIN_API = {shown}, which isn't a whole number")
            return
        if not oldest <= spoken <= ours:
            supported = f"{oldest} to {ours}" if oldest < ours else f"{ours}"
            whose = ("the plugin", record.distribution) if spoken < oldest else ("agentfw", "agentfw")
            error = f"is written for plugin API {spoken}, and this agentfw supports {supported}"
            record.stop("incompatible", error, f"upgrade {whose[0]}: pip install --upgrade {whose[1]}")
            return
        if spoken < ours:
            goes = f"is written for plugin API {spoken}, which goes with the next one"
            record.hints.append(f"{goes}; {record.mend_or_disable}")
        if plugin is None or manager.is_registered(plugin):
            what = "is None" if plugin is None else "is the same object as that of another entry point"
            record.stop("failed", f"offers {record.value}, which {what}")
            return
        manager.owners[name] = HookOwner(record.name, record.title, record.mend_or_disable, record)
        with warnings.catch_warnings(record=True) as deprecated:
            warnings.simplefilter("always")
            manager.register(plugin, name)
        record.hints += [f"{one_line(str(each.message))}; {record.mend_or_disable}" for each in deprecated]
        _check_functions(plugin, record, manager)
    except KeyboardInterrupt:
        raise
    except PluginValidationError as error:
        record.stop("failed", f"has a hook with wrong arguments: {one_line(str(error))}", cause=error)
    except BaseException as error:  # a plugin can be any object, with properties that raise
        record.stop("failed", f"can't be registered: {in_words(error)}", cause=error)
    if record.state != "active" and manager.has_plugin(name):
        manager.unregister(name=name)


def _check_functions(plugin: object, record: PluginRecord, manager: HookManager) -> None:
    """Find hooks that can't work, and functions that look like hooks but aren't marked."""

    def complain(error: str) -> None:
        record.problems.append(Problem(error, record.mend_or_disable))

    marked = manager.hooks_of(plugin)
    for caller, implementation in marked:
        if wrong := misused(implementation, caller.name):
            record.stop("failed", f"has a hook that isn't a plain function: {wrong}")
        if caller.name in hookspecs.HOOKS[: -len(LIFECYCLE_HOOKS + DECIDING_HOOKS)] and (
            implementation.tryfirst or implementation.trylast
        ):
            complain(f"marks {caller.name} with tryfirst or trylast, which means nothing where all answers are joined")
        if not caller.has_spec() and not implementation.optionalhook:
            guess = _nearest_hook(caller.name)
            hint = f'; did you mean "{guess}"?' if guess else ""
            complain(f'implements "{caller.name}", which is not a hook{hint}')
    home = plugin.__name__ if inspect.ismodule(plugin) else getattr(plugin, "__module__", None)
    forgotten = []
    for name in (name for name in dir(plugin) if name.startswith(PREFIX)):
        function = inspect.getattr_static(plugin, name)
        own = inspect.isfunction(function) and function.__module__ == home
        if own and not hasattr(function, "agentfw_impl") and (guess := _nearest_hook(name)):
            forgotten.append(name)
            hint = "" if guess == name else f'; did you mean the hook "{guess}"?'
            complain(f'has a function "{name}" without @hookimpl{hint}')
    if not marked and not forgotten:
        complain("implements no hook at all")


def _nearest_hook(name: str) -> str | None:
    # Compared without the prefix; otherwise every name with the prefix would be close to some hook.
    tails = {hook.removeprefix(PREFIX): hook for hook in hookspecs.HOOKS}
    guess = nearest(name.removeprefix(PREFIX), tails)
    return tails[guess] if guess else None


NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
FACTORY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class Answers(NamedTuple):
    components: list[Registered]
    withdrawn: list[Registered]  # offers of plugins that then failed, for an error that says why they are missing
    specs: list[Offered[NamedSpec]]
    known: list[Offered[KnownPlugin]]


class BadAnswer(Exception):
    """What is wrong with an answer, as the rest of a sentence that begins with the hook's name."""


def ask(records: list[PluginRecord], manager: HookManager) -> Answers:
    """Call the registration hooks of these plugins; one that answers badly is marked failed and unregistered."""
    answers = Answers([], [], [], [])
    others: dict[str, tuple[list[Any], Callable[[object], Any]]] = {
        hookspecs.SPECS_HOOK: (answers.specs, _check_spec),
        hookspecs.KNOWN_PLUGINS_HOOK: (answers.known, _check_known),
    }
    for hook in (*REGISTRATION_HOOKS, *others):
        found = manager.registered(hook, records)
        for record, answer in sorted(found, key=lambda each: (each[0].distribution, each[0].name)):
            try:
                if hook in others:
                    offers, check = others[hook]
                    offers.extend([Offered(check(item), record) for item in _listed(answer)])
                else:
                    components = [_check_component(item) for item in _listed(answer)]
                    names = [component.name for component in components]
                    if twice := [name for name in names if names.count(name) > 1]:
                        raise BadAnswer(f'offers the name "{twice[0]}" twice')
                    kind = REGISTRATION_HOOKS[hook]
                    answers.components.extend(Registered(component, kind, record) for component in components)
            except Exception as error:  # an answer can be anything, and may raise when it is looked at
                told = isinstance(error, BadAnswer)
                text = error if told else f"returned something that can't be read: {in_words(error)}"
                cause = error.__cause__ if told else error
                record.stop("failed", f"breaks the contract: {hook} {text}", cause=cause)
                manager.unregister(name=manager_name(record))
    answers.withdrawn.extend(offer for offer in answers.components if offer.record.state != "active")
    lists: tuple[list[Any], ...] = (answers.components, answers.specs, answers.known)
    for offered in lists:
        offered[:] = [offer for offer in offered if offer.record.state == "active"]
    return answers


def _listed(answer: object) -> list[object]:
    if isinstance(answer, BaseException):
        raise BadAnswer(f"raised {in_words(answer)}") from answer
    if isinstance(answer, (Component, NamedSpec, KnownPlugin)):
        raise BadAnswer(f"returned one {type(answer).__name__}, not a list of them")
    if not isinstance(answer, list):
        raise BadAnswer(f"returned {_kind_of(answer)}, not a list")
    return answer


def _check_component(item: object) -> Component:
    if not isinstance(item, Component):
        hint = 'describe it with Component(name, "package.module:Name", summary)'
        raise BadAnswer(f"returned a list with {_kind_of(item)} in it; {hint}")
    _check_name("name", item.name)
    for what, path in (("factory", item.factory), ("settings", item.settings or item.factory)):
        if not isinstance(path, str) or not FACTORY.fullmatch(path):
            form = 'which isn\'t of the form "package.module:Name"'
            raise BadAnswer(f'gives "{item.name}" the {what} {_quote(path)}, {form}')
    if not isinstance(item.summary, str) or not isinstance(item.extra, str):
        raise BadAnswer(f'gives "{item.name}" a summary or an extra that isn\'t text')
    # A plain string would be looked through letter by letter: the usual slip is needs=("torch").
    if not isinstance(item.needs, tuple) or not all(isinstance(module, str) for module in item.needs):
        raise BadAnswer(f'gives "{item.name}" needs={_quote(item.needs)}, which isn\'t a tuple of module names')
    if item.needs and not item.extra:
        raise BadAnswer(
            f'gives "{item.name}" needs={_quote(item.needs)} but no extra; '
            'write extra="NAME", the extra of the distribution that installs them, or leave needs out'
        )
    return item._replace(summary=one_line(item.summary))


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        form = "is made of small letters, digits, '-', '_' and '.' and begins with a letter or digit"
        raise BadAnswer(f"offers the {what} {_quote(name)}; a name {form}")


def _check_spec(item: object) -> NamedSpec:
    if not isinstance(item, NamedSpec):
        raise BadAnswer(f"returned a list with {_kind_of(item)} in it, not NamedSpec(name, path, summary)")
    _check_name("spec name", item.name)
    if not isinstance(item.path, str) or not os.path.isabs(item.path) or not os.path.isfile(item.path):
        text = f"the path {_quote(item.path)}, which isn't an absolute path of a file"
        raise BadAnswer(f'gives the spec "{item.name}" {text}')
    return item


def _check_known(item: object) -> KnownPlugin:
    if not isinstance(item, KnownPlugin):
        raise BadAnswer(f"returned a list with {_kind_of(item)} in it, not KnownPlugin(name, offers)")
    name, offers, folder = item.name, item.offers, item.folder
    if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(folder, str):
        raise BadAnswer(f"names the known plugin {_quote(name)}, which isn't the name of a distribution")
    kept = {what: tuple(names) for what, names in offers.items()}
    wrong = kept.keys() - {*KINDS, "spec", "command"}
    if wrong or not all(isinstance(each, str) for names in kept.values() for each in names):
        known = ", ".join([*KINDS, "spec", "command"])
        raise BadAnswer(f"says that {name} offers {_quote(offers)}; give names by what they are: {known}")
    return KnownPlugin(name, kept, folder)


def _kind_of(item: object) -> str:
    if item is None:
        return "None"
    return f"a class ({item.__name__})" if isinstance(item, type) else f"an object of type {type(item).__name__}"


def _quote(value: object) -> str:
    return one_line(repr(value), 60)


def specs_of(project: ProjectFile) -> list[Offered[NamedSpec]]:
    record = PluginRecord(EntryPoint(project.path.name, "", "project", ""))
    files = [file for folder in project.specs for file in sorted(folder.glob("*.toml")) if NAME.fullmatch(file.stem)]
    return [Offered(NamedSpec(file.stem, str(file), f"from {file.parent}"), record) for file in files]
