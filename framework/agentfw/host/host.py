"""The plugin host: finds installed plugins and creates components by kind and name.

A broken plugin only prints a line on stderr until somebody selects it. Then it is an error with a fix. Loading imports
only the light modules of plugins. `create` imports the code of a component.

    host = Host.load(HostOptions.from_environment(blocked=["noisy"]))
    for line in host.notes:
        print(line, file=sys.stderr)
    memory = host.create("memory", "strategyhub", {"limit": 10})

Each host has its own pluggy manager, so two hosts in one process are independent.
"""

from __future__ import annotations

import copy
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pluggy import PluginManager

from ..boundary import metadata
from ..boundary.coroutines import not_awaitable
from ..boundary.guard import CallCounts, Guard
from ..boundary.metadata import EntryPoint, normalise
from ..boundary.output import send_prints_to_stderr
from ..boundary.plugin_calls import PluginCall
from ..boundary.secrets import Secrets
from ..component import KINDS
from ..errors import DuplicateComponentError, PluginError, UnknownNameError, in_words, is_failure, nearest, one_line
from ..hookspecs import HOOKS, LIFECYCLE_HOOKS, KnownPlugin, NamedSpec, NamedTemplate
from . import component_loading
from .names import OWN_DISTRIBUTION, duplicate, is_file, is_met, meant, overshadowed, parse_requirement
from .plugin_answers import Answers, Named, Offered, Trace, ask, implementations, specs_of
from .plugin_loading import (
    ALL,
    PluginRecord,
    Problem,
    Registered,
    Selection,
    file_entry_point,
    load_plugins,
    new_manager,
    unreadable,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .project import ProjectFile

__all__ = ["Host", "HostOptions", "PluginRecord", "Problem", "Registered"]

GROUP = "agentfw"
DISABLE_VARIABLE = "AGENTFW_DISABLE_PLUGINS"
TRACE_VARIABLE = "AGENTFW_TRACE_HOOKS"


Made = TypeVar("Made")


class Chosen(Protocol):
    """A component of a spec, with its settings."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def checked(self) -> BaseModel | None: ...


class HostOptions(NamedTuple):
    """Which plugins a host may load, and how strict it is."""

    blocked: tuple[str, ...] = ()
    """`--no-plugin NAME`: plugins or distributions that are not imported."""
    disabled: tuple[str, ...] = ()
    """The same from AGENTFW_DISABLE_PLUGINS. "all" stands for every plugin except agentfw's own."""
    strict: bool = False
    """`--strict-plugins`: any problem of any plugin is an error. Useful in continuous integration."""
    project: ProjectFile | None = None
    """The agentfw.toml that contains the allow list."""
    trace: bool = False
    """AGENTFW_TRACE_HOOKS: print every hook call to stderr."""
    slow_import_seconds: float = 2.0
    """Seconds after which the user is told which plugin is being loaded."""

    @classmethod
    def from_environment(
        cls,
        *,
        blocked: Iterable[str] = (),
        strict: bool = False,
        project: ProjectFile | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> HostOptions:
        """Options from the environment variables and the command line."""
        words = [word.strip() for word in environment.get(DISABLE_VARIABLE, "").split(",")]
        disabled = tuple(ALL if word == "1" else word for word in words if word not in ("", "0"))
        trace = environment.get(TRACE_VARIABLE, "") not in ("", "0")
        return cls(tuple(blocked), disabled, strict, project, trace)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> HostOptions:
        """The options that `plain` returned in another process, which then loads the same plugins."""
        from .project import read_project

        project = read_project(Path(values["project"])) if values["project"] else None
        return cls(tuple(values["blocked"]), tuple(values["disabled"]), project=project)

    def plain(self) -> dict[str, Any]:
        """What another process needs to load the same plugins, as plain values."""
        project = "" if self.project is None else str(self.project.path)
        return {"blocked": list(self.blocked), "disabled": list(self.disabled), "project": project}


class Host:
    """All plugins of this process and their components. Create it with `Host.load`."""

    def __init__(
        self,
        options: HostOptions,
        manager: PluginManager,
        plugins: list[PluginRecord],
        answers: Answers,
        trace: Trace,
    ) -> None:
        self.plugins = plugins
        """One record per entry point, sorted by distribution and name, including plugins that failed."""
        self.notes: list[str] = []
        """One line for each problem, for stderr."""
        self.secrets = Secrets()
        """The secrets of the settings that were checked here. They are struck out of everything that leaves a run."""
        self.options, self._manager, self._trace = options, manager, trace
        self._components = sorted(
            answers.components,
            key=lambda offer: (list(KINDS).index(offer.kind), offer.component.name, offer.record.distribution),
        )
        self._withdrawn, self._specs, self._templates = answers.withdrawn, answers.specs, answers.templates
        self._known = answers.known
        self._services: dict[str, object] = {"host": self}
        self._files: dict[tuple[str, str], Registered] = {}

    @classmethod
    def load(cls, options: HostOptions | None = None, entry_points: Sequence[EntryPoint] | None = None) -> Host:
        """Import what is installed and allowed. A plugin's problem is raised only with `strict`.

        By default, the options come from the environment variables and the entry points from `sys.path`.
        """
        options = HostOptions.from_environment() if options is None else options
        if entry_points is None:
            send_prints_to_stderr()
        scan = metadata.scan(GROUP) if entry_points is None else metadata.Scan(list(entry_points), [])
        project, selection = options.project, _selection(options)
        manager = new_manager()
        trace = _print_call if options.trace else _no_trace
        plugins = load_plugins(scan.entry_points, manager, selection)
        plugins += [unreadable(problem, selection) for problem in scan.problems]
        plugins.sort(key=lambda record: (record.distribution, record.name))
        answers = ask(plugins, manager, trace)
        answers.specs.extend(specs_of(project))
        host = cls(options, manager, plugins, answers, trace)
        host._take_notes()
        return host

    def components(self, kind: str | None = None) -> list[Registered]:
        """All components, sorted by kind and name. A name that two plugins offer appears twice."""
        if kind is not None:
            _check_kind(kind)
        return [offer for offer in self._components if kind in (None, offer.kind)]

    def find(self, kind: str, name: str) -> Registered:
        """The component of that kind and name. Raises an error with a fix unless there is exactly one.

        Of two with one name the built-in is meant. `acme:NAME` is that of the distribution acme. `./NAME.py` is a file,
        which becomes a plugin of this host.
        """
        _check_kind(kind)
        if is_file(name):
            return self._of_file(kind, name)
        offers = meant(self.components(kind), name, _of_component)
        if len(offers) > 1:
            raise duplicate(KINDS[kind].title, name, [offer.record for offer in offers])
        if offers:
            return offers[0]
        for offer in meant([offer for offer in self._withdrawn if offer.kind == kind], name, _of_component):
            raise offer.record.failure()
        error = self._unknown(KINDS[kind].title, name, {offer.component.name for offer in self.components(kind)})
        if error.fix.startswith("similar"):
            error.fix += f"; all: agentfw plugins list --kind {kind}"
        for other in self._components:
            if other.component.name == name:
                error.fix = f'"{name}" is of the kind {other.kind}; {error.fix}'
        raise error

    def _of_file(self, kind: str, name: str) -> Registered:
        """The component of a file. The file is read once: whatever becomes of it, a run goes on as it began."""
        key = kind, os.path.abspath(name)
        if key not in self._files:
            found = load_plugins([file_entry_point(kind, name)], self._manager, _selection(self.options))
            self.plugins += found
            answers = ask(found, self._manager, self._trace)
            if found[0].state != "active":
                raise found[0].failure()
            self._components += answers.components
            self._files[key] = answers.components[0]
        return self._files[key]

    def settings_model(self, kind: str, name: str) -> type[BaseModel] | None:
        """The pydantic model of a component's settings. None if it has no settings."""
        return component_loading.settings_model(self.find(kind, name))

    def check_settings(
        self, kind: str, name: str, settings: Mapping[str, object], *, where: str = ""
    ) -> BaseModel | None:
        """Validate the settings of a component. None if it has no settings."""
        return component_loading.check_settings(self.find(kind, name), settings, where or kind, self.secrets)

    def create(
        self, kind: str, name: str, settings: Mapping[str, object] | BaseModel | None, *, where: str = ""
    ) -> object:
        """Create a component. `where` is the name of its settings in errors. Default: the kind.

        Settings that `check_settings` returned are not validated again.
        """
        registered = self.find(kind, name)
        with PluginCall(registered.title, "its creation"):
            return component_loading.create(registered, settings, where or kind, self._services, self.secrets)

    def make(self, kind: str, choice: Chosen, base: type[Made], where: str = "") -> Made:
        """Create the component that a spec has chosen, and check that it has the class required for its kind."""
        settings = choice.settings if choice.checked is None else choice.checked
        made = self.create(kind, choice.name, settings, where=where or f"{kind}.{choice.label}")
        registered = self.find(kind, choice.name)
        if not isinstance(made, base):
            raise PluginError(
                f"{registered.title} is of the class {type(made).__name__}, not {base.__name__}",
                fix=f"derive its class from agentfw.{base.__name__}; see: agentfw plugins check {choice.name}",
            )
        return made

    def guard(
        self, kind: str, name: str, deadline: float, *, label: str = "", counts: CallCounts | None = None
    ) -> Guard:
        """The guard of a component. `label` is what a run calls it, where it has several of this name."""
        registered = self.find(kind, name)
        own, record = registered.component.name, registered.record
        return Guard(
            kind,
            label or own,
            registered.title + (f' as "{label}"' if label not in ("", own) else ""),
            mend=record.mend,
            deadline=deadline,
            is_ours=record.distribution == OWN_DISTRIBUTION,
            counts=counts,
        )

    def provide(self, **services: object) -> None:
        """Pass these values to every factory that has a parameter of their name."""
        self._services |= services

    def missing_extra(self, registered: Registered) -> str:
        """The extra that must be installed before this component can be created. Empty if nothing is missing."""
        return registered.component.extra if component_loading.missing_modules(registered) else ""

    def specs(self) -> dict[str, NamedSpec]:
        """The run specs of plugins, by name. If several plugins offer a name, they are there by their qualified names.

        The plain name is then that of the built-in, if there is one; otherwise `find_spec` explains what is wrong.
        """
        found: dict[str, NamedSpec] = {}
        for offer in self._specs:
            name, owner = _of_offered(offer)
            same = [other for other in self._specs if other.item.name == name]
            if meant(same, name, _of_offered) == [offer]:
                found[name] = offer.item
            if len(same) > 1:
                found[f"{owner.distribution}:{name}"] = offer.item
        return dict(sorted(found.items()))

    def has_spec(self, name: str) -> bool:
        """Whether a plugin ships a run spec of that name, which may be a qualified one."""
        return bool(meant(self._specs, name, _of_offered))

    def find_spec(self, name: str) -> NamedSpec:
        """The run spec of that name. Raises an error with a fix unless there is exactly one."""
        return self._only(self._specs, "spec", name).item

    def find_template(self, name: str) -> Offered[NamedTemplate]:
        """The template of that name, and its plugin. Raises an error with a fix unless there is exactly one."""
        return self._only(self._templates, "template", name)

    def installable(self, name: str, *, command: bool = False) -> tuple[str, str] | None:
        """The distribution that offers this name, as plugins say, and what to install. None if nobody offers it.

        With `command`, the name is that of a command, and else that of a component or a spec.

        A distribution that is installed is left out: what it offers is there, or it was disabled on purpose.
        """
        for known, record in self._known:
            offered = any(name in names for kind, names in known.offers.items() if (kind == "command") == command)
            if offered and not metadata.version_of(known.name):
                return known.name, metadata.source_of(known.name, known.folder, beside=record.distribution)
        return None

    def known_plugins(self) -> list[Offered[KnownPlugin]]:
        """The distributions that plugins name which may not be installed, each with the plugin that does."""
        return list(self._known)

    def hooks(self) -> dict[str, list[PluginRecord]]:
        """Every hook, with the active plugins that implement it."""
        return {name: list(implementations(self._manager, name, self.plugins)) for name in HOOKS}

    def select_distribution(self, requested: str) -> list[PluginRecord]:
        """The plugins of a distribution requested with `--plugin NAME` or with versions: `--plugin 'NAME>=1.2'`.

        Raises an error if one is missing, broken, or of another version.
        """
        requirement = parse_requirement(requested)
        records = self._plugins_of(requirement.name, requested)
        for record in records:
            if not is_met(requirement, record.version):
                raise PluginError(
                    f"{record.title} is installed, and {requirement.specifier} is asked for",
                    fix=f'agentfw plugins install "{record.distribution}{requirement.specifier}"',
                )
        return records

    def _plugins_of(self, name: str, requested: str) -> list[PluginRecord]:
        wanted = normalise(name)
        records = [record for record in self.plugins if record.distribution == wanted]
        if not records:
            records = [record for record in self.plugins if normalise(record.name) == wanted]
            if len({record.distribution for record in records}) > 1:
                raise _same_plugin_name(name, records)
        version = "" if records else metadata.version_of(wanted)
        if version:
            fix = f"pip install --upgrade {wanted}, or ask for another one"
            raise PluginError(f"{wanted} {version} is installed, but it isn't an agentfw plugin", fix=fix)
        if not records:
            guess = nearest(wanted, {record.distribution for record in self.plugins})
            meant = f'; did you mean "{guess}"?' if guess else ""
            raise PluginError(f'no plugin "{name}" is installed{meant}', fix=f"pip install {shlex.quote(requested)}")
        for record in records:
            if record.state != "active":
                raise record.failure()
            for problem in record.problems:
                raise PluginError(f"{record.title} {problem.error}", fix=problem.fix)
        return records

    def call(self, hook_name: str, **arguments: object) -> None:
        """Call a lifecycle hook of every plugin. A plugin whose hook raises is noted once and not called again."""
        if hook_name not in LIFECYCLE_HOOKS:
            raise UnknownNameError("lifecycle hook", hook_name, LIFECYCLE_HOOKS)
        for record, implementation in implementations(self._manager, hook_name, self.plugins).items():
            if record.silenced:
                continue
            try:
                with PluginCall(record.title, f"{hook_name}()"):
                    values = [_own(name, arguments[name]) for name in implementation.argnames]
                    answer = not_awaitable(implementation.function(*values))
            except BaseException as error:
                if not is_failure(error):
                    raise
                self._trace(record, hook_name, arguments, error)
                text = f"raised {in_words(error)} in {hook_name}"
                fix = f"report it to the authors of {record.distribution}, or disable it with --no-plugin {record.name}"
                if self.options.strict:
                    raise PluginError(f"{record.title} {text}", fix=fix) from error
                record.silenced = True
                self.notes.append(f"{record.title} {text} and is not called again; {fix}")
            else:
                self._trace(record, hook_name, arguments, answer)

    def _only(self, offers: Sequence[Offered[Named]], what: str, name: str) -> Offered[Named]:
        found = meant(offers, name, _of_offered)
        if len(found) > 1:
            raise duplicate(what, name, [offer.record for offer in found])
        if not found:
            raise self._unknown(what, name, {offer.item.name for offer in offers})
        return found[0]

    def _take_notes(self) -> None:
        """Record what went wrong. With `strict`, raise it instead."""
        problems = [line for record in self.plugins for line in record.problem_lines()]
        problems += self._duplicates()
        if self.options.strict and problems:
            what = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            text = "\n  ".join([f"{what} with plugins:", *problems])
            raise PluginError(
                text, fix="fix them, disable the plugins with --no-plugin, or run without --strict-plugins"
            )
        hints = [f"{record.title} {hint}" for record in self.plugins for hint in record.hints]
        self.notes = [*problems, *hints, *self._idle_names()]

    def _duplicates(self) -> list[str]:
        """Every name that two plugins offer: which of them is meant, or the error raised when it is selected."""
        offered: dict[tuple[str, str], list[PluginRecord]] = {}
        for record in self.plugins:
            if record.state not in ("blocked", "refused"):
                offered.setdefault(("plugin", record.name), []).append(record)
        for offer in self._components:
            offered.setdefault((KINDS[offer.kind].title, offer.component.name), []).append(offer.record)
        for spec in self._specs:
            offered.setdefault(("spec", spec.item.name), []).append(spec.record)
        for template in self._templates:
            offered.setdefault(("template", template.item.name), []).append(template.record)
        lines = []
        for (what, name), records in offered.items():
            if len(records) > 1:
                error = _same_plugin_name(name, records) if what == "plugin" else duplicate(what, name, records)
                lines.append(overshadowed(what, name, records) if what != "plugin" else "")
                lines[-1] = lines[-1] or f"{error.message}; {error.fix}"
        return lines

    def _idle_names(self) -> list[str]:
        """Names to disable that no plugin has. Because of a typo, a plugin would be imported that should be blocked."""
        known = {name for record in self.plugins for name in (normalise(record.name), record.distribution)}
        lines = []
        project = self.options.project
        sources = [("--no-plugin", self.options.blocked), (DISABLE_VARIABLE, self.options.disabled)]
        sources += [] if project is None else [(f"{project.path}: plugins.disabled", project.disabled)]
        for source, names in sources:
            for name in names:
                if normalise(name) not in known and name != ALL:
                    guess = nearest(normalise(name), known)
                    lines.append(f"{source} {name}: no such plugin" + (f'; did you mean "{guess}"?' if guess else ""))
        return lines

    def _unknown(self, title: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """The error for a name that no plugin offers. It mentions broken plugins, which might have offered it.

        A broken plugin of that very name is the error itself.
        """
        for record in self.plugins:
            if record.wrong and name in (
                record.name,
                record.distribution,
                record.distribution.removeprefix("agentfw-"),
            ):
                raise record.failure()
        offer = self.installable(name)
        if offer is not None:
            return UnknownNameError(title, name, (), offered_by=offer)
        error = UnknownNameError(title, name, known)
        idle = [record for record in self.plugins if record.state != "active" or record.problems]
        if idle:
            texts = [f"{record.title} {record.error or record.problems[0].error}" for record in idle]
            error.fix += f"; a plugin that failed to load may offer it: {'; '.join(texts)}"
        return error


def _selection(options: HostOptions) -> Selection:
    project, allowed = options.project, None
    if project is not None and project.allow is not None:
        allowed = {pin.distribution: pin.version for pin in project.allow}
    return Selection(
        blocked=frozenset(map(normalise, options.blocked)),
        disabled=frozenset(map(normalise, options.disabled)),
        allowed=allowed,
        project="" if project is None else str(project.path),
        turned_off=frozenset(map(normalise, project.disabled if project is not None else ())),
        slow_import_seconds=options.slow_import_seconds,
    )


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise UnknownNameError("kind of component", kind, KINDS)


def _of_component(offer: Registered) -> tuple[str, PluginRecord]:
    return offer.component.name, offer.record


def _of_offered(offer: Offered[Any]) -> tuple[str, PluginRecord]:
    return offer.item.name, offer.record


def _same_plugin_name(name: str, records: Sequence[PluginRecord]) -> DuplicateComponentError:
    titles = " and ".join(record.title for record in records)
    flags = " or ".join(dict.fromkeys(f"--no-plugin {record.distribution}" for record in records))
    return DuplicateComponentError(
        f'plugin "{name}" is offered twice: by {titles}', fix=f"disable one of them with {flags}"
    )


def _own(name: str, value: object) -> object:
    """A copy for one observer, which may change it. The run itself isn't copied."""
    from ..episode import Episode

    if isinstance(value, Episode):
        return value.copied()
    return value if name == "run" else copy.deepcopy(value)


def _no_trace(record: PluginRecord, hook: str, arguments: dict[str, object], answer: object) -> None:
    pass


def _print_call(record: PluginRecord, hook: str, arguments: dict[str, object], answer: object) -> None:
    passed = ", ".join(f"{name}={_shortened(value)}" for name, value in arguments.items())
    outcome = f"raised {in_words(answer)}" if isinstance(answer, BaseException) else _shortened(answer)
    sys.stderr.write(f"hook {record.distribution}:{record.name} {hook}({passed}) -> {outcome}\n")


def _shortened(value: object) -> str:
    try:
        return one_line(repr(value), 120)
    except Exception as error:  # a plugin's object: tracing must not break what it observes
        return f"<{type(value).__name__} whose repr raised {in_words(error)}>"
