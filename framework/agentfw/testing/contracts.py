"""The contract of each kind: which checks it has, and running them on a component.

A host for tests has the given plugins and nothing else of the machine: no other plugin that happens to be installed, no
environment variable, no agentfw.toml. A plugin with any problem is an error at once.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..boundary import metadata
from ..boundary.metadata import EntryPoint, normalise
from ..boundary.settings_input import input_key
from ..component import KINDS, Kind
from ..episode import Episode
from ..errors import UnknownNameError
from ..host.host import GROUP, Host, HostOptions
from ..host.offers import OWN_DISTRIBUTION
from .checks import (
    BrokenPromise,
    CheckFunction,
    CheckResult,
    DoesNotApply,
    OutOfTime,
    Subject,
    require,
    run_check,
    sample_episodes,
)

if TYPE_CHECKING:
    from ..host import Host


class _Given(EntryPoint):
    plugin: object

    def load(self) -> object:
        return self.plugin


def fresh_host(*plugins: object, builtins: bool = False, strict: bool = True) -> Host:
    """A host of these plugins: modules, names of modules, or any objects with hooks; and agentfw's own where wished.

    strict: raise a PluginError for whatever is wrong with a plugin; without it the host notes it and goes on.
    """
    entry_points: list[EntryPoint] = []
    for number, plugin in enumerate(plugins, start=1):
        named = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__name__
        name = plugin if isinstance(plugin, str) else named
        distribution = normalise(name.partition(":")[0].partition(".")[0]) or "plugin"
        about = f"{distribution}-{number}", name, distribution, metadata.version_of(distribution) or "0"
        given = _Given(*about)
        given.plugin = plugin
        entry_points.append(EntryPoint(*about) if isinstance(plugin, str) else given)
    if builtins:
        entry_points += [found for found in metadata.entry_points(GROUP) if found.distribution == OWN_DISTRIBUTION]
    return Host.load(HostOptions(strict=strict), entry_points)


TIME_LIMIT = 60.0
"""Seconds for one check; a policy or a learner that loads a model of its own may be given more."""

Factory = Callable[[], object]
Examples = Sequence[Mapping[str, Any]]
_SUBJECTS = {kind.name: kind.plural for kind in KINDS.values()} | {"plugin": "plugins", "command": "commands"}
"""What the checks of a kind are about. The last two are no components but something else of a plugin."""


def contract(kind: str) -> tuple[CheckFunction, ...]:
    """The checks of a kind, in the order in which they are run.

    They are the public functions that take its subject alone, such as `subject: Rewards`, and return nothing.
    """
    if kind not in _SUBJECTS:
        raise UnknownNameError("kind", kind, _SUBJECTS)
    about = _SUBJECTS[kind]
    home = "plugins" if about in ("hooks", "commands") else about
    module = importlib.import_module(f".{home}", __package__)
    subject = getattr(module, about.capitalize())
    found = [
        function
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and [*inspect.signature(function).parameters] == ["subject"]
        # Not by their spelling: `Subject[RewardModel]` is the same.
        and inspect.get_annotations(function, eval_str=True) == {"subject": subject, "return": None}
    ]
    return (_can_be_made(KINDS[kind]), its_settings_are_explained, *found) if kind in KINDS else tuple(found)


@dataclass(frozen=True, slots=True)
class Made:
    """What `made_by` returns."""

    host: Host
    kind: str
    name: str
    settings: Mapping[str, object]

    def __call__(self) -> object:
        return self.host.create(self.kind, self.name, self.settings)


def made_by(host: Host, kind: str, name: str, settings: Mapping[str, object] | None = None) -> Made:
    """A factory that makes the component as a run would: found by name, its settings checked."""
    return Made(host, kind, name, settings or {})


def its_settings_are_explained(subject: Subject[object]) -> None:
    """Each of its settings has a description, and a default that is a valid value."""
    if not isinstance(subject.make, Made):
        raise DoesNotApply("its settings are checked where it is made by its name: made_by")
    name = subject.make.name
    if (model := subject.make.host.settings_model(subject.make.kind, name)) is None:
        raise DoesNotApply("it has no settings")
    defaults: dict[str, object] = {}
    for field_name, field in model.model_fields.items():
        key = input_key(field_name, field)
        require(field.description, f'"{key}" has no description, so `agentfw plugins show {name}` can\'t explain it')
        if not field.is_required():
            defaults[key] = field.get_default(call_default_factory=True, validated_data={})
    try:
        model.model_validate(defaults)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            # What is required has no default, and what the settings as a whole lack is said when it is made.
            if problem["loc"] and problem["type"] != "missing":
                key = ".".join(map(str, problem["loc"]))
                raise BrokenPromise(f'the default of "{key}" is not valid: {problem["msg"]}') from None


def run_contract(
    host: Host,
    kind: str,
    name: str,
    settings: Mapping[str, object] | None = None,
    *,
    episodes: Sequence[Episode] | None = None,
    time_limit: float = TIME_LIMIT,
) -> list[CheckResult]:
    """Check a component of a host. An unknown kind or name is an error; whatever the component does is a result."""
    contract(kind)
    host.find(kind, name)
    return check_component(kind, made_by(host, kind, name, settings), episodes=episodes, time_limit=time_limit)


def check_component(
    kind: str,
    factory: Factory,
    *,
    episodes: Sequence[Episode] | None = None,
    examples: Examples = (),
    time_limit: float = TIME_LIMIT,
) -> list[CheckResult]:
    """Check what a factory makes. What can't be made, or hangs, is not checked any further.

    `kind` is a kind of component, or `plugin` for a whole plugin that watches runs, or `command` for a click command.
    `examples` are arguments for calls of a tool, such as `[{"city": "Nantes"}]`, that succeed and do no harm.
    """
    material = sample_episodes() if episodes is None else episodes
    results: list[CheckResult] = []
    for check in contract(kind):
        results.append(run_check(check, factory, episodes=material, time_limit=time_limit, examples=examples))
        if isinstance(results[-1].error, OutOfTime) or not results[0].passed:
            break
    return results


def contract_tests(
    kind: str,
    factory: Factory,
    *,
    episodes: Sequence[Episode] | None = None,
    examples: Examples = (),
    time_limit: float = TIME_LIMIT,
) -> Callable[..., None]:
    """A pytest test with one case for each check: `test_notebook = contract_tests("memory", Notebook)`.

    The arguments are those of `check_component`.
    """
    import pytest

    material = sample_episodes() if episodes is None else episodes

    @pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__) for check in contract(kind)])
    def test_contract(check: CheckFunction) -> None:
        result = run_check(check, factory, episodes=material, time_limit=time_limit, examples=examples)
        if result.skipped:
            pytest.skip(result.detail)
        if not result.passed:
            # Raised from the component's own error, so that pytest shows where it came from.
            raise AssertionError(f"wanted: {result.promise}\nbroken: {result.detail}") from result.error

    return test_contract


def _can_be_made(kind: Kind) -> CheckFunction:
    """The check that every kind begins with."""
    module, _, name = kind.base.partition(":")

    def can_be_made(subject: Subject[Any]) -> None:
        protocol, made = kind.base_class(), subject.make()
        wrong = f"its factory makes a {type(made).__name__}, which doesn't derive from agentfw.{module}.{name}"
        require(isinstance(made, protocol), wrong)
        for method, function in inspect.getmembers(protocol, inspect.isfunction):
            wrong = f"it defines {method}() with `async def`, but it must be a plain function"
            is_plain = not inspect.iscoroutinefunction(getattr(made, method, None))
            require(is_plain or inspect.iscoroutinefunction(function), wrong)

    can_be_made.__doc__ = f"It can be made, and its class is derived from {name}."
    return can_be_made
