"""The spec that a run or a training starts from, before options and assignments change it.

    values = start_of_run(host, "inbox", None)
    values = with_choices(values, {"policy": "scripted", "memories": ("strategyhub",)})

Wherever a policy can be named, an earlier run can, too (`--policy last`). For a training that means the newest version
that was learned, for any other run the policy as it was. `last` is the newest training that has a version, because
every evaluation and every session of a gateway is a run, too.

    chosen = policy_of_run(host, "last", Path("runs"))   # {"name": "transformers", "settings": {"adapter": ...}}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...boundary.gate import ImportFailed, let_in
from ...boundary.metadata import entry_points
from ...errors import RunFolderError, SettingsError, UnknownNameError, UsageError, nearest
from ...host import Host
from ...host.project import ProjectFile
from ...settings import VERSION, marked_keys
from ..records.folder import RunFolder, find_run, list_runs
from ..records.play_records import State
from .resolution import from_json, masked_keys
from .run_spec import RunSpec, apply_assignments, read_spec, relative_to

__all__ = [
    "check_training",
    "find_training",
    "newest_version",
    "policy_of_run",
    "spec_of_run",
    "spec_text",
    "start_from_runs",
    "start_of_run",
    "start_of_training",
    "values_of",
    "with_choices",
    "with_model",
    "with_project_defaults",
    "with_settings",
]


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
            if name == "last" or len(Path(name).parts) > 1:
                raise error from None
            raise unknown from None
    policy = folder.about["spec"]["policy"]
    given = from_json(policy["settings"])
    secret = {key.partition(".")[0] for key in masked_keys(given)}
    settings = {key: value for key, value in given.items() if key not in secret}
    if folder.planned_updates:
        settings[_key(host, policy["name"], folder)] = str(newest_version(folder))
    return {"name": policy["name"], "settings": settings}


def spec_of_run(about: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values of a run's spec, and the keys of the secrets that it had and that aren't kept."""
    values = from_json(about["spec"])
    missing = list(masked_keys(values))

    def without_secrets(value: Any, path: str = "") -> Any:
        if isinstance(value, dict):
            kept = {key: without_secrets(inner, f"{path}.{key}".removeprefix(".")) for key, inner in value.items()}
            return {key: inner for key, inner in kept.items() if inner is not None}
        if isinstance(value, list):
            return [without_secrets(inner, f"{path}.{number}") for number, inner in enumerate(value)]
        return None if path in missing else value

    return without_secrets(values), missing


def spec_text(about: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The spec of a run as a TOML file, and the keys of its secrets, which it lacks."""
    import tomli_w

    values, missing = spec_of_run(about)
    return tomli_w.dumps(values), missing


def find_training(runs: Path, name: str) -> RunFolder:
    """The run of a name. `last` is the newest training that has a version."""
    if name != "last":
        return find_run(runs, name)
    for folder in list_runs(runs):
        if folder.planned_updates and State.read(folder.path).adapter:
            return folder
    raise RunFolderError(f"no training in {runs} has a version yet", fix="train one, or name a run: agentfw runs list")


def newest_version(folder: RunFolder) -> Path:
    """Where the newest version of a training is."""
    state = State.read(folder.path)
    if not state.adapter:
        raise UsageError(
            f"{folder.id} has no version yet: {state.update} of {folder.planned_updates} updates are done",
            fix="wait for one that teaches something, or use the base that it started from",
        )
    adapter = (folder.path / state.adapter).resolve()
    if not adapter.exists():
        raise RunFolderError(f"{adapter}, the newest version of {folder.id}, is gone", fix="restore it from a copy")
    return adapter


def _key(host: Host, policy: str, folder: RunFolder) -> str:
    """The setting of a policy that takes a version."""
    keys = marked_keys(host.settings_model("policy", policy), VERSION)
    if not keys:
        raise UsageError(
            f"the policy {policy} of {folder.id} has no setting that takes a version of a training",
            fix=f"see what it has: agentfw plugins show {policy}",
        )
    return min(keys)


_SINGLE = ("policy", "optimizer", "learner", "teacher")
_LISTS = ("memories", "tools", "rewards", "trackers")
_WITH_MORE = {"tools": "alias", "rewards": "weight"}
"""Lists whose choices have the form NAME=VALUE, and the key that the value is for."""

_FROM_RUNS = "train-from-feedback"
"""The spec of trainings that learn from recorded runs. With `-OPTIMIZER`, that of one optimizer, where there is one."""
_RECORDINGS = "agentfw.recordings"
_TRAINING = "train-"
"""What the names of training specs begin with; the rest is an environment, `default`, or `any`."""
_TASKS = ".jsonl"
"""How a file of tasks ends. It is played as the spec called `jsonl` says, whose environment has a setting `tasks`."""


def start_of_run(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
    """The file that was given, the spec that a plugin ships by this name, or the default.

    The default is made for its own environment; any other environment starts from the spec called "any".
    """
    specs = host.specs()
    if name is not None and name.endswith(_TASKS):
        return _with_tasks(name, start_of_run(host, _TASKS[1:], spec))
    if spec is None and name is not None and host.has_spec(name):
        return with_project_defaults(read_spec(Path(host.find_spec(name).path)), host.options.project)
    if name is not None:
        host.find("environment", name)  # a wrong name is an error before any file is read
    project = host.options.project
    if spec is not None:
        values = _given(spec)
    else:
        given = project.default if project is not None else None
        values = read_spec(given or Path(host.find_spec("default").path))
        if name is not None and _name_in(values.get("environment")) != name and "any" in specs:
            values = read_spec(Path(host.find_spec("any").path))
    return _in(name, with_project_defaults(values, host.options.project))


def _given(spec: Path) -> dict[str, Any]:
    """The values of a spec file, or those that a run was played with, if this is its folder."""
    return spec_of_run(RunFolder.open(spec).about)[0] if (spec / "run.json").exists() else read_spec(spec)


def start_of_training(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
    """The file that was given, or the spec that a plugin ships for trainings in this environment.

    The spec train-NAME may also be another training in the environment that it says.
    """
    specs = host.specs()
    if name is not None and name.endswith(_TASKS):
        return _with_tasks(name, start_of_training(host, _TASKS[1:], spec))
    if spec is None and name is not None and _TRAINING + name in specs:
        values = read_spec(Path(host.find_spec(_TRAINING + name).path))
        if _name_in(values.get("environment")) not in (None, name):
            return with_project_defaults(values, host.options.project)
    if name is not None:
        host.find("environment", name)  # a wrong name is an error before any file is read
    if spec is not None:
        values = _given(spec)
    else:
        known = [_TRAINING + each for each in ("default" if name is None else name, "any")]
        found = next((each for each in known if each in specs), None)
        values = {} if found is None else read_spec(Path(host.find_spec(found).path))
    return _in(name, with_project_defaults(values, host.options.project))


def _with_tasks(file: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a spec, with the file of tasks that its environment reads."""
    choice = _kept(values["environment"], str(_name_in(values["environment"])))
    return {**values, "environment": with_settings(choice, tasks=os.path.abspath(file))}


def check_training(values: Mapping[str, Any]) -> None:
    """Raise if the values are no training."""
    for name, example in (("environment", "agentfw train calendar"), ("optimizer", "--optimizer grpo")):
        if values.get(name) is None:
            raise UsageError(
                f"a training needs an {name}",
                fix=f"name one, such as {example}; see: agentfw plugins list --kind {name}",
            )


def with_model(values: dict[str, Any], host: Host, model: str | None, *, keep: bool) -> dict[str, Any]:
    """Let the policy load this model: that of trainings, unless the user has chosen the one of the spec (`keep`)."""
    if model is None:
        return values
    chosen = values.get("policy", {})
    if not keep:
        chosen = _kept(chosen, str(_name_in(read_spec(Path(host.find_spec(f"{_TRAINING}any").path))["policy"])))
    choice = _kept(chosen, str(_name_in(chosen)))
    return {**values, "policy": with_settings(choice, model=model)}


def with_settings(choice: dict[str, Any], **settings: object) -> dict[str, Any]:
    """A component of a spec with these settings, too."""
    return {**choice, "settings": {**choice.get("settings", {}), **settings}}


def with_project_defaults(values: dict[str, Any], project: ProjectFile | None) -> dict[str, Any]:
    """The values of a spec, and those of agentfw.toml where the spec doesn't say otherwise."""
    if project is None:
        return values
    for key in project.defaults:
        if key not in RunSpec.model_fields:
            guess = nearest(key, RunSpec.model_fields)
            hint = f'did you mean "{guess}"?' if guess else "it has the keys of a spec"
            raise SettingsError(f"{project.path}: defaults.{key}: no such key; {hint}", fix=f"fix {project.path}")
    return {**relative_to(project.path.parent, dict(project.defaults)), **values}


def start_from_runs(names: Sequence[str], runs: Path, optimizer: str | None = None) -> Start:
    """Trainings that learn from what was recorded in these runs.

    They are the setting `runs` of the environment, and of each reward that has one in the spec. A name may also be an
    address such as postgresql://..., if an entry point of the group `agentfw.recordings` is called as it begins. This
    is a function that makes runs of what is there: `copied(address, host, directory_of_runs)` returns their folders.
    """

    def start(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
        folders = [str(path.resolve()) for each in names for path in _recorded(each, host, runs)]
        if name is None and spec is None:
            own = f"{_FROM_RUNS}-{optimizer}"
            values = read_spec(Path(host.find_spec(own if own in host.specs() else _FROM_RUNS).path))
        else:
            values = start_of_training(host, name, spec)
        environment = _kept(values.get("environment"), _name_in(values.get("environment")))
        rewards = values.get("rewards", [])
        listed = rewards if isinstance(rewards, list) else [rewards]
        scored = [with_settings(choice, runs=folders) if _reads(choice) else choice for choice in listed]
        return {**values, "environment": with_settings(environment, runs=folders), "rewards": scored}

    return start


def _recorded(name: str, host: Host, runs: Path) -> list[Path]:
    """The folders of runs that a name means."""
    scheme, mark, _ = name.partition("://")
    for entry in entry_points(_RECORDINGS) if mark else ():
        if entry.name == scheme:
            who = f'the recordings "{scheme}" of {entry.distribution} {entry.version}'
            try:
                copied: Any = let_in(who, entry.load)
            except ImportFailed as failure:
                raise failure.named(who, f"pip install --upgrade {entry.distribution}") from None
            return list(copied(name, host, runs))
    return [find_run(runs, name).path]


def _reads(choice: Any) -> bool:
    return isinstance(choice, dict) and "runs" in choice.get("settings", {})


def _in(name: str | None, values: dict[str, Any]) -> dict[str, Any]:
    return values if name is None else {**values, "environment": _kept(values.get("environment"), name)}


Start = Callable[[Host, str | None, Path | None], dict[str, Any]]


def values_of(
    start: Start,
    host: Host,
    name: str | None,
    spec: Path | None,
    chosen: dict[str, Any],
    assignments: Mapping[str, Any],
    runs: Path,
) -> dict[str, Any]:
    """The values of a spec: what it starts from, then what was chosen, then assignments. The later ones win."""
    model, policy = chosen.pop("model", None), chosen.get("policy")
    if policy:
        chosen["policy"] = policy_of_run(host, policy, runs)
    values = with_choices(start(host, name, spec), chosen)
    return apply_assignments(with_model(values, host, model, keep=bool(spec or policy)), assignments)


def with_choices(values: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Put what was chosen into the values of a spec. A list takes the place of the spec's list.

    A component that is named again keeps the settings that it has in the spec.
    """
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    for key in _SINGLE:
        if isinstance(given.get(key), str):
            given[key] = _kept(values.get(key), given[key])
    for key in _LISTS:
        if key not in given:
            continue
        listed = values.get(key, ())
        listed = listed if isinstance(listed, list) else [listed]
        before = {(str(_name_in(choice)), str(_alias_in(choice))): choice for choice in listed}
        choices = []
        for text in given[key]:
            name, equals, more = text.partition("=") if key in _WITH_MORE else (text, "", "")
            own = {_WITH_MORE[key]: _weight(more) if key == "rewards" else more} if equals else {}
            alias = str(own.get("alias", ""))
            choices.append({**_kept(before.get((name, alias)), name), **own})
        given[key] = choices
    return {**values, **given}


def _kept(before: Any, name: str) -> dict[str, Any]:
    """The component of that name, with its settings where `before` is the same component."""
    return dict(before) if isinstance(before, dict) and before.get("name") == name else {"name": name}


def _weight(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _alias_in(choice: Any) -> Any:
    return choice.get("alias", "") if isinstance(choice, dict) else ""


def _name_in(choice: Any) -> Any:
    return choice.get("name") if isinstance(choice, dict) else choice
