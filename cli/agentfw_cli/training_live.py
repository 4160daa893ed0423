"""A training while it goes on: a live picture on a terminal, lines in a pipe, nothing with --quiet or --json.

The one rule: the picture costs the training nothing that matters: it is drawn by a thread of its own a few times a
second, from what the training has told so far.

    with watch(training, out) as watcher:
        asyncio.run(training.execute(watcher))
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentfw.out import Out, width_of
from agentfw.runs.summary import intervals, leading
from agentfw.training.training import TrainingWatcher

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from agentfw.episode import Episode, Turn
    from agentfw.statistics import Interval
    from agentfw.training.training import Training

__all__ = ["watch"]

_DOES = {"play": "playing", "learn": "learning", "publish": "publishing", "evaluate": "evaluating"}
_FIGURES = {
    "reward": ("rollouts", "reward"),
    "KL": ("learner", "kl"),
    "entropy": ("learner", "entropy"),
    "mismatch": ("served", "probe_mismatch"),
    "tokens/s": ("speed", "tokens_per_second"),
}
"""What is shown of an update: how it is called, and where it is in a line of updates.jsonl."""


@contextmanager
def watch(training: Training, out: Out) -> Iterator[TrainingWatcher]:
    """Whoever shows this training."""
    if out.quiet or out.json:
        yield TrainingWatcher()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _picture(training) as picture:
            yield picture
    else:
        yield _Lines(training)


def _title(training: Training) -> str:
    spec = training.spec
    parts = [spec.environment.name, f"policy {spec.policy.name}", f"optimizer {spec.optimizer.name}"]
    parts += [f"learner {spec.learner.name}"]
    parts += [f"teacher {spec.teacher.name}"] if spec.teacher else []
    parts += [f"memory {memory.name}" for memory in spec.memories]
    parts += [f"{spec.updates} updates of {spec.tasks} x {spec.samples} episodes", f"seed {spec.seed}"]
    return "   ".join(parts)


class _Course(TrainingWatcher):
    """What both ways of showing keep: the figures of each update, the headline of each evaluation."""

    def __init__(self, training: Training) -> None:
        self.training, self.headline = training, training.folder.headline
        self.values: dict[str, list[float]] = {}
        self.evaluations: dict[int, Interval] = {}
        self.seconds: dict[str, float] = {}
        self.done = 0

    def started(self, training: Training, done: int) -> None:
        for line in training.folder.updates():
            self._take(line)
        for number, records in training.folder.stages().items():
            _Course.evaluated(self, number, intervals(records))

    def updated(self, line: Mapping[str, Any]) -> None:
        self._take(line)

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        self.headline = leading(figures, self.headline)
        self.evaluations[update] = figures[self.headline]

    def _take(self, line: Mapping[str, Any]) -> None:
        self.done = int(line["update"])
        for name, (part, key) in _FIGURES.items():
            if key in line[part]:
                self.values.setdefault(name, []).append(float(line[part][key]))
        for name, seconds in line["seconds"].items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def words(self) -> str:
        """The figures of the last update."""
        return "   ".join(f"{name} {_short(values[-1])}" for name, values in self.values.items())

    def shares(self) -> str:
        """What the time went into."""
        whole = sum(self.seconds.values())
        return "   ".join(f"{name} {seconds / whole:.0%}" for name, seconds in self.seconds.items()) if whole else ""


class _Lines(_Course):
    """Plain lines: one an update, one an evaluation."""

    def started(self, training: Training, done: int) -> None:
        super().started(training, done)
        print(_title(training), file=sys.stderr)
        if done:
            print(f"{done} of the updates are there already", file=sys.stderr, flush=True)

    def updated(self, line: Mapping[str, Any]) -> None:
        super().updated(line)
        print(f"{self.done}/{self.training.spec.updates}   {self.words()}", file=sys.stderr, flush=True)

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        super().evaluated(update, figures)
        words = f"{self.headline} {self.evaluations[update]}"
        print(f"{update}/{self.training.spec.updates}   {words}", file=sys.stderr, flush=True)


class _Picture(_Course):
    """What the terminal shows; `__rich__` is called by the drawing thread."""

    def __init__(self, training: Training, progress: Progress) -> None:
        super().__init__(training)
        self.progress = progress
        self.task = progress.add_task("", total=training.spec.updates)
        self.doing = ""
        self.episodes = self.played = self.turns = 0
        self.began = time.monotonic()

    def started(self, training: Training, done: int) -> None:
        super().started(training, done)
        console = self.progress.console
        console.print(_title(training), style="bold", highlight=False)
        if done:
            console.print(f"{done} of the updates are there already", style="dim", highlight=False)

    def phase(self, name: str, update: int) -> None:
        self.episodes = self.played = self.turns = 0
        self.began = time.monotonic()
        self.doing = f"{_DOES[name]}, update {update}" if name != "evaluate" else f"evaluating after {update} updates"

    def plays(self, total: int, done: int) -> None:
        self.episodes, self.played = total, done

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.turns += 1

    def ended(self, episode: Episode, reward: float, done: int) -> None:
        self.played = done

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        self.progress.update(self.task, completed=self.done)
        grid = Table.grid(expand=True)
        grid.add_row(self.progress)
        for label, values in self._curves():
            grid.add_row(self._curve(label, values))
        if self.done < self.training.spec.updates or self.doing.startswith("evaluating"):
            now = f"{self.doing}   {time.monotonic() - self.began:.0f} s"
            if self.episodes:
                now += f"   {self.played}/{self.episodes} episodes   {self.turns} turns"
            grid.add_row(Text(now, style="dim", no_wrap=True, overflow="ellipsis"))
        if self.seconds:
            grid.add_row(Text(self.shares(), style="dim", no_wrap=True, overflow="ellipsis"))
        return grid

    def _curves(self) -> list[tuple[str, list[float]]]:
        """Each line's words and values. A copy: the training goes on adding to them meanwhile."""
        known = dict(self.evaluations)
        lines = []
        if known:
            newest = known[max(known)]
            lines.append((f"{self.headline} {newest.compact()}", [known[number].estimate for number in sorted(known)]))
        lines += [(f"{name} {_short(values[-1])}", list(values)) for name, values in dict(self.values).items()]
        return lines

    def _curve(self, label: str, values: list[float]) -> Any:
        from rich.text import Text

        from agentfw.report import sparkline

        width = max(24, width_of(label) + 3)
        room = max(1, self.progress.console.width - width)
        line = Text(label.ljust(width), no_wrap=True, overflow="ellipsis")
        return line.append(sparkline(values, room), style="cyan") if len(values) > 1 else line


@contextmanager
def _picture(training: Training) -> Iterator[TrainingWatcher]:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    progress = Progress(
        BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), console=console, expand=True
    )
    picture = _Picture(training, progress)
    with Live(picture, console=console, refresh_per_second=8):
        yield picture


def _short(value: float) -> str:
    """Three figures that matter: a KL of 0.0004 is no zero."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
