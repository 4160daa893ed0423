"""The spec that `run` and `train` start from, before options and `--set` change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw_cli.spec_options import kept, name_in

if TYPE_CHECKING:
    from agentfw.host import Host

__all__ = ["start_from_runs", "start_of_run", "start_of_training"]

_FROM_RUNS = "train-from-feedback"
"""The spec of trainings that learn from recorded runs. With `-OPTIMIZER`, that of one optimizer, where there is one."""
_TRAINING = "train-"
"""What the names of training specs begin with; the rest is an environment, `default`, or `any`."""


def start_of_run(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
    """The file that was given, the spec that a plugin ships by this name, or the default.

    The default is made for its own environment; any other environment starts from the spec called "any".
    """
    from agentfw.host.project import find_project
    from agentfw.runs.spec.run_spec import read_spec

    specs = host.specs()
    if spec is None and name in specs:
        return read_spec(Path(host.find_spec(name).path))
    if name is not None:
        host.find("environment", name)  # a wrong name is an error before any file is read
    project = find_project()
    if spec is not None:
        values = read_spec(spec)
    else:
        given = project.default if project is not None else None
        values = read_spec(given or Path(host.find_spec("default").path))
        if name is not None and name_in(values.get("environment")) != name and "any" in specs:
            values = read_spec(Path(host.find_spec("any").path))
    return _in(name, values)


def start_of_training(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
    """The file that was given, or the spec that a plugin ships for trainings in this environment.

    The spec train-NAME may also be another training in the environment that it says.
    """
    from agentfw.runs.spec.run_spec import read_spec

    specs = host.specs()
    if spec is None and name is not None and _TRAINING + name in specs:
        values = read_spec(Path(host.find_spec(_TRAINING + name).path))
        if name_in(values.get("environment")) not in (None, name):
            return values
    if name is not None:
        host.find("environment", name)  # a wrong name is an error before any file is read
    if spec is not None:
        values = read_spec(spec)
    else:
        known = [_TRAINING + each for each in ("default" if name is None else name, "any")]
        found = next((each for each in known if each in specs), None)
        values = {} if found is None else read_spec(Path(host.find_spec(found).path))
    return _in(name, values)


def start_from_runs(
    names: Sequence[str], runs: Path, optimizer: str | None = None
) -> Callable[[Host, str | None, Path | None], dict[str, Any]]:
    """Trainings that learn from what was recorded in these runs.

    They are the setting `runs` of the environment, and of each reward that has one in the spec.
    """

    def start(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
        from agentfw.runs.records.folder import find_run
        from agentfw.runs.spec.run_spec import read_spec

        folders = [str(find_run(runs, each).path.resolve()) for each in names]
        if name is None and spec is None:
            own = f"{_FROM_RUNS}-{optimizer}"
            values = read_spec(Path(host.find_spec(own if own in host.specs() else _FROM_RUNS).path))
        else:
            values = start_of_training(host, name, spec)
        environment = kept(values.get("environment"), name_in(values.get("environment")))
        rewards = values.get("rewards", [])
        listed = rewards if isinstance(rewards, list) else [rewards]
        scored = [_reading(choice, folders) if _reads(choice) else choice for choice in listed]
        return {**values, "environment": _reading(environment, folders), "rewards": scored}

    return start


def _reads(choice: Any) -> bool:
    return isinstance(choice, dict) and "runs" in choice.get("settings", {})


def _reading(choice: dict[str, Any], folders: list[str]) -> dict[str, Any]:
    return {**choice, "settings": {**choice.get("settings", {}), "runs": folders}}


def _in(name: str | None, values: dict[str, Any]) -> dict[str, Any]:
    return values if name is None else {**values, "environment": kept(values.get("environment"), name)}
