"""`agentfw.run`, `agentfw.train` and `agentfw.load`: what the command line does, for programs and notebooks.

    result = agentfw.run("inbox", policy="scripted", episodes=20)
    agentfw.train(tasks="sums.jsonl", model="Qwen/Qwen3-0.6B", reward=correct)
    result.figures["utility"].estimate
    agentfw.load("last").episodes[0].turns

They start from the same specs as the commands, leave the same run folders, and return an `agentfw.runs.RunResult`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from .host import Host
    from .runs.from_python import RunResult

One = str | object
"""The name of a component; or the component itself, its class, or a function that it is made of."""
Several = One | Sequence[One]
Tasks = Path | str | Iterable[Mapping[str, Any]]


def run(
    environment: str | None = None,
    *,
    tasks: Tasks | None = None,
    model: str | None = None,
    policy: One | None = None,
    memory: Several = (),
    tool: Several = (),
    reward: Several = (),
    tracker: Several = (),
    interface: str | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
    host: Host | None = None,
) -> RunResult:
    """Run an agent in an environment, as `agentfw run` does, and return how well it did.

    `tasks` are questions in place of an environment: a file with one JSON object per line, a list of dicts, or a
    `datasets.Dataset`. `model` is a model id of Hugging Face, a folder or a GGUF file. `policy` is the name of a
    policy, or a run, whose policy (of a training, the newest version) is meant. Wherever a component has a name, the
    component itself, its class, or a function can be given, such as `reward=correct`. `settings` are those of `--set`:
    `{"environment.rate": 0.5}`. `runs` is the directory of runs. Default: that of agentfw.toml, or `runs`. `host` has
    the plugins, such as those of `agentfw.testing.fresh_host`, which need not be installed. Default: all installed.
    """
    from .host import runs_directory
    from .host.plugin_loading import end_reading
    from .runs.from_python import execute, spec_values
    from .runs.spec.start import start_of_run

    end_reading()

    lists = _lists(memory, tool, reward, tracker)
    chosen = {"model": model, "policy": policy, "interface": interface, "episodes": episodes, "seed": seed, **lists}
    root = runs_directory(runs)
    environment = _environment(environment, tasks, root)
    values, host = spec_values(start_of_run, environment, spec, settings or {}, chosen, root, host)
    if values.get("optimizer") is not None:
        raise UsageError("this spec has an optimizer, so it is a training", fix="agentfw.train(...)")
    return execute(values, host, root)


def train(
    environment: str | None = None,
    *,
    tasks: Tasks | None = None,
    model: str | None = None,
    policy: One | None = None,
    optimizer: One | None = None,
    learner: One | None = None,
    teacher: One | None = None,
    memory: Several = (),
    tool: Several = (),
    reward: Several = (),
    tracker: Several = (),
    interface: str | None = None,
    updates: int | None = None,
    seed: int | None = None,
    learn_from: str | Sequence[str] = (),
    metric: str = "",
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
    host: Host | None = None,
) -> RunResult:
    """Improve a policy, as `agentfw train` does, and return how it did before and after.

    `learn_from` names recorded runs, as `--from` does, and `metric` the feedback in them, as `--metric` does. The other
    arguments are those of `run`.
    """
    from .host import runs_directory
    from .host.plugin_loading import end_reading
    from .runs.from_python import execute, spec_values
    from .runs.spec.start import check_training, start_from_runs, start_of_training

    end_reading()
    sources, root = _listed(learn_from), runs_directory(runs)
    start = (
        start_from_runs(sources, root, optimizer if isinstance(optimizer, str) else None, metric)
        if sources
        else start_of_training
    )
    chosen = {"model": model, "policy": policy, "optimizer": optimizer, "learner": learner, "teacher": teacher}
    figures = {"interface": interface, "updates": updates, "seed": seed, **_lists(memory, tool, reward, tracker)}
    environment = _environment(environment, tasks, root)
    values, host = spec_values(start, environment, spec, settings or {}, {**chosen, **figures}, root, host)
    check_training(values)
    return execute(values, host, root)


def load(name: str = "last", *, runs: Path | str | None = None) -> RunResult:
    """A finished run: `last`, its name or the end of it, or its path."""
    from .host import runs_directory
    from .runs.from_python import RunResult
    from .runs.records.folder import find_run

    return RunResult(find_run(runs_directory(runs), name))


def _environment(environment: str | None, tasks: Tasks | None, runs: Path) -> str | None:
    """The environment, or a file of tasks. What isn't in a file is written to one, so that the run can be resumed."""
    if tasks is None:
        return environment
    if environment is not None:
        raise UsageError("both an environment and tasks are given", fix="leave one of them out")
    if isinstance(tasks, (str, Path)):
        return str(tasks)
    from .runs.records.journal import make_folder, write_whole

    text = "".join(json.dumps(dict(row), ensure_ascii=False, default=str) + "\n" for row in tasks)
    make_folder(runs / "tasks")
    path = runs / "tasks" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
    write_whole(path, text)
    return str(path)


def _lists(memory: Several, tool: Several, reward: Several, tracker: Several) -> dict[str, tuple[One, ...]]:
    given = {"memories": memory, "tools": tool, "rewards": reward, "trackers": tracker}
    return {name: _listed(names) for name, names in given.items()}


def _listed(names: Several) -> tuple[Any, ...]:
    return tuple(names) if isinstance(names, (list, tuple)) else (names,)
