"""A run while it goes on: a live picture on a terminal, a few plain lines in a pipe, nothing with --quiet or --json.

The one rule: the picture costs the run nothing that matters: it is drawn by a thread of its own a few times a second, from
what the run has told so far.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentfw.run import Watcher

from agentfw_cli.out import Out

if TYPE_CHECKING:
    from agentfw.episode import Episode, Turn
    from agentfw.run import Run
    from rich.progress import Progress
    from rich.table import Table

__all__ = ["watch"]

_RECENT = 10


@contextmanager
def watch(run: Run, out: Out) -> Iterator[Watcher]:
    """Whoever shows this run."""
    if out.quiet or out.json:
        yield Watcher()
    elif sys.stderr.isatty():
        with _picture(run) as picture:
            yield picture
    else:
        yield _Lines(run)


def _title(run: Run, total: int) -> str:
    spec = run.spec
    parts = [spec.environment.name, f"{total} episodes", f"policy {spec.policy.name}"]
    parts += [f"memory {memory.name}" for memory in spec.memories]
    return "   ".join([*parts, spec.interface.replace("_", " "), f"seed {spec.seed}"])


class _Recent(Watcher):
    """What both ways of showing keep: the headline of the last episodes."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.headline = str(run.folder.about["headline"])
        self.values: deque[float] = deque(maxlen=_RECENT)
        self.total = self.done = 0

    def note(self, episode: Episode, done: int) -> None:
        self.done = done
        self.values.append(episode.outcome.get(self.headline, episode.utility))

    def words(self) -> str:
        if not self.values:
            return ""
        return f"{self.headline}, last {len(self.values)}: {sum(self.values) / len(self.values):.3f}"


class _Lines(_Recent):
    """Plain lines, about ten of them."""

    def started(self, run: Run, total: int, done: int) -> None:
        self.total, self.step = total, max(1, total // 10)
        print(_title(run, total), file=sys.stderr)
        if done:
            print(f"{done} of them are there already", file=sys.stderr)

    def ended(self, episode: Episode, reward: float, done: int) -> None:
        self.note(episode, done)
        if done % self.step == 0 or done == self.total:
            print(f"{done}/{self.total}   {self.words()}", file=sys.stderr, flush=True)


class _Picture(_Recent):
    """What the terminal shows; `__rich__` is called by the drawing thread."""

    def __init__(self, run: Run, progress: Progress) -> None:
        super().__init__(run)
        self.progress = progress
        self.task = progress.add_task("", total=None, words="")
        self.last = ""
        self.shown = 0.0

    def started(self, run: Run, total: int, done: int) -> None:
        self.total = total
        self.progress.console.print(_title(run, total), style="bold", highlight=False)
        self.progress.update(self.task, total=total, completed=done)

    def turned(self, episode: Episode, turn: Turn) -> None:
        if turn.calls and time.monotonic() - self.shown > 0.1:
            self.shown = time.monotonic()
            call = turn.calls[0]
            words = " ".join(f"{key}={value}" for key, value in call.arguments.items())
            self.last = f"episode {episode.task.index + 1}, at {turn.started:.1f}: {call.name} {words}"

    def ended(self, episode: Episode, reward: float, done: int) -> None:
        self.note(episode, done)
        self.progress.update(self.task, completed=done, words=self.words())

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(expand=True)
        grid.add_row(self.progress)
        if self.last and self.done < self.total:
            grid.add_row(Text(self.last, style="dim", no_wrap=True, overflow="ellipsis"))
        return grid


@contextmanager
def _picture(run: Run) -> Iterator[Watcher]:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    progress = Progress(
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}"),
        console=console,
        expand=True,
    )
    picture = _Picture(run, progress)
    with Live(picture, console=console, refresh_per_second=8):
        yield picture
