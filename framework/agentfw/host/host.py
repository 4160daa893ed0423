"""The plugin host: finds installed plugins and creates components by kind and name.

A broken plugin only prints a line on stderr until somebody selects it. Then it is an error with a fix. Loading imports
only the light modules of plugins; `create` imports the code of a component. Each host has its own pluggy manager, so
two hosts in one process are independent.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..boundary import metadata
from ..boundary.guard import CallCounts, Guard
from ..boundary.metadata import EntryPoint, normalise
from ..boundary.output import send_prints_to_stderr
from ..boundary.secrets import Secrets
from ..component import KINDS, Component
from ..errors import DuplicateComponentError, PluginError, SettingsError, UnknownNameError, UsageError, nearest
from ..hookspecs import HOOKS, Hook, KnownPlugin, NamedSpec
from .hook_calls import HookManager, HookOwner
from .offers import (
    OWN_DISTRIBUTION,
    PluginRecord,
    Problem,
    Registered,
    component_name,
    duplicate,
    is_file,
    meant,
    pip_install,
    qualified,
    titles,
    whole_name,
)
from .plugin_loading import (
    ALL,
    Answers,
    FileEntryPoint,
    Selection,
    ask,
    file_entry_point,
    is_left_out,
    load_plugins,
    specs_of,
    unreadable,
)
from .project import DEFAULTS_GROUP, ProjectFile, find_project, find_user_file, read_project, read_shipped
from .trust import SHIPPED

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ..boundary.crossing import Guarded

GROUP = "agentfw"
DISABLE_VARIABLE = "AGENTFW_DISABLE_PLUGINS"
TRACE_VARIABLE = "AGENTFW_TRACE_HOOKS"
_OF_PYTHON = "python:"  # how the name of an object begins that is in no file
_GIVEN = "agentfw_given"  # the module that has the objects which a program has given in place of names
Made = TypeVar("Made")
Layered = TypeVar("Layered", bound="Guarded")


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
    """The agentfw.toml of the current folder or of one above it."""
    user: ProjectFile | None = None
    """The agentfw.toml of the user."""
    trace: bool = False
    """AGENTFW_TRACE_HOOKS: print every hook call to stderr."""

    @classmethod
    def from_environment(cls, *, blocked: Iterable[str] = (), strict: bool = False) -> HostOptions:
        """Options from the environment variables, the files of the project and the user, and the command line."""
        words = [word.strip() for word in os.environ.get(DISABLE_VARIABLE, "").split(",")]
        disabled = tuple(ALL if word == "1" else word for word in words if word not in ("", "0"))
        trace = os.environ.get(TRACE_VARIABLE, "") not in ("", "0")
        return cls(tuple(blocked), disabled, strict, find_project(), find_user_file(), trace)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> HostOptions:
        """The options that `plain` returned in another process, which then loads the same plugins."""
        project, user = (read_project(Path(values[key])) if values[key] else None for key in ("project", "user"))
        return cls(tuple(values["blocked"]), tuple(values["disabled"]), project=project, user=user)

    def plain(self) -> dict[str, Any]:
        """What another process needs to load the same plugins, as plain values."""
        files = {"project": self.project, "user": self.user}
        paths = {name: "" if file is None else str(file.path) for name, file in files.items()}
        return {"blocked": list(self.blocked), "disabled": list(self.disabled), **paths}


class Host:
    """All plugins of this process and their components. Create it with `Host.load`."""

    def __init__(
        self, options: HostOptions, manager: HookManager, plugins: list[PluginRecord], answers: Answers
    ) -> None:
        self.plugins = plugins  # one record per entry point, by distribution and name, also of plugins that failed
        self.notes = manager.notes  # one line for each problem, for stderr
        self.layers: list[ProjectFile] = []  # the agentfw.toml files in effect: of the project, the user, distributions
        self.secrets = Secrets()  # of the settings that were checked here: struck out of everything that leaves a run
        self.options, self._manager = options, manager
        order = list(KINDS)
        self._components = sorted(
            answers.components, key=lambda offer: (order.index(offer.kind), offer.name, offer.record.distribution)
        )
        self._withdrawn, self._specs, self._known = answers.withdrawn, answers.specs, answers.known
        self._services: dict[str, object] = {"host": self}
        self._files: dict[tuple[str, str], Registered] = {}

    @classmethod
    def load(cls, options: HostOptions | None = None, entry_points: Sequence[EntryPoint] | None = None) -> Host:
        """Import what is installed and allowed. A plugin's problem is raised only with `strict`.

        By default, the options come from the environment variables and from the agentfw.toml files that hold in the
        current folder, and the entry points from `sys.path`.
        """
        options = HostOptions.from_environment() if options is None else options
        if entry_points is None:
            send_prints_to_stderr()
        scan = metadata.scan(GROUP, DEFAULTS_GROUP) if entry_points is None else metadata.Scan(list(entry_points), [])
        layers = [file for file in (options.project, options.user) if file is not None]
        selection = _selection(options, layers)
        offered, wrong = [], list[tuple[EntryPoint, SettingsError]]()
        for entry in scan.entry_points:
            if entry.group != DEFAULTS_GROUP:
                offered.append(entry)
            elif not is_left_out(PluginRecord(entry), selection):
                try:
                    layers.append(read_shipped(entry))
                except SettingsError as error:
                    wrong.append((entry, error))
        selection = _selection(options, layers)
        manager = HookManager([], traces=options.trace, strict=options.strict)
        plugins = load_plugins(offered, manager, selection)
        plugins += [unreadable(problem, selection) for problem in scan.problems]
        for entry, reason in wrong:
            record = next((record for record in plugins if record.distribution == entry.distribution), None)
            if record is None:
                plugins.append(record := PluginRecord(entry))
            record.problems.append(Problem(f"ships defaults that can't be used: {reason.message}", reason.fix))
        plugins.sort(key=lambda record: (record.distribution, record.name))
        answers = ask(plugins, manager)
        SHIPPED.update(os.path.realpath(offer.item.path) for offer in answers.specs)
        answers.specs.extend(offer for file in layers for offer in specs_of(file))
        host = cls(options, manager, plugins, answers)
        host.layers = layers
        host._take_notes()
        return host

    def components(self, kind: str | None = None) -> list[Registered]:
        """All components, sorted by kind and name. A name that two plugins offer appears twice."""
        if kind not in (None, *KINDS):
            raise UnknownNameError("kind of component", str(kind), KINDS)
        return [offer for offer in self._components if kind in (None, offer.kind)]

    def find(self, kind: str, name: str) -> Registered:
        """The component of that kind and name. Raises an error with a fix unless there is exactly one.

        Of two with one name the built-in is meant. `acme:NAME` is that of the distribution acme. `./NAME.py` is a file,
        which becomes a plugin of this host.
        """
        known, name = self.components(kind), whole_name(name)
        # A file is read once: whatever becomes of it, a run goes on as it began.
        if is_file(name) and (kind, name) not in self._files:
            found = load_plugins([file_entry_point(kind, name)], self._manager, _selection(self.options, self.layers))
            self.plugins += found
            answers = ask(found, self._manager)
            if found[0].state != "active":
                raise found[0].failure()
            self._components += answers.components
            self._files[kind, name] = answers.components[0]
        if (kind, name) in self._files:
            return self._files[kind, name]
        offers = meant(known, name)
        if len(offers) > 1:
            raise duplicate(KINDS[kind].title, name, [offer.record for offer in offers])
        if offers:
            return offers[0]
        for offer in meant([offer for offer in self._withdrawn if offer.kind == kind], name):
            raise offer.record.failure()
        if name.startswith(_OF_PYTHON):
            raise UsageError(
                f"the {KINDS[kind].title} {name.removeprefix(_OF_PYTHON)} was an object of a Python program",
                fix="make it at the top level of a file, where another process finds it, and begin again",
            )
        error = self._unknown(KINDS[kind].title, name, {offer.name for offer in known})
        if error.fix.startswith("similar"):
            error.fix += f"; all: agentfw plugins list --kind {kind}"
        for other in self._components:
            if other.name == name:
                error.fix = f'"{name}" is of the kind {other.kind}; {error.fix}'
        raise error

    def take(self, kind: str, given: object) -> str:
        """Make an object, a class or a function a component of this host. Returns the name that a spec has for it."""
        from .from_functions import made_of

        own = str(getattr(given, "__name__", type(given).__name__)).strip("<>")
        module = sys.modules.get(str(getattr(given, "__module__", "")))
        file = getattr(module, "__file__", None)
        if file and getattr(module, own, None) is given:  # another process finds it there, when a run is resumed
            name = f"{os.path.abspath(file)}:{own}"
            record = PluginRecord(file_entry_point(kind, name))
        else:
            same = sum(name.startswith(f"{_OF_PYTHON}{own}") for _, name in self._files)
            own += f"-{same + 1}" if same else ""
            name = f"{_OF_PYTHON}{own}"
            record = PluginRecord(FileEntryPoint(component_name(own), name, "python", "0", "the program that ran it"))
        home = sys.modules.setdefault(_GIVEN, ModuleType(_GIVEN))
        attribute = f"given_{len(vars(home))}"
        setattr(home, attribute, lambda: made_of(kind, given, record.name))
        component = Component(record.name, f"{_GIVEN}:{attribute}", own)
        self._files[kind, name] = Registered(component, kind, record)
        return name

    def settings_model(self, kind: str, name: str) -> type[BaseModel] | None:
        """The pydantic model of a component's settings. None if it has no settings."""
        return self.find(kind, name).settings_model()

    def check_settings(
        self, kind: str, name: str, settings: Mapping[str, object], *, where: str = ""
    ) -> BaseModel | None:
        """Validate the settings of a component. None if it has no settings."""
        return self.find(kind, name).check_settings(settings, where or kind, self.secrets)

    def create(
        self, kind: str, name: str, settings: Mapping[str, object] | BaseModel | None, *, where: str = ""
    ) -> object:
        """Create a component, with checked settings or others. `where` is their name in errors. Default: the kind."""
        return self.find(kind, name).create(settings, where or kind, self._services, self.secrets)

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
        title = registered.title + (f' as "{label}"' if label not in ("", own) else "")
        is_ours = record.distribution == OWN_DISTRIBUTION
        return Guard(kind, label or own, title, mend=record.mend, deadline=deadline, is_ours=is_ours, counts=counts)

    def guarded(
        self,
        layer: type[Layered],
        kind: str,
        choice: Chosen,
        deadline: float,
        counts: CallCounts,
        where: str = "",
        **given: Any,
    ) -> Layered:
        """The component that a spec has chosen, made and within its guard. `given` is for the layer of its kind."""
        made: Any = self.make(kind, choice, layer.table.base, where)
        return layer(made, self.guard(kind, choice.name, deadline, label=choice.label, counts=counts), **given)

    def provide(self, **services: object) -> None:
        """Pass these values to every factory that has a parameter of their name."""
        self._services |= services

    def missing_extra(self, registered: Registered) -> str:
        """The extra that must be installed before this component can be created. Empty if nothing is missing."""
        return registered.component.extra if registered.missing_module() else ""

    def specs(self) -> dict[str, NamedSpec]:
        """The run specs of plugins, by name, and by their qualified names where several plugins offer one."""
        found: dict[str, NamedSpec] = {}
        for offer in self._specs:
            if meant(self._specs, offer.name) == [offer]:
                found[offer.name] = offer.item
            if sum(other.name == offer.name for other in self._specs) > 1:
                found[f"{offer.record.distribution}:{offer.name}"] = offer.item
        return dict(sorted(found.items()))

    def has_spec(self, name: str) -> bool:
        """Whether a plugin ships a run spec of that name, which may be a qualified one."""
        return bool(meant(self._specs, name))

    def find_spec(self, name: str) -> NamedSpec:
        """The run spec of that name. Raises an error with a fix unless there is exactly one."""
        found = meant(self._specs, name)
        if len(found) > 1:
            raise duplicate("spec", name, [offer.record for offer in found])
        if not found:
            raise self._unknown("spec", name, {offer.name for offer in self._specs})
        return found[0].item

    def installable(self, name: str, *, command: bool = False) -> tuple[str, str] | None:
        """The distribution that offers this name, as plugins say, and how to install it. None if nobody offers it.

        With `command`, the name is that of a command, and else that of a component or a spec. A plugin that was written
        below the current directory is meant before all others.
        """
        for folder in (name, f"agentfw-{name}", name.rpartition("-")[0] or name):
            with suppress(OSError, ValueError):
                project = Path(folder, "pyproject.toml").read_text("utf-8")
                if "entry-points.agentfw" in project and not metadata.version_of(folder):
                    return folder, pip_install(f"-e {folder}")
        for known, record in self._known:
            offered = any(name in names for kind, names in known.offers.items() if (kind == "command") == command)
            if offered and not metadata.version_of(known.name):  # else it was disabled on purpose
                return known.name, self.installation(known, record.distribution)
        return None

    def installation(self, known: KnownPlugin, beside: str) -> str:
        """How to install a plugin that the distribution `beside` names: from its sources, or the index of both."""
        # The name alone would let pip take whatever somebody has put under that name into the public index.
        source = metadata.source_of(known.name, known.folder, beside=beside)
        index = next(
            (file.package_index for file in self.layers if file.package_index and file.shipped_by in ("", beside)), ""
        )
        if index or source != known.name or beside == OWN_DISTRIBUTION:
            return pip_install(source, "" if source != known.name else index)
        return (
            f"install {known.name} from where {beside} came from, "
            "or say where that is: plugins.package_index in agentfw.toml"
        )

    @property
    def package_index(self) -> str:
        """The URL of the index that plugins are installed from. Empty: pip's own choice."""
        return next((file.package_index for file in self.layers if file.package_index), "")

    def hooks(self) -> dict[str, list[PluginRecord]]:
        """Every hook, with the active plugins that implement it."""
        manager = self._manager
        found = {name: [manager.owner_of(each).record for each in manager.implementations(name)] for name in HOOKS}
        return {name: [record for record in self.plugins if record in found[name]] for name in HOOKS}

    def select_distribution(self, requested: str) -> list[PluginRecord]:
        """The plugins of a distribution as `--plugin NAME` or `NAME>=1.2` requests it. Raises if something is wrong."""
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.version import InvalidVersion

        try:
            requirement = Requirement(requested)
        except InvalidRequirement as error:
            text = f'"{requested}" names no plugin: {str(error).splitlines()[0]}'
            raise UsageError(text, fix="write NAME, or NAME with versions: 'agentfw-tea>=1.2,<2'") from None
        name, wanted = requirement.name, normalise(requirement.name)
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
            fix = pip_install(shlex.quote(requested), self.package_index)
            raise PluginError(f'no plugin "{name}" is installed{meant}', fix=fix)
        for record in records:
            if record.state != "active":
                raise record.failure()
            for problem in record.problems:
                raise PluginError(f"{record.title} {problem.error}", fix=problem.fix)
        for record in records:
            try:
                is_met = requirement.specifier.contains(record.version, prereleases=True)
            except InvalidVersion:
                is_met = not requirement.specifier
            if not is_met:
                raise PluginError(
                    f"{record.title} is installed, and {requirement.specifier} is asked for",
                    fix=pip_install(f'"{record.distribution}{requirement.specifier}"', self.package_index),
                )
        return records

    def call(self, hook_name: str, **arguments: object) -> None:
        """Call a lifecycle hook of every plugin. A plugin whose hook raises is noted once and not called again."""
        self._manager.tell(hook_name, **arguments)

    def hooks_of_run(self, choices: Sequence[Chosen], deadline: float) -> HookManager:
        """What calls the hooks of one run: those of all plugins, and those of the hook components that it names."""
        manager = self._manager.for_run(deadline)
        for choice in choices:
            registered = self.find("hook", choice.name)
            owner = HookOwner(choice.label, registered.title, registered.record.mend, registered.record)
            manager.add(self.make("hook", choice, Hook), owner)
        return manager

    def _take_notes(self) -> None:
        """Record what went wrong. With `strict`, raise it instead."""
        problems = [*(line for record in self.plugins for line in record.problem_lines()), *self._offered_twice()]
        if self.options.strict and problems:
            what = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            text = "\n  ".join([f"{what} with plugins:", *problems])
            fix = "fix them, disable the plugins with --no-plugin, or run without --strict-plugins"
            raise PluginError(text, fix=fix)
        hints = [f"{record.title} {hint}" for record in self.plugins for hint in record.hints]
        self.notes[:] = [*problems, *hints, *self._disabled_in_vain()]

    def _offered_twice(self) -> Iterator[str]:
        """Every name that two plugins offer: which of them is meant, or the error raised when it is selected."""
        offered: dict[tuple[str, str], list[PluginRecord]] = {}
        for record in self.plugins:
            if record.state not in ("blocked", "refused"):
                offered.setdefault(("plugin", record.name), []).append(record)
        for offer in self._components:
            offered.setdefault((KINDS[offer.kind].title, offer.name), []).append(offer.record)
        for spec in self._specs:
            offered.setdefault(("spec", spec.name), []).append(spec.record)
        for (what, name), records in ((of, records) for of, records in offered.items() if len(records) > 1):
            others = [record for record in records if record.distribution != OWN_DISTRIBUTION]
            if what != "plugin" and 0 < len(others) < len(records):
                built_in = f'{what} "{name}" is built in, and {titles(others)} offers one, too'
                yield f"{built_in}; to select that: {qualified(name, others)}"
                continue
            error = _same_plugin_name(name, records) if what == "plugin" else duplicate(what, name, records)
            yield f"{error.message}; {error.fix}"

    def _disabled_in_vain(self) -> Iterator[str]:
        """Names to disable that no plugin has. Because of a typo, a plugin would be imported that should be blocked."""
        known = {name for record in self.plugins for name in (normalise(record.name), record.distribution)}
        sources = [("--no-plugin", self.options.blocked), (DISABLE_VARIABLE, self.options.disabled)]
        sources += [(f"{file.path}: plugins.disabled", file.disabled) for file in self.layers]
        for source, names in sources:
            for name in names:
                if normalise(name) not in known and name != ALL:
                    guess = nearest(normalise(name), known)
                    meant = f'; did you mean "{guess}"?' if guess else ""
                    yield f"{source} {name}: no such plugin{meant}"

    def _unknown(self, title: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """The error for a name that nobody offers: that of a broken plugin of this name, or one that mentions them."""
        for record in self.plugins:
            if record.wrong and name in record.names:
                raise record.failure()
        offer = self.installable(name)
        if offer is not None:
            return UnknownNameError(title, name, (), offered_by=offer)
        error = UnknownNameError(title, name, known)
        module, _, inside = name.replace(":", ".").partition(".")
        if Path(name).suffix in (".json", ".csv", ".txt", ".parquet"):
            error.fix = "questions are read from a file with one JSON object a line: TASKS.jsonl"
        elif inside and Path(f"{module}.py").is_file():
            error.fix = f"a function in a file is named with it: {module}.py:{inside}"
        failed = [record for record in self.plugins if record.wrong or record.problems]
        texts = [f"{record.title} {record.error or record.problems[0].error}" for record in failed]
        if texts:
            error.fix += f"; a plugin that failed to load may offer it: {'; '.join(texts)}"
        left_out = [record for record in self.plugins if record.state in ("blocked", "refused") and not record.wrong]
        near = [record for record in left_out if nearest(name, record.names)]
        error.fix += "".join(f"; {record.title} {record.error}: {record.fix}" for record in near)
        if left_out and not near:
            error.fix += f"; {len(left_out)} of the installed plugins are left out, see: agentfw plugins list"
        return error


def _selection(options: HostOptions, files: Sequence[ProjectFile]) -> Selection:
    by = next((file for file in files if file.allow is not None), None)
    return Selection(
        blocked=frozenset(map(normalise, options.blocked)),
        disabled=frozenset(map(normalise, options.disabled)),
        allowed=None if by is None or by.allow is None else {pin.distribution: pin.version for pin in by.allow},
        project="" if by is None else str(by.path),
        turned_off={normalise(name): str(file.path) for file in files for name in file.disabled},
        package_index=next((file.package_index for file in files if file.package_index), ""),
    )


def _same_plugin_name(name: str, records: Sequence[PluginRecord]) -> DuplicateComponentError:
    titles = " and ".join(record.title for record in records)
    flags = " or ".join(dict.fromkeys(f"--no-plugin {record.distribution}" for record in records))
    text = f'plugin "{name}" is offered twice: by {titles}'
    return DuplicateComponentError(text, fix=f"disable one of them with {flags}")
