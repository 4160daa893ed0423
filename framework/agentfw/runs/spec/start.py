"""The values of a spec from all their layers: what it starts from, defaults, variables, options and assignments.

Wherever a policy can be named, an earlier run can, too (`--policy last`). For a training that means the newest version
that was learned, for any other run the policy as it was. `last` is the newest training that has a version, because
every evaluation and every session of a gateway is a run, too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...boundary.gate import let_in
from ...boundary.metadata import entry_points
from ...boundary.secrets import MASK
from ...boundary.settings_input import marked_keys, nested, toml_value
from ...errors import RunFolderError, SettingsError, UnknownNameError, UsageError, nearest
from ...host import Host
from ...host.offers import whole_name
from ...host.project import FILE_NAME
from ...host.trust import of_run, require_trusted
from ...printing.out import shown_path
from ...settings import VERSION
from ..records.folder import RunFolder, find_run, list_runs
from ..records.play_records import State, read_state, require_whole
from .resolution import masked_keys
from .run_spec import COMPONENTS, OF_RUNS, OF_TRAININGS, SINGULAR, RunSpec
from .values import apply_assignments, from_json, label_of, listed, merged, read_spec, relative_to, written_values


def policy_of_run(host: Host, name: str, runs: Path) -> str | dict[str, Any]:
    """The name of a policy as it is, and that of a run as the policy that it had or made.

    Settings with secrets are left out: they are given again, or read from the environment.
    """
    try:
        host.find("policy", name)
        return name
    except UnknownNameError as unknown:
        try:
            folder = find_training(runs, name)
        except (RunFolderError, UnknownNameError) as error:
            if "last" in (name, getattr(error, "guess", "")) or len(Path(name).parts) > 1:
                raise error from None
            raise unknown from None
    require_trusted(folder.path, of_run(folder.about))
    policy = folder.about["spec"]["policy"]
    given = from_json(policy["settings"])
    secret = {key.partition(".")[0] for key in masked_keys(given)}
    settings = {key: value for key, value in given.items() if key not in secret}
    if folder.planned_updates:
        newest = str(newest_version(folder))
        keys = marked_keys(host.settings_model("policy", policy["name"]), VERSION)
        if not keys:
            text = f"the policy {policy['name']} of {folder.id} has no setting that takes a version of a training"
            raise UsageError(text, fix=f"see what it has: agentfw plugins show {policy['name']}")
        settings[min(keys)] = newest
    return {"name": policy["name"], "settings": settings}


def spec_of_run(about: Mapping[str, Any], null: object = None) -> dict[str, Any]:
    """The values of a run's spec, without its secrets, which aren't kept. `null` stands for what was unset."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(each) for key, each in value.items() if not is_masked(each)}
        if isinstance(value, list):
            return [kept(each) for each in value if not is_masked(each)]
        return null if value is None else value

    def is_masked(value: Any) -> bool:
        return isinstance(value, str) and MASK in value

    return dict(kept(from_json(about["spec"])))


def spec_text(about: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The spec of a run as a TOML file, and the keys of its secrets, which it lacks."""
    import tomli_w

    return tomli_w.dumps(spec_of_run(about, {"null": True})), list(masked_keys(from_json(about["spec"])))


def find_training(runs: Path, name: str) -> RunFolder:
    """The run of a name. `last` is the newest training that has a version."""
    if name != "last":
        return find_run(runs, name)
    for folder in list_runs(runs):
        if folder.planned_updates and State.known(folder.path).adapter:
            return folder
    raise RunFolderError(f"no training in {runs} has a version yet", fix="train one, or name a run: agentfw runs list")


def newest_version(folder: RunFolder) -> Path:
    """Where the newest version of a training is."""
    state = read_state(folder.path)
    if not state.adapter:
        text = f"{folder.id} has no version yet: {state.update} of {folder.planned_updates} updates are done"
        raise UsageError(text, fix="wait for one that teaches something, or use the base that it started from")
    require_whole(folder.path, state)
    adapter = (folder.path / state.adapter).resolve()
    if not adapter.exists():
        raise RunFolderError(f"{adapter}, the newest version of {folder.id}, is gone", fix="restore it from a copy")
    return adapter


_WITH_MORE = {"tools": "alias", "rewards": "weight"}  # lists of NAME=VALUE, and the key that the value is for
_FROM_RUNS = "train-from-feedback"  # learns from recorded runs. With `-OPTIMIZER`, that of one optimizer
_FROM = "--from"
_RECORDINGS = "agentfw.recordings"
_TRAINING = "train-"  # what the names of training specs begin with; the rest is an environment, `default`, or `any`
_SKILLS = "skills"  # the tool that opens folders of skills, which are its setting `folders`
_TASKS = ".jsonl"  # a file of tasks, played as the spec called `jsonl`, whose environment has a setting `tasks`


class SpecValues(dict[str, Any]):
    """The plain values of a spec, and what they were after each layer: where each of them comes from."""

    def __init__(self, values: Mapping[str, Any], steps: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        super().__init__(values)
        self.steps = [*steps]

    def then(self, source: str, values: Mapping[str, Any]) -> SpecValues:
        """These values in place of the earlier ones; the source says who has changed them."""
        return SpecValues(values, [*self.steps, (source, values)])

    def origins(self) -> dict[str, tuple[Any, str]]:
        """Each value by its dotted key, and the first source since which it has been the same."""
        steps = [(source, dict(_flat(values))) for source, values in self.steps]
        origins = {}
        for key, value in _flat(self):
            same = takewhile(lambda step: key in step[1] and step[1][key] in (value,), reversed(steps))  # noqa: B023
            origins[key] = value, [source for source, _ in same][-1]
        return origins


@contextmanager
def naming_layers(values: SpecValues) -> Iterator[None]:
    """Let errors about settings say which file of defaults or which variable a wrong value comes from."""
    try:
        yield
    except SettingsError as error:
        origins = {key: source for key, (_, source) in values.origins().items()}
        told = {key: source for key, source in origins.items() if _PREFIX in source or FILE_NAME in source}
        problems = {
            key: f"{text}, from {told[short]}" if (short := key.removeprefix("spec.")) in told else text
            for key, text in error.problems.items()
        }
        if problems == error.problems:
            raise
        raise SettingsError.of(problems, error.fix, error.more) from error.__cause__


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values by dotted keys, as `--set` takes them."""
    for key, value in values.items():
        if not prefix and key in COMPONENTS:
            choices = listed(value)
            yield key, value if not choices else ", ".join(str(choice.get("name")) for choice in choices)
            for choice in choices:
                where = f"{SINGULAR[key]}.{label_of(choice)}" if key in SINGULAR else key
                own = {name: inner for name, inner in choice.items() if name not in ("name", "settings")}
                yield from _flat({**own, **choice.get("settings", {})}, f"{where}.")
        elif isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


Start = Callable[[Host, str | None, Path | None], SpecValues]
"""Gives the values of the spec that a run starts from, of the name and the file that were given."""


def chosen_values(
    host: Host,
    start: Start,
    name: str | None,
    file: Path | None,
    *,
    runs: Path,
    options: Mapping[str, Any] = MappingProxyType({}),
    assignments: Mapping[str, Any] = MappingProxyType({}),
) -> SpecValues:
    """The values of the spec that a command asks for, with what all layers say.

    From the least to the most important: the files of defaults, the spec, environment variables, options and
    assignments. The defaults fill in what is missing when it is known which components are chosen.
    """
    options = dict(options)
    model, policy, skills = options.pop("model", None), options.get("policy"), options.pop("skills", ())
    if policy:
        options["policy"] = policy_of_run(host, policy, runs)
    if host.options.project is not None:
        host.options.project.require_trusted()
    if name is not None and name.endswith(_TASKS):
        values = _with_tasks(name, start(host, _TASKS[1:], file))
    else:
        values = start(host, name, file)

    def with_variable(values: SpecValues, variable: str, path: list[str]) -> SpecValues:
        given = nested([(path, toml_value(os.environ[variable]))])
        return values.then(variable, apply_assignments(values, given))

    variables = spec_variables(os.environ, host.notes)
    if name is not None or values.steps[-1][0] == _FROM:  # the environment was typed
        variables = {variable: path for variable, path in variables.items() if path != ["environment"]}
    keys = {variable: path for variable, path in variables.items() if len(path) == 1 or path[0] not in _OF_COMPONENTS}
    for variable, path in keys.items():
        values = with_variable(values, variable, path)
    chosen = with_skills(with_choices(values, options), skills)
    selected = with_model(chosen, host, model, keep=bool(file or policy))
    values = with_defaults(values.then("command line", selected), host)
    for variable, path in variables.items():
        if variable not in keys and (place := _selected(values, path)) is not None:
            values = with_variable(values, variable, place)
    return values.then("command line", apply_assignments(values, assignments))


_PREFIX = "AGENTFW_"
_OF_COMPONENTS = {*COMPONENTS.keys() - SINGULAR.keys(), *SINGULAR.values()}


def spec_variables(environment: Mapping[str, str], notes: list[str]) -> dict[str, list[str]]:
    """The environment variables that set keys of a spec, with these keys: AGENTFW_POLICY__MODEL is policy.model."""
    known = {*RunSpec.model_fields, *SINGULAR.values()}
    found = {}
    for name in sorted(name for name in environment if name.startswith(_PREFIX)):
        path = name.removeprefix(_PREFIX).lower().split("__")
        if path[0] in known:
            found[name] = path
        elif len(path) > 1:  # it was meant to be one: others that begin with AGENTFW_ are no concern of specs
            guess = nearest(path[0], known)
            meant = f"; did you mean {_PREFIX}{'__'.join([guess, *path[1:]]).upper()}?" if guess else ""
            notes.append(f"{name}: a spec has no key {path[0]}{meant}")
    return found


def _selected(values: Mapping[str, Any], path: list[str]) -> list[str] | None:
    """The path with the name of a component as the spec has it. None if a variable is about one that isn't selected."""
    several = next((several for several, one in SINGULAR.items() if one == path[0]), None)
    if several is None:
        return path if values.get(path[0]) is not None else None
    labels = [label_of(choice) for choice in listed(values.get(several, ()))]
    found = [label for label in labels if re.sub(r"\W", "_", label.lower()) == path[1]]
    return [path[0], found[0], *path[2:]] if found else None


def start_of_run(host: Host, name: str | None, spec: Path | None) -> SpecValues:
    """The file that was given, the spec that a plugin ships by this name, or the default."""
    if spec is None and name is not None and host.has_spec(name):
        return _shipped(host, name)
    _check_environment(host, name)
    if spec is not None:
        return _in(name, _file(spec))
    # What an agentfw.toml names, a file or a spec of that name.
    named = next((file.default for file in host.layers if file.default), "default")
    values = _file(Path(named)) if os.path.isabs(named) else _shipped(host, named)
    # That is made for its own environment.
    if name not in (None, _name_in(values.get("environment"))) and "any" in host.specs():
        values = _shipped(host, "any")
    return _in(name, values)


def start_of_training(host: Host, name: str | None, spec: Path | None) -> SpecValues:
    """The file that was given, or the spec that a plugin ships for trainings in this environment."""
    specs = host.specs()
    if spec is None and name is not None and _TRAINING + name in specs:
        values = _shipped(host, _TRAINING + name)
        if _name_in(values.get("environment")) not in (None, name):  # NAME is another training
            return values
    _check_environment(host, name)
    if spec is not None:
        return _in(name, _file(spec))
    known = [_TRAINING + each for each in ("default" if name is None else name, "any")]
    found = next((each for each in known if each in specs), None)
    return _in(name, SpecValues({}) if found is None else _shipped(host, found))


def _check_environment(host: Host, name: str | None) -> None:
    """A wrong name is an error before any file is read."""
    if name is not None:
        host.find("environment", name)


def _in(name: str | None, values: SpecValues) -> SpecValues:
    if name is None:
        return values
    return values.then("command line", {**values, "environment": _kept(values.get("environment"), name)})


def spec_file(given: Path, runs: Path) -> Path:
    """Where a spec is that somebody names: a file, or the folder of a run, which `last` and other names stand for."""
    return (given if given.suffix == ".toml" or given.is_file() else find_run(runs, str(given)).path).absolute()


def _file(path: Path) -> SpecValues:
    """The values of a spec file, or those that a run was played with, if this is its folder."""
    if not (path / "run.json").exists():
        return SpecValues({}).then(shown_path(path), read_spec(path))
    about = RunFolder.open(path).about
    require_trusted(path, of_run(about))
    return SpecValues({}).then(shown_path(path), spec_of_run(about))


def _shipped(host: Host, name: str) -> SpecValues:
    return SpecValues({}).then(f"spec {name}", read_spec(Path(host.find_spec(name).path)))


def with_defaults(values: SpecValues, host: Host) -> SpecValues:
    """The values, and what the files of defaults say beside them: keys of tables, and settings of components."""
    # Keys that only a training has are no defaults of other runs, and the other way round.
    unused = OF_TRAININGS if values.get("optimizer") is None else OF_RUNS

    def filled(key: str, default: Any) -> Any:
        if key not in values:
            return default
        value = values[key]
        if key not in COMPONENTS:
            both = isinstance(value, Mapping) and isinstance(default, Mapping)
            return merged(default, value) if both else value
        given = {(choice.get("name"), label_of(choice)): choice for choice in listed(default)}
        choices = []
        for choice in listed(value):
            own = given.get((choice.get("name"), label_of(choice)), {})
            settings = merged(own.get("settings", {}), choice.get("settings", {}))
            choices.append({**own, **choice, **({"settings": settings} if settings else {})})
        return choices if key in SINGULAR else choices[0] if choices else value

    for file in host.layers:
        for key in file.defaults:
            if key not in RunSpec.model_fields:
                guess = nearest(key, RunSpec.model_fields)
                hint = f'did you mean "{guess}"?' if guess else "it has the keys of a spec"
                raise SettingsError(f"{file.path}: defaults.{key}: no such key; {hint}", fix=f"fix {file.path}")
        given = relative_to(file.path.parent, written_values(file.defaults))
        beside = {key: filled(key, default) for key, default in given.items() if key not in unused}
        values = values.then(file.title, {**values, **beside})
    return values


def check_training(values: Mapping[str, Any]) -> None:
    for name, example in (
        ("environment", "agentfw train calendar, or a file of questions: agentfw train tasks.jsonl"),
        ("optimizer", "--optimizer grpo"),
    ):
        if values.get(name) is None:
            fix = f"name one, such as {example}; see: agentfw plugins list --kind {name}"
            raise UsageError(f"a training needs an {name}", fix=fix)


def with_model(values: Mapping[str, Any], host: Host, model: str | None, *, keep: bool) -> dict[str, Any]:
    """Let the policy load this model: that of trainings, unless the user has chosen the one of the spec (`keep`)."""
    if model is None:
        return dict(values)
    chosen = values.get("policy", {})
    if not keep:
        chosen = _kept(chosen, str(_name_in(_shipped(host, f"{_TRAINING}any")["policy"])))
    choice = _kept(chosen, str(_name_in(chosen)))
    return {**values, "policy": with_settings(choice, model=model)}


def with_skills(values: Mapping[str, Any], folders: Sequence[str]) -> dict[str, Any]:
    """The values of a spec with the tool `skills`, which has these folders, besides its other tools."""
    if not folders:
        return dict(values)
    tools: list[dict[str, Any]] = [dict(choice) for choice in listed(values.get("tools", ()))]
    known = (tool for tool in tools if (tool.get("name"), tool.get("alias")) == (_SKILLS, None))
    own: dict[str, Any] = next(known, {"name": _SKILLS})
    others = [tool for tool in tools if tool is not own]
    given = [os.path.abspath(folder) if os.path.isdir(folder) else folder for folder in folders]
    whole = dict.fromkeys([*own.get("settings", {}).get("folders", ()), *given])
    return {**values, "tools": [*others, with_settings(own, folders=[*whole])]}


def with_settings(choice: dict[str, Any], **settings: object) -> dict[str, Any]:
    return {**choice, "settings": {**choice.get("settings", {}), **settings}}


def _with_tasks(file: str, values: SpecValues) -> SpecValues:
    if "{split}" not in file and not Path(file).is_file():  # before a model is downloaded
        guess = nearest(Path(file).name, [each.name for each in Path(file).parent.glob(f"*{_TASKS}") if each.is_file()])
        raise UsageError(
            f"there is no file {file}" + (f'; did you mean "{guess}"?' if guess else ""),
            fix='write one JSON object a line into it, such as {"prompt": "What is 2 + 3?", "answer": "5"}',
        )
    choice = _kept(values["environment"], str(_name_in(values["environment"])))
    return values.then("command line", {**values, "environment": with_settings(choice, tasks=os.path.abspath(file))})


def start_from_runs(names: Sequence[str], runs: Path, optimizer: str | None = None, metric: str = "") -> Start:
    """Trainings that learn from what was recorded in these runs, or in one metric of the feedback in them.

    Both are settings of the environment, and of each reward that has `runs` in the spec. So is `until`, the time from
    which on nothing counts: a training that is resumed would find other tasks. A name may also be an address
    such as postgresql://..., if an entry point of the group `agentfw.recordings` is called as it begins: a function
    that makes runs of what is there, `copied(address, host, directory_of_runs)`, and returns their folders.
    """

    def start(host: Host, name: str | None, spec: Path | None) -> SpecValues:
        folders: list[str] = []
        for each in names:
            scheme, mark, _ = each.partition("://")
            known = entry_points(_RECORDINGS) if mark else ()
            entry = next((one for one in known if one.name == scheme), None)
            if entry is None:
                folders.append(str(find_run(runs, each).path.resolve()))
                continue
            who = f'the recordings "{scheme}" of {entry.distribution} {entry.version}'
            copied: Any = let_in(who, entry.load, fix=f"pip install --upgrade {entry.distribution}")
            folders += [str(path.resolve()) for path in copied(each, host, runs)]
        if name is None and spec is None:
            own = f"{_FROM_RUNS}-{optimizer}"
            values = _shipped(host, own if own in host.specs() else _FROM_RUNS)
        else:
            values = start_of_training(host, name, spec)
        environment = next(iter(listed(values.get("environment"))), {})
        about = {"runs": folders, "until": time.time(), **({"metric": metric} if metric else {})}
        scored = [
            with_settings(choice, **about) if "runs" in choice.get("settings", {}) else choice
            for choice in listed(values.get("rewards", ()))
        ]
        played = with_settings(environment, **about)
        return values.then(_FROM, {**values, "environment": played, "rewards": scored})

    return start


def with_choices(values: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Put what was chosen into the values of a spec, in which a component that is named again keeps its settings."""
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    for key, chosen in given.items():
        if key in COMPONENTS and isinstance(chosen, str):
            given[key] = _kept(values.get(key), chosen)
        if key not in SINGULAR:
            continue
        before = {(choice.get("name"), choice.get("alias", "")): choice for choice in listed(values.get(key, ()))}
        choices = []
        for text in chosen:
            name, equals, more = text.partition("=") if key in _WITH_MORE else (text, "", "")
            own: dict[str, str | float] = {_WITH_MORE[key]: more} if equals else {}
            if key == "rewards" and equals:
                with suppress(ValueError):
                    own["weight"] = float(more)
            known = before.get((whole_name(name), own.get("alias", "")))
            choices.append({**_kept(known, name), **own})
        given[key] = choices
    return {**values, **given}


def _kept(before: Any, name: str) -> dict[str, Any]:
    """The component of that name, with its settings where `before` is the same component."""
    name = whole_name(name)
    return dict(before) if isinstance(before, dict) and before.get("name") == name else {"name": name}


def _name_in(choice: Any) -> Any:
    return choice.get("name") if isinstance(choice, dict) else choice
