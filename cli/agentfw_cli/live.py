"""A run while it goes on: a live picture on a terminal, a few plain lines in a pipe, nothing with --quiet or --json.

The one rule: the picture costs the run nothing that matters: it is drawn by a thread of its own a few times a second,
from what the run has told so far.

    with watch(run, out) as watcher:
        asyncio.run(run.execute(watcher))

Where the environment has rounds, progress is counted in rounds: one long episode moves, too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentfw.out import Out, width_of
from agentfw.runs.run import Watcher

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from agentfw.episode import Episode, Turn
    from agentfw.runs.run import Run

__all__ = ["watch"]

_EPISODES, _ROUNDS = 10, 25
"""Over so many of the last ones the headline is averaged."""
_LINES = 10
"""So many lines a pipe gets, about."""
_PAUSE = 0.1
"""Seconds that one action stays to be read."""


@contextmanager
def watch(run: Run, out: Out) -> Iterator[Watcher]:
    """Whoever shows this run."""
    if out.quiet or out.json:
        yield Watcher()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _picture(run) as picture:
            yield picture
    else:
        yield _Lines(run)


def _title(run: Run, total: int) -> str:
    spec = run.spec
    episodes = "1 episode" if total == 1 else f"{total} episodes"
    scene = str(run.folder.about.get("scene", ""))
    parts = [spec.environment.name, scene or episodes, f"policy {spec.policy.name}"]
    parts += [f"memory {memory.name}" for memory in spec.memories]
    # Whoever says what is played has rounds or something like them: there the interface makes no difference.
    parts += [] if scene else [spec.interface.replace("_", " ")]
    return "   ".join([*parts, f"seed {spec.seed}"])


class _Progress(Watcher):
    """What both ways of showing keep: how far it is, and how the headline goes."""

    def __init__(self, run: Run) -> None:
        self.run, self.headline = run, run.folder.headline
        self.values: list[float] = []
        self.episodes = self.done = 0
        self.rounds = 0
        """Rounds of an episode; 0 where there are none, or none was seen yet."""
        self._at: dict[str, tuple[int, int]] = {}
        """Of each episode that is going on: its round, and how many of its measures were seen."""

    def started(self, run: Run, total: int, done: int) -> None:
        self.episodes, self.done = total, done

    def turned(self, episode: Episode, turn: Turn) -> None:
        if not turn.round:
            return
        if not self.rounds:
            self.rounds = next(int(event.data["of"]) for event in reversed(episode.events) if event.kind == "round")
        self._measured(episode, turn.round)

    def ended(self, episode: Episode, reward: float, done: int) -> None:
        self.done = done
        if self.rounds:
            self._measured(episode, self.rounds)
            self._at.pop(episode.id, None)
        else:
            self.values.append(episode.outcome.get(self.headline, episode.utility))

    def _measured(self, episode: Episode, number: int) -> None:
        _, seen = self._at.get(episode.id, (0, 0))
        new = episode.measures[seen:]
        self.values += [measure.value for measure in new if measure.round and measure.name == self.headline]
        self._at[episode.id] = number, len(episode.measures)

    @property
    def total(self) -> int:
        return self.episodes * max(1, self.rounds)

    @property
    def completed(self) -> int:
        return self.done * max(1, self.rounds) + sum(number - 1 for number, _ in list(self._at.values()))

    def words(self) -> str:
        last = self.values[-_ROUNDS:] if self.rounds else self.values[-_EPISODES:]
        return f"{self.headline}, last {len(last)}: {sum(last) / len(last):.3f}" if last else ""


class _Lines(_Progress):
    """Plain lines, about ten of them."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.told = 0

    def started(self, run: Run, total: int, done: int) -> None:
        super().started(run, total, done)
        print(_title(run, total), file=sys.stderr)
        if done:
            print(f"{done} of them are there already", file=sys.stderr, flush=True)

    def turned(self, episode: Episode, turn: Turn) -> None:
        super().turned(episode, turn)
        if turn.round:
            self._tell()

    def ended(self, episode: Episode, reward: float, done: int) -> None:
        super().ended(episode, reward, done)
        self._tell()

    def _tell(self) -> None:
        part = self.completed * _LINES // self.total
        if part > self.told:
            self.told = part
            print(f"{self.completed}/{self.total}   {self.words()}".rstrip(), file=sys.stderr, flush=True)


class _Picture(_Progress):
    """What the terminal shows; `__rich__` is called by the drawing thread."""

    def __init__(self, run: Run, progress: Progress) -> None:
        super().__init__(run)
        self.progress = progress
        self.task = progress.add_task("", total=None)
        self.last = ""
        self.shown = 0.0

    def started(self, run: Run, total: int, done: int) -> None:
        super().started(run, total, done)
        console = self.progress.console
        console.print(_title(run, total), style="bold", highlight=False)
        if done:
            console.print(f"{done} of them are there already", style="dim", highlight=False)

    def turned(self, episode: Episode, turn: Turn) -> None:
        super().turned(episode, turn)
        if turn.calls and time.monotonic() - self.shown > _PAUSE:
            self.shown = time.monotonic()
            call = turn.calls[0]
            words = " ".join([call.name, *(f"{key}={value}" for key, value in call.arguments.items())])
            self.last = f"episode {episode.task.index + 1}, at {turn.started:.1f}: {words}"

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        from agentfw.report import sparkline

        self.progress.update(self.task, total=self.total or None, completed=self.completed)
        grid = Table.grid(expand=True)
        grid.add_row(self.progress)
        # A copy: the run goes on adding to it meanwhile.
        values, words = list(self.values), self.words()
        if len(values) > 1:
            room = max(1, self.progress.console.width - width_of(words) - 3)
            line = Text(f"{words}   ", no_wrap=True, overflow="ellipsis")
            grid.add_row(line.append(sparkline(values, room), style="cyan"))
        if self.last and self.done < self.episodes:
            grid.add_row(Text(" ".join(self.last.split()), style="dim", no_wrap=True, overflow="ellipsis"))
        return grid


@contextmanager
def _picture(run: Run) -> Iterator[Watcher]:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    progress = Progress(
        BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), console=console, expand=True
    )
    picture = _Picture(run, progress)
    with Live(picture, console=console, refresh_per_second=8):
        yield picture
