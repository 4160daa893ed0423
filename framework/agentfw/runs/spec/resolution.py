"""Resolves a spec: finds its components, and validates the settings of each once.

All of it happens before the first component is made, so a spelling mistake in the last of them costs no work and leaves
nothing behind. A run folder keeps the settings as they were given, because what a validator made of them might not go
through it a second time; beside them stand those that are in force, defaults included.

    resolved, sources = resolve(spec, host)
    about = {"spec": as_given(resolved), "settings": in_force(resolved)}
    resolved = resolve_again(about, host, "run.json", changes={})      # in another process, perhaps years later
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ...errors import AgentfwError, SettingsError, UsageError
from ...host import Host
from ...settings import operational_keys
from ...settings_record import complete, from_json, masked, masked_keys, to_json
from .run_spec import COMPONENTS, OF_TRAININGS, Choice, RunSpec, apply_assignments, parse_spec

__all__ = [
    "as_given",
    "changed_plugins",
    "in_force",
    "missing_secrets",
    "plugins_of",
    "resolve",
    "resolve_again",
    "with_defaults",
]


Change = Callable[[str, Choice, str], Choice]


def resolve(spec: RunSpec, host: Host) -> tuple[RunSpec, dict[str, str]]:
    """The spec with the settings of each component validated, and the distribution that each comes from."""
    sources: dict[str, str] = {}

    def checked(kind: str, choice: Choice, where: str) -> Choice:
        record = host.find(kind, choice.name).record
        sources[f"{kind} {choice.name}"] = f"{record.distribution}=={record.version}"
        return choice.with_checked(host.check_settings(kind, choice.name, choice.settings, where=where))

    return _changed(spec, checked), sources


def resolve_again(about: Mapping[str, Any], host: Host, file: str, changes: Mapping[str, Any]) -> RunSpec:
    """The resolved spec of a run that is there already, from its run.json. What has changed since is noted.

    `changes` are nested tables, such as {"policy": {"api_key": "..."}}: the secrets that run.json doesn't have, and
    settings that can't change results.
    """
    given = set(_dotted(changes))
    _check_changes(about, host, given)
    spec = parse_spec(apply_assignments(from_json(about["spec"]), changes), file)
    resolved, sources = resolve(spec, host)
    components = about.get("components", {})
    for component, source in components.items():
        if sources.get(component) != source:
            host.notes.append(f"{component} came from {source} and now comes from {sources.get(component)}")
    others = {name: source for name, source in about.get("plugins", {}).items() if source not in components.values()}
    host.notes += changed_plugins(others, plugins_of(host), "when the run began", "now")
    settings = about.get("settings", {})

    def as_before(kind: str, choice: Choice, where: str) -> Choice:
        if where not in settings:
            return choice
        changed = {key.removeprefix(f"{where}.").partition(".")[0] for key in given if key.startswith(f"{where}.")}
        new = {key: value for key, value in complete(choice.checked).items() if key in changed}
        return _as_before(host, kind, choice, where, {**settings[where], **new})

    return _changed(resolved, as_before)


def plugins_of(host: Host) -> dict[str, str]:
    """The active plugins of a host, each with its distribution and version."""
    active = [record for record in host.plugins if record.state == "active"]
    return {record.name: f"{record.distribution}=={record.version}" for record in active}


def changed_plugins(one: Mapping[str, str], other: Mapping[str, str], when: str, then: str) -> list[str]:
    """The plugins of `one` that were others, or missing, in `other`; `when` and `then` say which is which."""
    gone = "not there"
    return [
        f"plugin {name} was {source} {when} and is {other.get(name, gone)} {then}"
        for name, source in one.items()
        if other.get(name) != source
    ]


def as_given(spec: RunSpec) -> dict[str, Any]:
    """A resolved spec as JSON, with the settings as they were given and secrets masked."""
    return _record(spec, lambda choice: masked(choice.settings, choice.checked))


def with_defaults(spec: RunSpec) -> dict[str, Any]:
    """A resolved spec as JSON, with all settings that are in force: to be read, not to be resolved again."""
    return _record(spec, lambda choice: complete(choice.checked))


def in_force(spec: RunSpec) -> dict[str, dict[str, Any]]:
    """The settings in force of each component of a resolved spec; the keys are `policy`, `memory.notes` and so on."""
    return {where: complete(choice.checked) for where, choice in _choices(spec)}


def missing_secrets(about: Mapping[str, Any]) -> list[str]:
    """The keys of the secrets that a run.json doesn't have, such as `policy.api_key`."""
    spec = parse_spec(from_json(about["spec"]))
    return [f"{where}.{key}" for where, choice in _choices(spec) for key in masked_keys(choice.settings)]


def _check_changes(about: Mapping[str, Any], host: Host, given: set[str]) -> None:
    missing = missing_secrets(about)
    free = _operational(parse_spec(from_json(about["spec"])), host)
    if others := sorted(given - {*missing, *free}):
        raise UsageError(
            f"{', '.join(others)} can't be changed when a run is resumed",
            fix=f"start a new run; what can be changed: {', '.join(sorted({*missing, *free}))}",
        )
    if lacking := [key for key in missing if key not in given]:
        raise SettingsError(
            f"run.json doesn't have the secret {', '.join(lacking)}",
            fix=f"set it again: --set {lacking[0]}=VALUE, or --set {lacking[0]}.env=NAME for an environment variable",
        )


def _operational(spec: RunSpec, host: Host) -> set[str]:
    """The dotted keys of all settings that can't change the results of this run."""
    keys = operational_keys(RunSpec) - set(() if spec.optimizer else OF_TRAININGS)
    if spec.memories and spec.memories_learn:
        keys.remove("concurrency")  # a memory learns after each batch of so many episodes
    for where, choice in _choices(spec):
        model = host.settings_model(COMPONENTS.get(where, where.partition(".")[0]), choice.name)
        keys |= {f"{where}.{key}" for key in operational_keys(model)} if model is not None else set()
    return keys


def _dotted(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value.keys() != {"env"}:
            yield from _dotted(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def _as_before(host: Host, kind: str, choice: Choice, where: str, before: Mapping[str, Any]) -> Choice:
    """The choice with the settings that were in force when the run began, also where the plugin's defaults changed."""
    now = complete(choice.checked)
    if now == before:
        return choice
    changed = {key: value for key, value in before.items() if key not in now or now[key] != value}
    with suppress(AgentfwError):
        again = host.check_settings(kind, choice.name, {**choice.settings, **from_json(changed)}, where=where)
        if complete(again) == before:
            return choice.with_checked(again)
    names = sorted({*changed, *(now.keys() - before.keys())})
    host.notes.append(f"{where} has other settings than when the run began: {', '.join(names)}")
    return choice


def _record(spec: RunSpec, settings: Callable[[Choice], dict[str, Any]]) -> dict[str, Any]:
    written = _changed(spec, lambda kind, choice, where: choice.model_copy(update={"settings": settings(choice)}))
    record: dict[str, Any] = to_json(written.model_dump())
    return record


def _changed(spec: RunSpec, change: Change) -> RunSpec:
    """The spec with `change(kind, choice, where)` in the place of each choice."""
    changed: dict[str, Choice | tuple[Choice, ...]] = {}
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key)
        if isinstance(chosen, Choice):
            changed[key] = change(kind, chosen, key)
        elif chosen is not None:
            changed[key] = tuple(change(kind, choice, f"{kind}.{choice.label}") for choice in chosen)
    return spec.model_copy(update=changed)


def _choices(spec: RunSpec) -> Iterator[tuple[str, Choice]]:
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key)
        if isinstance(chosen, Choice):
            yield key, chosen
        elif chosen is not None:
            yield from ((f"{kind}.{choice.label}", choice) for choice in chosen)
