"""Shows a run while it goes on: a live picture on a terminal, lines in a pipe, few with --json, none with --quiet.

The picture slows nothing down: a thread of its own draws it a few times a second, from what the run has told so far.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from agentfw.printing.out import Out, width_of
from agentfw.printing.out import Progress as SignOfLife
from agentfw.runs.observers import Observer, RunInfo
from agentfw_cli.progress import Progress, progress_of

_LABELS = 24  # least width of the labels, so that the curves begin below each other


@contextmanager
def watch(run: RunInfo, out: Out, *, samples: bool = False) -> Iterator[Observer]:
    """The observer that shows this run, of a training with three `samples` of each update."""
    if out.quiet:
        yield Observer()
    elif out.json:
        with SignOfLife((progress := progress_of(run)).line):
            yield progress
    else:
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        with _drawn(run, samples) if is_terminal else _listed(run, samples) as progress:
            yield progress


@contextmanager
def _listed(run: RunInfo, samples: bool) -> Iterator[Progress]:
    """Print a line for each event, and the progress after ten seconds without one."""

    def tell(line: str, style: str) -> None:
        print(line, file=sys.stderr, flush=True)
        life.postpone()

    progress = progress_of(run, tell, samples=samples)
    with SignOfLife(progress.line) as life:
        yield progress


@contextmanager
def _drawn(run: RunInfo, samples: bool) -> Iterator[Progress]:
    """Draw a bar, the figures as small curves, and what happens now."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Table
    from rich.text import Text

    from agentfw.report import sparkline

    console = Console(stderr=True)
    bar = Bar(BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), console=console, expand=True)
    task = bar.add_task("", total=None)

    def tell(line: str, style: str) -> None:
        if style:  # the lines without a style are for whoever sees no picture
            console.print(line, style=style, highlight=False)

    def draw() -> Table:
        bar.update(task, total=progress.total() or None, completed=progress.completed())
        grid = Table.grid(expand=True)
        grid.add_row(bar)
        for label, values in progress.curves():
            width = max(_LABELS, width_of(label) + 3)
            line = Text(label.ljust(width), no_wrap=True, overflow="ellipsis")
            curve = sparkline(values, max(1, console.width - width)) if len(values) > 1 else ""
            grid.add_row(line.append(curve, style="cyan"))
        for words in progress.status():
            grid.add_row(Text(fitted(words, console.width), style="dim", no_wrap=True, overflow="ellipsis"))
        return grid

    progress = progress_of(run, tell, samples=samples)
    # What is printed to stdout goes to stderr, and only that has to be kept away from the picture.
    with Live(get_renderable=draw, console=console, refresh_per_second=8, redirect_stdout=False) as live:
        progress.changed = live.refresh
        _drawn_on.append(sys.stderr)
        yield progress


_drawn_on: list[object] = []
"""Stand-ins for stderr: a thread of a plugin may still be printing to one when its picture is gone."""


def fitted(line: str, width: int) -> str:
    """A line that is too long without its middle, where its end says how it came out: "kept A word with...: wrong"."""
    what, colon, outcome = line.rpartition(": ")
    room = width - width_of(outcome) - 3
    if width_of(line) <= width or not colon or room < width / 2:
        return line
    while width_of(what) > room:
        what = what[:-1]
    return f"{what.rstrip()}…: {outcome}"
