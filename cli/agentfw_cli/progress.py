"""How far a run is and how its figures go: a live picture on a terminal, lines in a pipe, few with --json.

Where the environment has rounds, progress is counted in rounds, so that one long episode moves, too. The picture slows
nothing down: a thread of its own draws it a few times a second, from what the run has told so far.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentfw.episode import Episode, Turn, Usage
from agentfw.errors import AgentfwError
from agentfw.printing.out import Out, counted, width_of
from agentfw.printing.out import Progress as SignOfLife
from agentfw.report.statistics import Interval
from agentfw.runs.observers import Observer, RunInfo
from agentfw.runs.records.figure_table import UPDATE_FIGURES
from agentfw.runs.records.summary import WHY_NO_LEARNING, columns, flat, intervals, leading, nothing_learned

Tell = Callable[[str, str], object]  # takes a line for a person, and its style

_EPISODES, _ROUNDS = 10, 25  # the headline is averaged over so many of the last ones
_LINES = 10  # about so many lines are told of a run
_PAUSE = 0.1  # seconds that one action stays to be read
_DOES = {"play": "playing", "learn": "learning", "publish": "publishing", "evaluate": "evaluating"}
_LABELS = 24  # least width of the labels, so that the curves begin below each other
_PART = "reward/"  # how the figure of each component of the reward begins


class Progress(Observer):
    """How far a run is. A line that is worth printing is told at once; pictures ask for the rest."""

    def __init__(self, run: RunInfo, tell: Tell) -> None:
        self.run, self.tell, self.headline = run, tell, run.folder.headline
        self.changed: Callable[[], object] = lambda: None
        """Called when something else begins. A picture that is drawn now and then would miss what is short."""
        self._used = Usage(0, 0, 0)

    def spent(self, policy: Usage, judges: Usage) -> None:
        self._used = policy + judges

    def spending(self) -> str:
        """The tokens and costs so far, at the end at this rate, and at most. Nothing if they are free and unlimited."""
        used, budget = self._used, self.run.spec.budget
        if used.cost == 0 and budget.tokens is None:
            return ""
        if used.tokens is None:
            return "tokens and cost unknown" if used.cost is None else ""
        share, parts = self.completed() / max(1, self.total()), []
        for name, amount, limit in (("tokens", used.tokens, budget.tokens), ("cost", used.cost, budget.money)):
            if amount:
                at_end = f", about {_short(float(f'{amount / share:.2g}'))} at the end" if 0 < share < 1 else ""
                most = "" if limit is None else f", limit {_short(limit)}"
                parts.append(f"{name} {_short(amount)}{at_end}{most}")
        return "   ".join(parts)

    def left_out(self, episodes: Sequence[str], error: AgentfwError, done: int) -> None:
        self.tell(f"left out {', '.join(episodes)}: {error.message}", "yellow")

    def completed(self) -> int:
        raise NotImplementedError

    def total(self) -> int:
        raise NotImplementedError

    def curves(self) -> list[tuple[str, list[float]]]:
        """Figures with their values so far. Copies: the run adds to them meanwhile."""
        return []

    def status(self) -> list[str]:
        """What happens now, in lines."""
        return []

    def line(self) -> str:
        """How far it is and what happens now, in one line."""
        how_far = f"{self.completed()}/{self.total()}" if self.total() else "beginning"
        return "   ".join([how_far, *(self.status() or ([] if self.completed() else ["loading"]))])


def progress_of(run: RunInfo, tell: Tell = lambda line, style: None, *, samples: bool = False) -> Progress:
    """The progress of a training, with `samples` of each update's answers, or else that of episodes and rounds."""
    return _UpdateProgress(run, tell, samples) if run.spec.planned_updates else _EpisodeProgress(run, tell)


class _EpisodeProgress(Progress):
    def __init__(self, run: RunInfo, tell: Tell) -> None:
        super().__init__(run, tell)
        self.values: list[float] = []
        self.episodes = self.done = self.told = 0
        self.rounds = 0  # rounds of an episode; 0 where there are none, or none was seen yet
        self._at: dict[str, tuple[int, int]] = {}
        """Of each episode that is going on: its round, and the number of its measures that were seen."""
        self._action, self._shown = "", 0.0

    def started(self, run: RunInfo, done: int) -> None:
        spec, total = run.spec, run.folder.total
        described = str(run.folder.about.get("description", ""))
        parts = [spec.environment.name, described or counted(total, "episode")]
        parts += [f"policy {spec.policy.name}", *(f"memory {memory.name}" for memory in spec.memories)]
        # Where tasks are described there are rounds or something like them: there the interface makes no difference.
        parts += [] if described else [spec.interface.replace("_", " ")]
        self.tell("   ".join([*parts, f"seed {spec.seed}"]), "bold")

    def plays(self, total: int, done: int) -> None:
        self.episodes, self.done = total, done
        if done:
            self.tell(f"{done} of them are there already", "dim")

    def turned(self, episode: Episode, turn: Turn) -> None:
        if turn.calls and time.monotonic() - self._shown > _PAUSE:
            self._shown = time.monotonic()
            call = turn.calls[0]
            words = " ".join([call.name.replace("_", " "), *map(str, call.arguments.values())])
            # What it came to is told best by the world itself, in the reason of the newest utility.
            told = next((event.name for event in reversed(episode.events) if event.kind == "utility"), "")
            self._action = " ".join((told or f"episode {episode.task.index + 1}: {words}").split())
        if turn.round:
            if not self.rounds:
                rounds = (event for event in reversed(episode.events) if event.kind == "round")
                self.rounds = int(next(rounds).data["of"])
            if self.rounds:  # an environment may number its rounds without telling how many there will be
                self._measured(episode, turn.round)
                self._tell()

    def concluded(self, episode: Episode, record: Mapping[str, Any], done: int) -> None:
        self.done = done
        if self.rounds:
            self._measured(episode, self.rounds)
            self._at.pop(episode.id, None)
        else:
            self.values += columns([record]).get(self.headline, ())
        self._tell()

    def left_out(self, episodes: Sequence[str], error: AgentfwError, done: int) -> None:
        self.done = done
        super().left_out(episodes, error, done)

    def total(self) -> int:
        return self.episodes * max(1, self.rounds)

    def completed(self) -> int:
        return self.done * max(1, self.rounds) + sum(number - 1 for number, _ in list(self._at.values()))

    def curves(self) -> list[tuple[str, list[float]]]:
        return [(self._words(), list(self.values))] if len(self.values) > 1 else []

    def status(self) -> list[str]:
        action = self._action if self.done < self.episodes else ""
        return [line for line in (action, self.spending()) if line]

    def _measured(self, episode: Episode, number: int) -> None:
        _, seen = self._at.get(episode.id, (0, 0))
        new = episode.measures[seen:]
        self.values += [measure.value for measure in new if measure.round and measure.name == self.headline]
        self._at[episode.id] = number, len(episode.measures)

    def _tell(self) -> None:
        part = self.completed() * _LINES // self.total()
        if part > self.told:
            self.told = part
            words = (f"{self.completed()}/{self.total()}", self._words(), self.spending())
            self.tell("   ".join(word for word in words if word), "")

    def _words(self) -> str:
        last = self.values[-_ROUNDS:] if self.rounds else self.values[-_EPISODES:]
        return f"{self.headline}, last {len(last)}: {sum(last) / len(last):.3f}" if last else ""


@dataclass
class _Phase:
    words: str
    began: float = field(default_factory=time.monotonic)
    episodes: int = 0
    ended: int = 0
    turns: int = 0
    over: bool = False
    pieces: tuple[int, int, float] = (0, 0, 0.0)
    """Of a learner: how many are done, of how many, and the memory in use in MiB."""

    def __str__(self) -> str:
        spent = time.monotonic() - self.began
        words = f"{self.words}   {spent:.0f} s"
        done, of, memory = self.pieces
        if done:
            left = f"   about {_duration(spent / done * (of - done))} left" if done < of else ""
            return f"{words}   {done}/{of} pieces{left}   {memory / 1024:.1f} GiB"
        return words + (f"   {self.ended}/{self.episodes} episodes   {self.turns} turns" if self.episodes else "")


class _UpdateProgress(Progress):
    def __init__(self, run: RunInfo, tell: Tell, samples: bool) -> None:
        super().__init__(run, tell)
        self.samples = samples
        self.updates = 0
        self.figures: dict[str, list[float]] = {}
        self._warned = False
        self.evaluations: dict[int, Interval] = {}
        self.seconds: dict[str, float] = {}
        self.phases: dict[str, _Phase] = {}
        """Those that are going on, by their names, in the order in which they began."""

    def started(self, run: RunInfo, done: int) -> None:
        spec = run.spec
        parts = [spec.environment.name, f"policy {spec.policy.name}"]
        kinds = {"optimizer": spec.optimizer, "learner": spec.learner, "teacher": spec.teacher}
        parts += [f"{kind} {choice.name}" for kind, choice in kinds.items() if choice is not None]
        parts += [f"memory {memory.name}" for memory in spec.memories]
        parts += [f"{counted(spec.updates, 'update')} of {spec.tasks} x {spec.samples} episodes", f"seed {spec.seed}"]
        self.tell("   ".join(parts), "bold")
        if done:
            self.tell(f"{done} of the updates are there already", "dim")
        for line in run.folder.updates():
            self._take(line)
        for number, records in run.folder.stages().items():
            self._evaluated(number, intervals(records))

    def phase(self, name: str, update: int) -> None:
        words = f"{_DOES[name]}, update {update}" if name != "evaluate" else f"evaluating after {update} updates"
        self.phases = {other: phase for other, phase in self.phases.items() if not phase.over}
        self.phases[name] = _Phase(words)
        self.changed()

    def phase_ended(self, name: str, update: int) -> None:
        # It is shown until the next one begins, so that also a short one is seen.
        self.phases[name].over = True
        if not all(phase.over for phase in self.phases.values()):
            del self.phases[name]

    def learns(self, done: int, of: int, memory: float) -> None:
        if (phase := self.phases.get("learn")) is not None:
            phase.pieces = done, of, memory

    def plays(self, total: int, done: int) -> None:
        newest = self._phase_of(None)
        newest.episodes, newest.ended = total, done

    def turned(self, episode: Episode, turn: Turn) -> None:
        self._phase_of(episode).turns += 1

    def concluded(self, episode: Episode, record: Mapping[str, Any], done: int) -> None:
        self._phase_of(episode).ended = done

    def _phase_of(self, episode: Episode | None) -> _Phase:
        """The phase of an episode, or the newest in which any are played. Rollouts may go on while an evaluation is
        played. They differ by their split, if the environment names it."""
        playing = {name: phase for name, phase in self.phases.items() if name in ("play", "evaluate")}
        newest = list(playing.values())[-1]
        if episode is None:
            return newest
        return playing.get("evaluate" if episode.task.split == self.run.spec.evaluation.split else "play", newest)

    def updated(self, line: Mapping[str, Any]) -> None:
        self._take(line)
        newest = {name: f"{name.removeprefix(_PART)} {_short(some[-1])}" for name, some in self.figures.items()}
        if parts := [newest.pop(name) for name in list(newest) if name.startswith(_PART)]:
            newest["reward"] += f" ({', '.join(parts)})"
        left = self._left()
        words = [f"{self.updates}/{self.total()}", *newest.values(), f"{left} left" if left else ""]
        self.tell("   ".join(word for word in words if word), "")
        if self.samples:
            for each in line["samples"]:
                answer = " ".join(each["answer"].split())
                self.tell(f"{each['which']}, reward {_short(each['reward'])}: {answer}", "dim")
        if why := nothing_learned(line):
            self.tell(why if self._warned else f"{why}. {WHY_NO_LEARNING}", "yellow")
            self._warned = True

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        self._evaluated(update, figures)
        self.tell(f"{update}/{self.total()}   {self.headline} {self.evaluations.get(update, 'not measured')}", "")

    def total(self) -> int:
        return self.run.spec.planned_updates

    def completed(self) -> int:
        return self.updates

    def curves(self) -> list[tuple[str, list[float]]]:
        evaluations, curves = dict(self.evaluations), []
        if evaluations:
            newest = evaluations[max(evaluations)]
            values = [evaluations[number].estimate for number in sorted(evaluations)]
            curves.append((f"{self.headline} {newest.compact()}", values))
        return curves + [(f"{name} {_short(some[-1])}", list(some)) for name, some in dict(self.figures).items()]

    def status(self) -> list[str]:
        lines = [str(phase) for phase in list(self.phases.values())]
        lines += [words] if (words := self.spending()) else []
        lines += [f"about {left} left"] if (left := self._left()) else []
        whole = sum(self.seconds.values())
        shares = "   ".join(f"{name} {seconds / whole:.0%}" for name, seconds in dict(self.seconds).items() if whole)
        return [*lines, shares] if shares else lines

    def _take(self, line: Mapping[str, Any]) -> None:
        self.updates = int(line["update"])
        values = flat(line)
        parts = [name for name in values if name.startswith(_PART)]
        live = {name: figure.title for name, figure in UPDATE_FIGURES.items() if figure.live}
        # The parts of the reward stand behind it.
        titles = {"reward": live["reward"]} | {name: name for name in parts if len(parts) > 1} | live
        for name, title in titles.items():
            if name in values:
                self.figures.setdefault(title, []).append(float(values[name]))
        for name, seconds in line["seconds"].items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def _left(self) -> str:
        """The time for what is left, at the rate so far; empty before the first update and after the last."""
        left = self.total() - self.updates
        # With staleness, playing goes on while the learner works or waits.
        spent = sum(self.seconds.values()) - (self.seconds["play"] if "wait" in self.seconds else 0.0)
        return _duration(spent / self.updates * left) if left and self.updates and spent else ""

    def _evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        self.headline = leading(figures, self.headline)
        if self.headline in figures:
            self.evaluations[update] = figures[self.headline]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _short(value: float) -> str:
    """Three significant digits: a KL of 0.0004 is no zero."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


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
        live.refresh()
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
