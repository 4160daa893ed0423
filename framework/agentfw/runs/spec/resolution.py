"""Resolves a spec: finds its components, and validates the settings of each once, before the first is made.

A run folder keeps the settings as they were given, because what a validator made of them might not go through it a
second time; beside them stand those that are in force, defaults included. Secrets are masked and never come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from ...boundary.metadata import normalise
from ...boundary.secrets import MASK, secrets_in
from ...boundary.settings_input import input_key, input_keys, marked_keys, operational_keys
from ...errors import AgentfwError, PluginError, SettingsError, UsageError, nearest
from ...hookspecs import DECIDING_HOOKS, LIFECYCLE_HOOKS
from ...host import Host
from ...host.trust import of_run, require_trusted
from ...settings import SHARED
from ...version import __version__
from ..records.package import changed_parts, origin_of, place_of
from .run_spec import COMPONENTS, OF_TRAININGS, SINGULAR, Choice, ModelChoice, RunSpec, ToolChoice, parse_spec
from .values import apply_assignments, from_json, listed, to_json


def complete(settings: BaseModel | None) -> dict[str, Any]:
    """All settings that are in force, defaults included, as JSON."""
    if settings is None:
        return {}
    fields = type(settings).model_fields
    values = settings.model_dump(round_trip=True, warnings=False)  # round_trip leaves out what is computed
    found = {input_key(name, fields[name]) if name in fields else name: inner for name, inner in values.items()}
    return masked(found, settings)


def masked(given: Mapping[str, Any], settings: BaseModel | None) -> dict[str, Any]:
    """The settings that were given as JSON, without the secrets among them."""
    secrets = set(secrets_in(settings))

    def hide(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: hide(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [hide(inner) for inner in value]
        return MASK if isinstance(value, str) and value in secrets else value

    return dict(hide(to_json(given)))


def masked_keys(record: Any, path: str = "") -> Iterator[str]:
    """The dotted keys of a record whose values are masked."""
    if isinstance(record, str) and MASK in record:
        yield path
    inside = record.items() if isinstance(record, Mapping) else enumerate(record) if isinstance(record, list) else ()
    for key, inner in inside:
        yield from masked_keys(inner, f"{path}.{key}".removeprefix("."))


_MANY = 40  # components with mistakes after which no more are looked at


def resolve(spec: RunSpec, host: Host) -> RunSpec:
    """The spec with the settings of each component validated."""
    # Raise one error for all plugins that the spec requires and that aren't there.
    missing: list[PluginError] = []
    for requested in spec.requires:
        try:
            host.select_distribution(requested)
        except PluginError as error:
            missing.append(error)
    if missing:
        text = "\n  ".join(["the spec requires plugins that aren't there:", *(error.message for error in missing)])
        raise PluginError(text, fix="; ".join(error.fix for error in missing))
    errors: list[AgentfwError] = []

    def checked(kind: str, choice: Choice, where: str) -> Choice:
        if len(errors) > _MANY:
            return choice
        try:
            return choice.with_checked(host.check_settings(kind, choice.name, choice.settings, where=where))
        except AgentfwError as error:
            errors.append(error)
            return choice

    resolved = _changed(_with_shared(spec, host), checked)
    if errors:
        raise _together(errors, spec, host)
    return resolved


def checked_spec(values: Mapping[str, Any], host: Host, where: str = "spec") -> RunSpec:
    """The spec of plain values, as `parse_spec`. An error also tells what is wrong with the components' settings."""
    try:
        return parse_spec(values, where)
    except SettingsError as error:
        errors: list[AgentfwError] = [error]
    chosen: dict[str, Any] = dict.fromkeys(COMPONENTS)
    for key, raw in values.items():
        if key in COMPONENTS:
            tables = [
                table
                for table in listed(raw)
                if isinstance(table.get("name"), str) and isinstance(table.get("settings", {}), Mapping)
            ]
            form: type[Choice] = ToolChoice if key == "tools" else ModelChoice if key == "models" else Choice
            choices = tuple(form.model_construct(**{"settings": {}, "alias": "", **table}) for table in tables)
            chosen[key] = choices if key in SINGULAR else choices[0] if choices else None
    spec = RunSpec.model_construct(**chosen)
    try:
        resolve(spec, host)
    except AgentfwError as error:
        errors.append(error)
    raise _together(errors, spec, host, values)


def _together(
    errors: Sequence[AgentfwError], spec: RunSpec, host: Host, given: Mapping[str, Any] = MappingProxyType({})
) -> AgentfwError:
    """One error for all. For a key that isn't known where it stands, it names the components that have it."""
    known: dict[str, str] = {}
    for kind, where, choice in _choices(spec):
        with suppress(AgentfwError):
            model = host.settings_model(kind, choice.name)
            known |= {f"{where}.{key}": key for key in (input_keys(model) if model is not None else ())}
    problems: dict[str, str] = {}
    fixes: list[str] = []
    for error in errors:
        own = dict(error.problems) if isinstance(error, SettingsError) else {}
        fix = error.fix
        for dotted, text in own.items():
            key = dotted.rpartition(".")[2]
            key = key if key in known.values() or "did you mean" in text else nearest(key, known.values()) or ""
            places = [place for place, leaf in known.items() if leaf == key]
            if text.startswith("no such key") and places:
                own[dotted] = f'no such key; did you mean "{" or ".join(places)}"?'
                fix = f"--set {places[0]}={given.get(key, 'VALUE')}"
        problems |= own or {error.message: ""}
        fixes.append(fix)
    if not any(isinstance(error, SettingsError) and error.problems for error in errors) and len(errors) == 1:
        return errors[0]
    if any(isinstance(error, UsageError) for error in errors):
        more = sum(error.more for error in errors if isinstance(error, SettingsError))
        return SettingsError.of(problems, "; ".join(dict.fromkeys(fixes[:3])), more)
    return PluginError("\n  ".join(problems), fix="; ".join(dict.fromkeys(fixes[:3])))


def _with_shared(spec: RunSpec, host: Host) -> RunSpec:
    """The spec with what policy and learner have in common given to both, where it was given to one of them."""
    choices = {kind: choice for kind in ("policy", "learner") if (choice := getattr(spec, kind)) is not None}
    if len(choices) < 2:
        return spec
    try:
        models = [host.settings_model(kind, choice.name) for kind, choice in choices.items()]
    except AgentfwError:  # whoever checks the settings is told
        return spec
    common = set.intersection(*(marked_keys(model, SHARED) for model in models))
    given = {key: value for choice in choices.values() for key, value in choice.settings.items() if key in common}
    both = {kind: one.model_copy(update={"settings": {**given, **one.settings}}) for kind, one in choices.items()}
    return spec.model_copy(update=both)


def resolve_again(about: Mapping[str, Any], host: Host, file: str, changes: Mapping[str, Any]) -> RunSpec:
    """The resolved spec of a run that is there already, from its run.json, with changes that can't change results."""
    require_trusted(Path(file).parent, of_run(about))
    given = set(_dotted(changes))
    if lacking := [key for key in missing_secrets(about) if key not in given]:
        raise SettingsError(
            f"run.json doesn't have the secret {', '.join(lacking)}",
            fix=f"set it again: --set {lacking[0]}=VALUE, or --set {lacking[0]}.env=NAME for an environment variable",
        )
    spec = parse_spec(apply_assignments(from_json(about["spec"]), changes), file)
    resolved = resolve(spec, host)
    _check_changes(about, resolved, given)
    last = [about, *about.get("segments", ())][-1]
    when = "when the run began" if last is about else f"from {about['segments'][-1]['from']} on"
    now, components = segment_of(resolved, host), last.get("components", {})
    for component, source in components.items():
        if (found := now["components"].get(component)) != source:
            host.notes.append(f"{component} came from {source} and now comes from {found}")
    others = {name: source for name, source in last.get("plugins", {}).items() if source not in components.values()}
    host.notes += changed_parts({**last, "plugins": others}, now, when, "now")
    settings = about.get("settings", {})

    def restored(kind: str, choice: Choice, where: str) -> Choice:
        if where not in settings or f"{where}.name" in given or where in given:
            return choice
        changed = {key.removeprefix(f"{where}.").partition(".")[0] for key in given if key.startswith(f"{where}.")}
        new = {key: value for key, value in complete(choice.checked).items() if key in changed}
        return as_before(host, kind, choice, where, {**settings[where], **new})

    return _changed(resolved, restored)


_RESULTS_OF = ("environment", "policy", "reward")  # with another version of one, results can't be put side by side


def segment_of(spec: RunSpec, host: Host) -> dict[str, Any]:
    """What takes part in a run now, as a segment of its run.json has it: components, and plugins with hooks."""
    chosen = {f"{kind} {one.name}": host.find(kind, one.name).record for kind, _, one in _choices(spec)}
    hooks = host.hooks()
    hooked = [record for hook in (*LIFECYCLE_HOOKS, *DECIDING_HOOKS) for record in hooks[hook]]
    records = sorted({*chosen.values(), *hooked}, key=lambda record: (record.distribution, record.name))
    names = {normalise(__name__.partition(".")[0]), *(record.distribution for record in records if not record.file)}
    files = {one.distribution: {"version": one.version, "source": one.file} for one in records if one.file}
    return {
        "agentfw": __version__,
        "components": {name: f"{record.distribution}=={record.version}" for name, record in chosen.items()},
        "plugins": {record.name: f"{record.distribution}=={record.version}" for record in records},
        "distributions": {name: origin_of(name, place_of(name)) for name in sorted(names)} | files,
    }


def refuse_changed(about: Mapping[str, Any], spec: RunSpec, host: Host) -> None:
    """Raise if the world, a reward or the policy comes from another version than in the run so far."""
    before, now = [about, *about.get("segments", ())][-1].get("components", {}), segment_of(spec, host)["components"]
    changed = [
        f"{name} came from {source} and now comes from {now[name]}"
        for name, source in before.items()
        if name.partition(" ")[0] in _RESULTS_OF and now.get(name, source) != source
    ]
    if changed:
        text = "; ".join(changed) + ", so later episodes couldn't be put beside the earlier ones"
        raise UsageError(text, fix="install that version again, start a new run, or resume with both: --with-changed")


def modules_needed(spec: RunSpec, host: Host) -> set[str]:
    """The modules without which a component of a run isn't made, whether or not one of them is imported later."""
    found = (host.find(kind, choice.name) for kind, _, choice in _choices(spec))
    return {module.partition(".")[0] for each in found for module in each.component.needs}


def as_given(spec: RunSpec) -> dict[str, Any]:
    """A resolved spec as JSON, with the settings as they were given and secrets masked."""
    return _record(spec, lambda choice: masked(choice.settings, choice.checked))


def with_defaults(spec: RunSpec) -> dict[str, Any]:
    """A resolved spec as JSON, with all settings that are in force: to be read, not to be resolved again."""
    return _record(spec, lambda choice: complete(choice.checked))


def in_force(spec: RunSpec) -> dict[str, dict[str, Any]]:
    """The settings in force of each component of a resolved spec; the keys are `policy`, `memory.notes` and so on."""
    return {where: complete(choice.checked) for _, where, choice in _choices(spec)}


def missing_secrets(about: Mapping[str, Any]) -> list[str]:
    """The keys of the secrets that a run.json doesn't have, such as `policy.api_key`."""
    spec = parse_spec(from_json(about["spec"]), "run.json")
    return [f"{where}.{key}" for _, where, choice in _choices(spec) for key in masked_keys(choice.settings)]


def _check_changes(about: Mapping[str, Any], resolved: RunSpec, given: set[str]) -> None:
    """Refuse what would change the results of a run, and a smaller value of what can only be raised."""
    free = operational_keys(resolved).keys() - set(() if resolved.optimizer else OF_TRAININGS)
    free |= set(missing_secrets(about))
    parts: list[tuple[str, BaseModel | None, Mapping[str, Any]]] = [("", resolved, from_json(about["spec"]))]
    for _, where, choice in _choices(resolved):
        parts.append((f"{where}.", choice.checked, about["settings"].get(where, {})))
        both = filter(None, (choice, choice.checked))
        free |= {f"{where}.{key}" for each in both for key in operational_keys(each)}
    if others := sorted(given - free):
        text = f"{', '.join(others)} can't be changed when a run is resumed, because results would change"
        raise UsageError(text, fix=f"start a new run; what can be changed: {', '.join(sorted(free))}")
    for prefix, settings, before in parts:
        marks, now = operational_keys(settings) if settings is not None else {}, complete(settings)
        for key in (key for key, mark in marks.items() if mark.grows and prefix + key in given):
            if now[key] < before.get(key, now[key]):
                text = f"{prefix}{key} is {before[key]} and can only be raised, not set to {now[key]}"
                raise UsageError(text, fix=f"leave it out, or set a value above {before[key]}")


def _dotted(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value.keys() != {"env"}:
            yield from _dotted(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def as_before(host: Host, kind: str, choice: Choice, where: str, before: Mapping[str, Any]) -> Choice:
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
    return dict(to_json(written.model_dump()))


def _changed(spec: RunSpec, change: Callable[[str, Choice, str], Choice]) -> RunSpec:
    changed: dict[str, Choice | tuple[Choice, ...]] = {}
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key)
        if isinstance(chosen, Choice):
            changed[key] = change(kind, chosen, key)
        elif chosen is not None:
            changed[key] = tuple(change(kind, choice, f"{SINGULAR[key]}.{choice.label}") for choice in chosen)
    return spec.model_copy(update=changed)


def _choices(spec: RunSpec) -> Iterator[tuple[str, str, Choice]]:
    """Each component: its kind, what the keys of its settings begin with, and the choice."""
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key)
        if isinstance(chosen, Choice):
            yield kind, key, chosen
        elif chosen is not None:
            yield from ((kind, f"{SINGULAR[key]}.{choice.label}", choice) for choice in chosen)
