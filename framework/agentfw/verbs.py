"""`agentfw.run`, `agentfw.train` and `agentfw.load`: what the command line does, for programs and notebooks.

    result = agentfw.run("inbox", policy="scripted", episodes=20)
    result.figures["utility"].estimate
    agentfw.load("last").episodes[0].turns

They start from the same specs as the commands, leave the same run folders, and return an `agentfw.runs.RunResult`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from .host import Host
    from .runs.from_python import RunResult

__all__ = ["load", "run", "train"]

Names = str | Sequence[str]


def run(
    environment: str | None = None,
    *,
    policy: str | None = None,
    memory: Names = (),
    tool: Names = (),
    reward: Names = (),
    tracker: Names = (),
    interface: str | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
    host: Host | None = None,
) -> RunResult:
    """Run an agent in an environment, as `agentfw run` does, and return how well it did.

    `policy` is the name of a policy, or a run, whose policy (of a training, the newest version) is meant.
    `settings` are those of `--set`: `{"environment.rate": 0.5}`. `runs` is the directory of runs. Default: that of
    agentfw.toml, or `runs`. `host` has the plugins, such as those of `agentfw.testing.fresh_host`, which need not be
    installed. Default: all that are installed.
    """
    from .host import runs_directory
    from .runs.from_python import execute, values_of
    from .runs.spec.start import start_of_run

    lists = _lists(memory, tool, reward, tracker)
    chosen = {"policy": policy, "interface": interface, "episodes": episodes, "seed": seed, **lists}
    root = runs_directory(runs)
    values, host = values_of(start_of_run, environment, spec, settings or {}, chosen, root, host)
    if values.get("optimizer") is not None:
        raise UsageError("this spec has an optimizer, so it is a training", fix="agentfw.train(...)")
    return execute(values, host, root)


def train(
    environment: str | None = None,
    *,
    policy: str | None = None,
    optimizer: str | None = None,
    learner: str | None = None,
    teacher: str | None = None,
    memory: Names = (),
    tool: Names = (),
    reward: Names = (),
    tracker: Names = (),
    interface: str | None = None,
    updates: int | None = None,
    seed: int | None = None,
    learn_from: Names = (),
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
    host: Host | None = None,
) -> RunResult:
    """Improve a policy, as `agentfw train` does, and return how it did before and after.

    `learn_from` names recorded runs, as `--from` does. The other arguments are those of `run`.
    """
    from .host import runs_directory
    from .runs.from_python import execute, values_of
    from .runs.spec.start import start_from_runs, start_of_training

    sources, root = _listed(learn_from), runs_directory(runs)
    start = start_from_runs(sources, root, optimizer) if sources else start_of_training
    chosen = {"policy": policy, "optimizer": optimizer, "learner": learner, "teacher": teacher}
    figures = {"interface": interface, "updates": updates, "seed": seed, **_lists(memory, tool, reward, tracker)}
    values, host = values_of(start, environment, spec, settings or {}, {**chosen, **figures}, root, host)
    for name in ("environment", "optimizer"):
        if values.get(name) is None:
            raise UsageError(f"a training needs an {name}", fix=f"name one; see: agentfw plugins list --kind {name}")
    return execute(values, host, root)


def load(name: str = "last", *, runs: Path | str | None = None) -> RunResult:
    """A finished run: `last`, its name or the end of it, or its path."""
    from .host import runs_directory
    from .runs.from_python import RunResult
    from .runs.records.folder import find_run

    return RunResult(find_run(runs_directory(runs), name))


def _lists(memory: Names, tool: Names, reward: Names, tracker: Names) -> dict[str, tuple[str, ...]]:
    given = {"memories": memory, "tools": tool, "rewards": reward, "trackers": tracker}
    return {name: _listed(names) for name, names in given.items()}


def _listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
