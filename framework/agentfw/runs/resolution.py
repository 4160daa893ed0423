"""Resolves a spec: finds its components, and validates the settings of each once.

All of it happens before the first component is made, so a spelling mistake in the last of them costs no work and leaves
nothing behind. A run folder keeps the settings as they were given, because what a validator made of them might not go
through it a second time; beside them stand those that are in force, defaults included.

    resolved, sources = resolve(spec, host)
    about = {"spec": as_given(resolved), "settings": in_force(resolved)}
    resolved = resolve_again(about, host, "run.json", secrets={})      # in another process, perhaps years later
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ..errors import AgentfwError, SettingsError, UsageError
from ..host import Host
from ..settings_record import complete, from_json, masked, masked_keys, to_json
from .spec import COMPONENTS, Choice, RunSpec, apply_assignments, parse_spec

__all__ = ["as_given", "in_force", "missing_secrets", "resolve", "resolve_again", "with_defaults"]


Change = Callable[[str, Choice, str], Choice]


def resolve(spec: RunSpec, host: Host) -> tuple[RunSpec, dict[str, str]]:
    """The spec with the settings of each component validated, and the distribution that each comes from."""
    sources: dict[str, str] = {}

    def checked(kind: str, choice: Choice, where: str) -> Choice:
        record = host.find(kind, choice.name).record
        sources[f"{kind} {choice.name}"] = f"{record.distribution}=={record.version}"
        return choice.with_checked(host.check_settings(kind, choice.name, choice.settings, where=where))

    return _changed(spec, checked), sources


def resolve_again(about: Mapping[str, Any], host: Host, file: str, secrets: Mapping[str, Any]) -> RunSpec:
    """The resolved spec of a run that is there already, from its run.json. What has changed since is noted.

    `secrets` are those that run.json doesn't have, as nested tables: {"policy": {"api_key": "..."}}.
    """
    _check_secrets(about, secrets)
    spec = parse_spec(apply_assignments(from_json(about["spec"]), secrets), file)
    resolved, sources = resolve(spec, host)
    for component, source in about.get("components", {}).items():
        if sources.get(component) != source:
            host.notes.append(f"{component} came from {source} and now comes from {sources.get(component)}")
    before = about.get("settings", {})
    return _changed(resolved, lambda kind, choice, where: _as_before(host, kind, choice, where, before.get(where)))


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


def _check_secrets(about: Mapping[str, Any], secrets: Mapping[str, Any]) -> None:
    missing, given = missing_secrets(about), set(_dotted(secrets))
    if others := sorted(given - set(missing)):
        raise UsageError(
            f"{', '.join(others)} can't be changed when a run is resumed",
            fix="start a new run; only secrets, which run.json doesn't have, are set again",
        )
    if lacking := [key for key in missing if key not in given]:
        raise SettingsError(
            f"run.json doesn't have the secret {', '.join(lacking)}",
            fix=f"set it again: --set {lacking[0]}=VALUE, or --set {lacking[0]}.env=NAME for an environment variable",
        )


def _dotted(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value.keys() != {"env"}:
            yield from _dotted(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def _as_before(host: Host, kind: str, choice: Choice, where: str, before: Mapping[str, Any] | None) -> Choice:
    """The choice with the settings that were in force when the run began, also where the plugin's defaults changed."""
    now = complete(choice.checked)
    if before is None or now == before:
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
            changed[key] = tuple(change(kind, choice, f"{kind}.{choice.name}") for choice in chosen)
    return spec.model_copy(update=changed)


def _choices(spec: RunSpec) -> Iterator[tuple[str, Choice]]:
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key)
        if isinstance(chosen, Choice):
            yield key, chosen
        elif chosen is not None:
            yield from ((f"{kind}.{choice.name}", choice) for choice in chosen)
