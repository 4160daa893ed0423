"""Plugins and what they offer, by name: a record of each plugin, its components, and which of several is meant.

What agentfw itself offers wins, so that installing a plugin never changes what a command does. A qualified name such as
`acme:scripted`, with the distribution before the colon, says whose is meant. A file may stand in the place of a name.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar, cast

from ..boundary.gate import ImportFailed, let_in, object_at
from ..boundary.metadata import EntryPoint, normalise, source_tree
from ..boundary.secrets import Secrets, secrets_in
from ..component import KINDS, Component
from ..errors import AgentfwError, DuplicateComponentError, MissingExtraError, PluginError, in_words, is_failure
from ..hookspecs import KnownPlugin, NamedSpec
from ..tool import FunctionTool

if TYPE_CHECKING:
    from pydantic import BaseModel

Result = TypeVar("Result")

OWN_DISTRIBUTION = "agentfw"
_FILE = ".py"


def is_file(name: str) -> bool:
    """Whether what stands in the place of a name is the path of a Python file, as FILE.py or FILE.py:NAME."""
    return name.endswith(_FILE) or f"{_FILE}:" in name


def whole_name(name: str, folder: Path = Path()) -> str:
    """The name of a component as a spec keeps it: the path of a file is absolute."""
    return os.path.abspath(folder / name) if is_file(name) else name


def file_and_attribute(name: str) -> tuple[Path, str]:
    """The file, and what is meant in it; empty where it has only one component.

    >>> file_and_attribute("rewards.py:correct")
    (PosixPath('rewards.py'), 'correct')
    """
    file, colon, attribute = name.rpartition(f"{_FILE}:")
    return (Path(file + _FILE), attribute) if colon else (Path(name), "")


def component_name(name: str) -> str:
    file, attribute = file_and_attribute(name)
    return re.sub(r"[^a-z0-9._-]+", "-", (attribute or file.stem).lower()).strip("._-") or "file"


def parted(name: str) -> tuple[str, str]:
    """The distribution of a qualified name, empty if there is none, and the rest."""
    whose, _, rest = name.rpartition(":")
    return normalise(whose), rest


def mend_of(distribution: str) -> str:
    """What to do about a mistake in its code. Whoever has installed it from a folder is taken for its author."""
    tree = None if distribution == OWN_DISTRIBUTION else source_tree(distribution)
    return f"fix it in {tree}" if tree else f"tell the authors of {distribution}"


def pip_install(what: str, index: str = "") -> str:
    """The command that installs a requirement, from this index alone, or where pip is configured to look."""
    return f"pip install {f'--index-url {shlex.quote(index)} ' if index else ''}{what}"


PluginState = Literal["active", "blocked", "failed", "refused", "incompatible"]


class Problem(NamedTuple):
    """A problem of a plugin that otherwise works."""

    error: str
    fix: str


class PluginRecord:
    """One entry point and the result of loading it."""

    def __init__(self, entry_point: EntryPoint) -> None:
        self.name, self.value, self.file = entry_point.name, entry_point.value, entry_point.file
        self.distribution, self.version = entry_point.distribution, entry_point.version
        self.state: PluginState = "active"
        self.error = ""  # why the plugin isn't active, worded to follow its name. Empty if it is active
        self.fix = ""
        self.wrong = False  # True if the plugin should work and doesn't. False if it was disabled on purpose
        self.cause: BaseException | None = None  # the exception, for the traceback that `--debug` shows
        self.problems: list[Problem] = []  # don't stop it from working. With `--strict-plugins` they are errors
        self.hints: list[str] = []  # information that needs no fix

    @property
    def title(self) -> str:
        return f"plugin {self.name} of {self.distribution} {self.version}"

    @property
    def names(self) -> tuple[str, str, str]:
        """The names under which the plugin can be selected or disabled."""
        return self.name, self.distribution, self.distribution.removeprefix("agentfw-")

    @property
    def mend(self) -> str:
        """How to fix a mistake in the code of the plugin."""
        return f"fix it in {self.file}" if self.file else mend_of(self.distribution)

    @property
    def mend_or_disable(self) -> str:
        """How to fix the plugin, or how to run without it."""
        return self.mend if self.file else f"{self.mend}, or disable it with --no-plugin {self.name}"

    def leave_out(self, state: Literal["blocked", "refused"], error: str, fix: str) -> None:
        """Mark the plugin as disabled on purpose. That is not a problem unless it is selected."""
        self.state, self.error, self.fix = state, error, fix

    def stop(self, state: PluginState, error: str, fix: str | None = None, cause: BaseException | None = None) -> None:
        """Mark the plugin as broken. By default, its authors can mend it."""
        self.state, self.error, self.cause, self.wrong = state, error, cause, True
        self.fix = self.mend_or_disable if fix is None else fix

    def failure(self) -> PluginError:
        """The error for a run that selected this plugin."""
        error = PluginError(f"{self.title} {self.error}", fix=self.fix)
        error.__cause__ = self.cause
        return error

    def problem_lines(self) -> list[str]:
        """All problems of the plugin, one line each."""
        stopped = [f"{self.title} {self.error}; {self.fix}"] if self.wrong else []
        return stopped + [f"{self.title} {problem.error}; {problem.fix}" for problem in self.problems]


class Registered(NamedTuple):
    """A component together with its kind and the plugin that offers it.

    Nothing else has a component's code imported. Whatever goes wrong there becomes an error that names the distribution
    of the component, with a command to fix it. Errors that it raises on purpose (`AgentfwError`) pass unchanged.
    """

    component: Component
    kind: str
    record: PluginRecord

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def title(self) -> str:
        return f'{KINDS[self.kind].title} "{self.name}" of {self.record.distribution} {self.record.version}'

    def missing_module(self) -> str:
        """The first of the modules that it needs and that isn't installed; looked for, never imported."""
        for module in self.component.needs:
            try:
                if find_spec(module) is None:
                    return module
            except (ImportError, ValueError):  # a parent is missing, or the module was put in place by hand
                return module
        return ""

    def settings_model(self) -> type[BaseModel] | None:
        """The pydantic model of its settings. None if it has none."""
        if not self.component.settings:
            return None
        from ..boundary.settings_input import is_model

        model = self._resolve(self.component.settings)
        if not is_model(model):
            raise self._broken(f"names the settings {self.component.settings}, which isn't a pydantic model")
        return model

    def check_settings(self, settings: Mapping[str, object], where: str, secrets: Secrets) -> BaseModel | None:
        """The settings, validated; None if it has none. `secrets` then knows the secrets among them."""
        from ..boundary.settings_input import validate

        model = self.settings_model()
        # A validator or a default of the plugin's model may raise anything.
        checked = self._guarded("can't check its settings", lambda: validate(model, settings, where))
        secrets.add(*secrets_in(checked))
        return checked

    def create(
        self,
        settings: Mapping[str, object] | BaseModel | None,
        where: str,
        services: Mapping[str, object],
        secrets: Secrets,
    ) -> object:
        """Check the settings, then import and call the factory: a wrong setting is found before anything heavy loads.

        Settings that were validated are not validated again: a validator may change what it is given. A factory with a
        parameter named like a service is given it: a judge, for one, makes its own policy with `host`.
        """
        if missing := self.missing_module():
            raise self._missing_extra(missing)
        if settings is None or isinstance(settings, Mapping):
            checked = self.check_settings(settings or {}, where, secrets)
        else:
            # A copy: what one episode's world does to its settings must not be seen by the next one.
            checked = self._guarded("has settings that can't be copied", lambda: settings.model_copy(deep=True))
        factory = self._resolve(self.component.factory)
        if isinstance(factory, FunctionTool):  # what `@tool` makes of a function: a toolbox already
            return factory
        if not callable(factory):
            raise self._broken(f"names the factory {self.component.factory}, which can't be called")
        arguments = () if checked is None else (checked,)
        named = dict[str, object]()
        with suppress(TypeError, ValueError):  # what is written in C may have no signature
            named = {name: services[name] for name in services.keys() & inspect.signature(factory).parameters.keys()}
        return self._guarded("can't be made", lambda: cast(Callable[..., object], factory)(*arguments, **named))

    def _resolve(self, path: str) -> object:
        try:
            return let_in(self.title, lambda: object_at(path))
        except ImportFailed as failure:
            if isinstance(failure.error, AgentfwError):
                raise failure.error from None
            raise self._failed(f"can't be imported ({path})", failure.error) from failure.error

    def _guarded(self, failing: str, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except AgentfwError:
            raise
        except BaseException as error:
            if not (is_failure(error) or isinstance(error, CancelledError)):  # nobody cancels what isn't awaited
                raise
            raise self._failed(failing, error) from error

    def _failed(self, failing: str, error: BaseException) -> AgentfwError:
        if isinstance(error, ImportError) and self.component.extra:
            # No extra would bring what is missing of the plugin's own.
            own = self.component.factory.partition(":")[0].partition(".")[0]
            if (error.name or "").partition(".")[0] != own:
                # Lazy packages such as transformers raise an error without the missing name from one that has it.
                cause: BaseException | None = error
                while cause is not None and not (isinstance(cause, ImportError) and cause.name):
                    cause = cause.__cause__
                return self._missing_extra(getattr(cause, "name", ""))
        return self._broken(f"{failing}: {in_words(error)}")

    def _missing_extra(self, module: str) -> MissingExtraError:
        whose = self.record.distribution
        return MissingExtraError(self.title, self.component.extra, distribution=whose, module=module)

    def _broken(self, text: str) -> PluginError:
        whose = self.record
        upgrade = "" if whose.file else f"pip install --upgrade {whose.distribution}; if that doesn't help, "
        return PluginError(f"{self.title} {text}", fix=upgrade + whose.mend)


ItemOffered = TypeVar("ItemOffered", NamedSpec, KnownPlugin)


class Offered(NamedTuple, Generic[ItemOffered]):
    """A spec or a known plugin, and the plugin that offers it."""

    item: ItemOffered
    record: PluginRecord

    @property
    def name(self) -> str:
        return self.item.name


Offer = TypeVar("Offer", Registered, Offered[NamedSpec])


def meant(offers: Sequence[Offer], name: str) -> list[Offer]:
    """The offers that a name stands for."""
    whose, rest = parted(name)
    found = [each for each in offers if each.name == rest and whose in ("", normalise(each.record.distribution))]
    return [offer for offer in found if offer.record.distribution == OWN_DISTRIBUTION] or found


def duplicate(what: str, name: str, whose: Sequence[PluginRecord]) -> DuplicateComponentError:
    """The error for a name that two plugins offer, neither of them built in."""
    return DuplicateComponentError(
        f'{what} "{name}" is offered twice: by {titles(whose)}', fix=f"select one of them: {qualified(name, whose)}"
    )


def titles(whose: Sequence[PluginRecord]) -> str:
    return " and ".join(f"{each.distribution} {each.version}" for each in whose)


def qualified(name: str, whose: Sequence[PluginRecord]) -> str:
    return " or ".join(dict.fromkeys(f"{each.distribution}:{name}" for each in whose))
