"""The contract of plugins that watch runs with hooks: they are told of a small run that has records in its folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ..episode import Message, Task, Usage
from ..request import Request
from ..scores import Score
from .checks import Subject, require, sample_episode

Plugins = Subject[Any]

_RECORDS = ("episodes.jsonl", "metrics.jsonl")


def sample_run(folder: Path) -> Any:
    """What hooks are told of the run whose records are in this folder."""
    policy = SimpleNamespace(name="sample", alias="", checked=None)
    spec = SimpleNamespace(environment=SimpleNamespace(name="sample"), policy=policy, models=())
    return SimpleNamespace(id=folder.name, folder=SimpleNamespace(path=folder), spec=spec)


def tell_of_run(tell: Callable[..., object], run: Any, *, starts: int = 1) -> None:
    """Call hooks in the order of a training. A run with two `starts` was resumed."""
    episode = sample_episode(Task(0, seed=7))
    request = Request([Message("user", "Which tea?")], task=episode.task)
    for _ in range(starts):
        tell("agentfw_run_started", run=run)
    for turn in episode.turns:
        tell("agentfw_answered", run=run, request=request, model="sample", usage=Usage(12, 0, 3), counted=True)
        tell("agentfw_turn", run=run, episode_id=episode.id, turn=turn)
    tell("agentfw_episode_done", run=run, episode=episode)
    for _ in range(starts):
        tell("agentfw_scored", run=run, scores=[Score(episode.id, "tips", 1.0)])
    tell("agentfw_updated", run=run, version="v1", metrics={"loss": 0.5})
    tell("agentfw_run_finished", run=run, summary=SimpleNamespace(figures={}, episodes=1))


def _told(plugin: object, *runs: Path, starts: int = 1) -> list[str]:
    """Call the plugin's hooks, return what the host complained of, and restore the environment variables."""
    with patch.dict(os.environ):
        return _tell(plugin, *runs, starts=starts)


def _tell(plugin: object, *runs: Path, starts: int = 1) -> list[str]:
    from .contracts import fresh_host

    host = fresh_host(plugin, strict=False)
    for folder in runs:
        folder.mkdir()
        for name in _RECORDS:
            (folder / name).write_text("{}\n", "utf-8")
        tell_of_run(host.call, sample_run(folder), starts=starts)
    return host.notes


def it_loads(subject: Plugins) -> None:
    """It loads without a complaint: every hook has a known name and takes known arguments."""
    notes = _told(subject.make())
    require(not notes, f"loading it, the host notes: {'; '.join(notes)}")


def its_hooks_do_not_raise(subject: Plugins) -> None:
    """In a training from its beginning to its end, and in a second one, none of its hooks raises."""
    notes = _told(subject.make(), subject.folder / "first", subject.folder / "second")
    require(not notes, f"in two trainings with it, the host notes: {'; '.join(notes)}")


def a_resumed_run_may_tell_it_again(subject: Plugins) -> None:
    """It takes what a resumed run tells a second time: the start, and the scores of a group."""
    notes = _told(subject.make(), subject.folder / "run", starts=2)
    require(not notes, f"telling it a second time, the host notes: {'; '.join(notes)}")


def records_stay_as_they_are(subject: Plugins) -> None:
    """The records of a run are the same with it and without it."""
    folder = subject.folder / "run"
    _told(subject.make(), folder)
    for name in _RECORDS:
        same = (folder / name).is_file() and (folder / name).read_text("utf-8") == "{}\n"
        require(same, f"with it, {name} differs; write to files of its own")


def the_process_stays_as_it_is(subject: Plugins) -> None:
    """It leaves the process alone: the working directory, environment variables, standard output and signals."""
    looks: dict[str, Callable[[], object]] = {
        "the working directory": os.getcwd,
        "os.environ": lambda: dict(os.environ),
        "sys.stdout": lambda: sys.stdout,
        "sys.excepthook": lambda: sys.excepthook,
        "the handler of SIGINT": lambda: signal.getsignal(signal.SIGINT),
    }
    before = {name: look() for name, look in looks.items()}
    _tell(subject.make(), subject.folder / "run")
    for name, look in looks.items():
        require(look() == before[name], f"after a run with it, {name} changed; put back what it changes")
