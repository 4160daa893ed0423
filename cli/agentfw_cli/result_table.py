"""Prints the result of a run: how the headline went, a table of figures, where the files are, and what to do next."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from agentfw.printing.out import Out, counted, shown_path
from agentfw.report import bars
from agentfw.runs.observers import RunInfo
from agentfw.runs.records.call_record import call_table, read_calls
from agentfw.runs.records.figure_table import in_order
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.records.summary import Summary, beside, by_round, change, columns, leading, means
from agentfw.runs.results.run_report import training_notes, what_each_did
from agentfw_cli.common import figure_row, usage_words

_ENOUGH = 8  # least number of episodes or rounds whose quarters are told: fewer would be noise
_BARS = 5  # number of evaluations that are drawn as bars, the first and the last among them


def print_result(run: RunInfo, summary: Summary, out: Out, files: Sequence[Path]) -> None:
    stages, episodes = run.folder.stages(), run.folder.metrics()
    for reason, count in summary.failed.items():
        out.line(f"failed and left out, {counted(count, 'episode')}: {reason}")
    if len(stages) > 1:
        _evaluations(run, summary, stages, out)
    else:
        _quarters(run.folder.headline, episodes, out)
        _figures(run, summary, out)
    for word, meaning in run.folder.meanings.items():
        out.note(f"{word}: {meaning}")
    out.line()
    out.line(f"{shown_path(run.folder.path)}/   {'   '.join(file.name for file in files)}".rstrip())
    if summary.adapter:
        out.line(f"{shown_path(run.folder.path / summary.adapter)}   {summary.version}")
    elif summary.updates:
        out.note("nothing was learned: no update had a group of episodes with different rewards")
    for note in training_notes(run.folder.updates()):
        out.note(note)
    if words := usage_words(summary.to_record()):
        out.line(f"tokens   {words}")
    out.line()
    out.table(["", ""], [list(row) for row in what_each_did(run.folder).items()])
    print_calls([row for row in read_calls(run.folder.path) if row["failures"]], out)
    if failures := sum(int(record["failures"]) for record in episodes):
        out.note(f"{counted(failures, 'answer')} could not be understood; agentfw runs show {run.id} has more")
    _next(run, summary, episodes, out)


def print_figures(folder: RunFolder, figures: Mapping[str, Mapping[str, Any]], out: Out) -> None:
    """The figures of a summary's record, one a row."""
    rows = [figure_row(folder, name, figures[name]) for name in in_order(figures, folder.headline)]
    out.table(["", "mean", "95% interval"], rows, right=(1,))


def print_calls(calls: Sequence[dict[str, Any]], out: Out) -> None:
    """How long the calls of components took, if there are any."""
    heads, rows = call_table(calls)
    if rows:
        out.line()
        out.table(heads, rows, right=(1, 2, 3, 4))


def _evaluations(run: RunInfo, summary: Summary, stages: Mapping[int, Sequence[Mapping[str, Any]]], out: Out) -> None:
    """The headline after some of the evaluations and how it changed, and all figures before and after."""
    headline = leading(summary.before.keys() & summary.figures.keys(), run.folder.headline)
    numbers = sorted(stages)
    shown = [numbers[place * (len(numbers) - 1) // (_BARS - 1)] for place in range(_BARS)]
    values = {number: means(stages[number]).get(headline, math.nan) for number in shown}
    some = f" ({len(values)} of {len(numbers)} evaluations)" if len(values) < len(numbers) else ""
    out.line(f"{headline} after {', '.join(map(str, values))} updates{some}   {bars(list(values.values()))}")
    if (difference := change(run.folder)) is not None:
        out.line(f"from the first to the last, task by task   {difference}")
    out.line()
    record = summary.to_record()
    rows = []
    for name in in_order(record["figures"], run.folder.headline):
        whole, at, _ = name.partition("@")
        if at and record["figures"].get(whole) == record["figures"][name]:
            continue  # `judge@1`, where only the first day was played, is the figure itself
        before = record["before"].get(name)
        start = figure_row(run.folder, name, before)[1:] if before else ["", ""]
        title, *after = figure_row(run.folder, name, record["figures"][name])
        rows.append([title, *start, *after])
    out.table(["", "before", "95% interval", "after", "95% interval"], rows, right=(1, 3))


def _quarters(headline: str, episodes: Sequence[Mapping[str, Any]], out: Out) -> None:
    """The headline in each quarter of the rounds or episodes."""
    rounds = by_round(episodes)
    values = [sum(some) / len(some) for some in rounds.values()] or columns(episodes).get(headline, [])
    values = [value for value in values if not math.isnan(value)]
    if len(values) < _ENOUGH:
        return
    quarters = [values[len(values) * part // 4 : len(values) * (part + 1) // 4] for part in range(4)]
    title = f"{headline} by quarter   "
    # Four bars, each behind its figure (4) and a space, with 3 spaces between two of them.
    room = (shutil.get_terminal_size().columns - len(title) - 4 * 5 - 3 * 3) // 4
    out.line(title + bars([sum(quarter) / len(quarter) for quarter in quarters], max(1, min(8, room))))
    out.line()


def _figures(run: RunInfo, summary: Summary, out: Out) -> None:
    """All figures; or where the environment says which, the run in one row above what simple players reach."""
    headline = run.folder.headline
    heads = {name: title for name, title in run.folder.columns.items() if name in summary.figures}
    if not heads:
        print_figures(run.folder, summary.to_record()["figures"], out)
        return
    # The interval stands behind the headline, which not every environment has as a column.
    place = list(heads).index(headline) + 1 if headline in heads else len(heads)
    titles = list(heads.values())
    titles.insert(place, "95%" if headline in heads else f"95% of {headline}")
    cells = []
    for who, figures in beside(summary, run.folder):
        row = [f"{figures[name].estimate:.2f}" if name in figures else "" for name in heads]
        known = figures.get(headline)
        row.insert(place, f"{known.low:.2f} to {known.high:.2f}" if known and known.count > 1 else "")
        cells.append([who, *row])
    right = [column for column in range(1, len(titles) + 1) if column != place + 1]
    out.table(["", *titles], cells, right=right)


def _next(run: RunInfo, summary: Summary, episodes: Sequence[Mapping[str, Any]], out: Out) -> None:
    """Commands that are likely to be wanted now, one a line, each of which works as it is printed."""
    where = "" if run.folder.called == run.id else f" --runs {shlex.quote(str(run.folder.path.parent))}"
    end, environment = run.id.rpartition("-")[2], run.spec.environment.name
    commands = []
    if summary.adapter and any((run.folder.path / summary.adapter).glob("*.safetensors")):
        commands.append(f"agentfw serve --policy last{where}")
    if not (run.spec.planned_updates or by_round(episodes)) and any(
        event.kind == "work" for episode in islice(run.folder.episodes(), 1) for event in episode.events
    ):
        # An interface decides what reaches an agent that is at work. Between rounds nothing happens.
        other = "event_driven" if run.spec.interface == "step_loop" else "step_loop"
        again = f"agentfw run {environment} --interface {other} --spec {end}{where}"  # with all other settings as here
        commands.append(f"{again} && agentfw compare {end} last{where}")
    look = f"view {run.folder.called}" if find_spec("starlette") else f"runs show last{where}"
    commands.append(f"agentfw {look}")
    for number, command in enumerate(commands):
        out.note(f"{'next: ' if number == 0 else '      '}{command}")
