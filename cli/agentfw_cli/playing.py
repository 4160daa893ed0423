"""Doing a run or a training: with a live picture, a report at its end, and a way to go on whatever stops it.

The one rule: whoever is interrupted is told what is kept and how to go on.

    execute(Run.create(spec, host, root), host, out)
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from agentfw.out import Out
from agentfw_cli.common import name_of, note_problems

if TYPE_CHECKING:
    from types import FrameType

    from agentfw.host import Host
    from agentfw.runs.folder import RunFolder
    from agentfw.runs.run import Run
    from agentfw.runs.spec import CommonSpec
    from agentfw.runs.summary import Summary
    from agentfw.training.training import Training

    Made: TypeAlias = Run | Training

__all__ = ["create", "execute", "play", "reopen"]


def play(made: Made, out: Out) -> Summary:
    """Do it with a live picture. Whatever stops it, somebody is told how to go on."""
    from agentfw.errors import AgentfwError, UsageError
    from agentfw.host.plugin_guard import stdout_to_stderr

    with _terminated_is_interrupted() as signals:
        try:
            # An environment or a tracker that prints must not get between our lines on stdout.
            with stdout_to_stderr(), _watch(made, out) as watcher:
                return asyncio.run(made.execute(watcher))
        except AgentfwError as error:
            if not isinstance(error, UsageError):  # a wrong setting stays wrong
                error.fix = f"{error.fix}; then go on: agentfw runs resume {name_of(made.folder)}".removeprefix("; ")
            raise
        except KeyboardInterrupt:
            out.error(
                "every episode that was finished is kept",
                f"go on with it: agentfw runs resume {name_of(made.folder)}",
                label="terminated" if signals else "interrupted",
            )
            raise click.exceptions.Exit(143 if signals else 130) from None


@contextmanager
def _terminated_is_interrupted() -> Iterator[list[int]]:
    """SIGTERM ends a run as Ctrl-C does: everything is closed, and a line says how to go on. Holds what came."""
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # under nohup, or in the background of a script
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def execute(made: Made, host: Host, out: Out) -> None:
    """Do it, write its report, and print what came of it."""
    from agentfw.errors import StorageError
    from agentfw.runs.report import write_report

    summary = play(made, out)
    note_problems(host, out)
    files, failed = list[Path](), None
    try:
        files = write_report(made.folder)
    except StorageError as error:  # the run itself is done: what came of it is told first
        failed = error
        failed.fix += f"; then: agentfw report {name_of(made.folder)}"
    if out.json:
        record = summary.to_record()
        out.data({**record, "folder": str(made.folder.path), "files": [str(file) for file in files]})
    else:
        _tell(made, summary, out, files)
    if failed is not None:
        raise failed


def create(spec: CommonSpec, host: Host, root: Path) -> Made:
    """What a spec says: a training's is a spec of its own."""
    from agentfw.runs.run import Run
    from agentfw.runs.spec import RunSpec

    if isinstance(spec, RunSpec):
        return Run.create(spec, host, root)
    from agentfw.training.spec import TrainSpec
    from agentfw.training.training import Training

    assert isinstance(spec, TrainSpec)
    return Training.create(spec, host, root)


def reopen(folder: RunFolder, host: Host) -> Made:
    """A run or a training that is there already."""
    if folder.unit == "episodes":
        from agentfw.runs.run import Run

        return Run.open(folder, host)
    from agentfw.training.folder import TrainingFolder
    from agentfw.training.training import Training

    assert isinstance(folder, TrainingFolder)
    return Training.open(folder, host)


def _watch(made: Made, out: Out) -> AbstractContextManager[Any]:
    from agentfw.runs.run import Run

    if isinstance(made, Run):
        from agentfw_cli import live

        return live.watch(made, out)
    from agentfw_cli import training_live

    return training_live.watch(made, out)


def _tell(made: Made, summary: Summary, out: Out, files: list[Path]) -> None:
    from agentfw.runs.run import Run

    if isinstance(made, Run):
        from agentfw_cli import run

        run.tell(made, summary, out, files)
        return
    from agentfw.training.training import TrainingSummary
    from agentfw_cli import train

    assert isinstance(summary, TrainingSummary)
    train.tell(made, summary, out, files)
