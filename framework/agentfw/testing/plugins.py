"""The contracts of a whole plugin that watches runs, of a hook that a run names, and of a command.

Plugins and hooks are told of a small run that has records in its folder. A hook decides something, too: that has to be
of the right form. A command that needs no argument is called with `--help` and with a wrong option alone: it could do
anything.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ..boundary.metadata import EntryPoint
from ..episode import Call, Episode, Message, Task, Usage
from ..errors import AgentfwError, BudgetSpentError
from ..hookspecs import Hook
from ..host.hook_calls import HookManager, HookOwner
from ..host.offers import PluginRecord
from ..request import Request
from ..scores import Score
from .checks import Subject, require, sample_episode, working_folder

if TYPE_CHECKING:
    import click
    from click.testing import Result

Plugins = Subject[Any]
Hooks = Subject[Hook]
Commands = Subject["click.Command"]

_RECORDS = ("episodes.jsonl", "metrics.jsonl")


def sample_run(folder: Path) -> Any:
    """What hooks are told of the run whose records are in this folder."""
    policy = SimpleNamespace(name="sample", alias="", checked=None)
    spec = SimpleNamespace(environment=SimpleNamespace(name="sample"), policy=policy, models=())
    return SimpleNamespace(id=folder.name, folder=SimpleNamespace(path=folder, about={}), spec=spec)


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


def _manager(subject: Hooks) -> tuple[HookManager, Any]:
    """A manager with this hook alone, and a run in an empty folder."""
    manager, record = HookManager([], strict=True), PluginRecord(EntryPoint("hook", "", "hook", ""))
    manager.add(subject.make(), HookOwner("hook", "it", "", record))
    return manager, sample_run(subject.folder)


async def it_decides_on_requests_and_calls(subject: Hooks) -> None:
    """What it decides on a request and on a call is a Request, a Verdict or None."""
    manager, run = _manager(subject)
    task, usage = Task(0, seed=7), Usage(12, 0, 3)
    request = Request([Message("system", "Be brief."), Message("user", "Which tea?")], task=task)
    manager.tell("agentfw_run_started", run=run)
    with suppress(BudgetSpentError):  # it may stop a run
        await manager.decide("agentfw_request", run=run, request=request, model="sample", most=lambda: usage)
    manager.tell("agentfw_answered", run=run, request=request, model="sample", usage=usage, counted=True)
    await manager.decide("agentfw_before_call", run=run, task=task, call=Call("pour", {"cups": 2}, "1"))


def it_keeps_records_whole(subject: Hooks) -> None:
    """A record that it changes is an episode with the same turns and messages."""
    (manager, run), episode = _manager(subject), sample_episode(Task(0, seed=7))
    manager.tell("agentfw_run_started", run=run)
    decided = manager.decide_now("agentfw_record", run=run, record=episode.copied().to_record())
    if decided is not None:
        made = Episode.from_record(decided.answer)
        same = len(made.turns) == len(episode.turns) and len(made.messages) == len(episode.messages)
        require(same, "it takes turns or messages out of a record, or adds some")


async def it_watches_a_whole_run(subject: Hooks) -> None:
    """Its observers take what a run tells them, in the order of a run."""
    manager, run = _manager(subject)
    tell_of_run(manager.tell, run)


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command below, with the words that lead to it."""
    import click

    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (below := command.get_command(context, name)) is not None:
            yield from _leaves(below, (*path, name))


def _called(subject: Commands, *words: str) -> Result:
    from click.testing import CliRunner

    with working_folder(subject.folder / "work"):
        return CliRunner().invoke(subject.make(), words)


def it_is_a_command(subject: Commands) -> None:
    """It is a click command, or a group of them."""
    import click

    made = subject.make()
    require(isinstance(made, click.Command), f"it is a {type(made).__name__}; mark a function with @click.command()")
    require(any(_leaves(made)), "it is a group without a command")


def it_says_what_it_does(subject: Commands) -> None:
    """`--help` says what it does, and what each of its options is for."""
    import click

    for path, command in _leaves(subject.make()):
        words = " ".join(path) or "it"
        wrong = f"{words} has no help; give its function a docstring"
        require((command.help or command.short_help or "").strip(), wrong)
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                require(option.help, f"the option {option.opts[0]} of {words} has no help=")
        shown = _called(subject, *path, "--help")
        require(shown.exit_code == 0, f"{words} --help ends with {shown.exit_code}: {shown.exception!r}")


def it_speaks_json(subject: Commands) -> None:
    """It has `--json`, so that programs can use it; of a group, at least one command."""
    options = [option for _, command in _leaves(subject.make()) for one in command.params for option in one.opts]
    require("--json" in options, "it has no --json; add an option that prints the result as JSON and nothing else")


def wrong_arguments_are_usage_errors(subject: Commands) -> None:
    """An option that doesn't exist, and a file that isn't there, are errors in words with exit code 1 or 2."""
    import click

    for path, command in _leaves(subject.make()):
        required = [one for one in command.params if isinstance(one, click.Argument) and one.required]
        files = ["no-such-file"] * sum(max(1, one.nargs) for one in required)
        for some in filter(None, (["--no-such-option"], files)):
            ended, line = _called(subject, *path, *some), " ".join((*path, *some))
            fine = isinstance(ended.exception, (SystemExit, AgentfwError, type(None)))
            require(fine, f'called with "{line}", it raises {ended.exception!r}; raise click.UsageError')
            refused = ended.exit_code not in (0, None) or some is files
            require(refused, f'called with "{line}", it ends as if all were well')
