"""Charts of a run: the curve of its headline metric, and the updates of a training; and an episode, drawn or as text.

The metrics of updates come from rollouts, while the policy changes. Evaluations show how good the policy is.

In a transcript, each message is shown once, and after its messages each answer with its calls. An answer is shown
without the calls that are spelled in it. What a tool answered is a message.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...episode import Call, Episode
from ...errors import UnknownNameError, UsageError
from ...printing.out import counted
from ...report import Canvas, Lane, Mark, Series, Span, lanes_chart, line_chart, short
from ...report.html import Cell, Number
from ...report.statistics import bootstrap
from ..deciding import decisions
from ..records.figure_table import CHARTS, UPDATE_FIGURES
from ..records.folder import RunFolder
from ..records.journal import write_whole
from ..records.summary import Summary, beside, by_round, columns, flat, intervals, leading

_PHASES = {
    "play": "playing",
    "learn": "learning",
    "publish": "publishing",
    "evaluate": "evaluating",
    "wait": "waiting for rollouts",
}


def update_charts(lines: Sequence[Mapping[str, Any]]) -> Iterator[Canvas]:
    rows = [flat(line) for line in lines]
    updates = [float(line["update"]) for line in lines]
    for title, label in CHARTS.items():
        series = [
            Series(figure.line, [row.get(name, math.nan) for row in rows], x=updates)
            for name, figure in UPDATE_FIGURES.items()
            if figure.chart == title and any(name in row for row in rows)
        ]
        if series and len(lines) > 1:
            yield line_chart(series, title=title, x_label="update", y_label=label, height=260)


def phases_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """Where the time went: the headings and rows of a table of all updates' seconds by phase."""
    rows = [flat(line) for line in lines]
    phases = [name for name in _PHASES if name != "wait" or any("seconds/wait" in row for row in rows)]
    seconds = {name: sum(row.get(f"seconds/{name}", 0.0) for row in rows) for name in phases}
    whole = sum(seconds.values()) or 1.0
    return ["phase", "seconds", "share"], [
        [_PHASES[name], short(value), Number(value, f"{value / whole:.0%}")] for name, value in seconds.items()
    ]


def updates_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    rows = [flat(line) for line in lines]
    known = [one for name, one in UPDATE_FIGURES.items() if one.listed and any(name in row for row in rows)]
    return ["update", "version", *(one.title for one in known)], [
        [int(line["update"]), str(line["version"]), *(short(row.get(one.name, math.nan)) for one in known)]
        for line, row in zip(lines, rows, strict=True)
    ]


_BANDED = 300  # maximum number of rounds with an interval each. Resampling thousands would take longer than the run
_LANES = 8  # maximum number of kinds of work with their own lane: those that took longest


def curve(folder: RunFolder) -> Canvas:
    """The headline metric by update in a training, by round if there are rounds, else by episode."""
    stages, records = folder.stages(), folder.metrics()
    if folder.planned_updates and stages:
        series, headline, by, label = _by_update(folder.headline, stages)
    elif by_round(records):
        series, headline, by, label = _by_round(leading(columns(records), folder.headline), records)
    else:
        series, headline, by, label = _by_episode(folder, records)
    if (player := best_player(folder)) and headline == folder.headline:
        x = series[-1].x or range(1, len(series[-1].y) + 1)
        series.append(Series(player[0], [player[1]] * len(x), x=x, quiet=True))
    title = f"{headline[:1].upper()}{headline[1:]} by {by}"
    return line_chart(series, title=title, x_label=by, y_label=label)


def best_player(folder: RunFolder) -> tuple[str, float] | None:
    """The simple player that does best in the same episodes, and its headline."""
    record, headline = folder.summary(), folder.headline
    found = beside(Summary.from_record(record), folder)[1:] if record else []
    return next(((who, figures[headline].estimate) for who, figures in found if headline in figures), None)


_Curve = tuple[list[Series], str, str, str]  # of which figure, by what, and what the y axis shows


def _by_episode(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> _Curve:
    found = columns(records)
    headline = leading(found, folder.headline)
    if headline not in found:  # nobody has rated these sessions
        headline, found = "turns", {"turns": [float(record["turns"]) for record in records]}
    values, spec = found[headline], folder.about["spec"]
    series = [Series("each episode", values, quiet=True, joined=False)]
    if spec["memories"] and spec.get("memories_learn", True):
        span = max(1, min(10, len(values) // 4))
        series.append(Series(f"mean of {span}", _smoothed(values, span)))
    else:  # nothing is learned from one task for the next: what is later is not what is better
        mean = bootstrap(values)
        level = [[bound] * len(values) for bound in (mean.estimate, mean.low, mean.high)]
        series.append(Series("mean", level[0], low=level[1], high=level[2]))
    return series, headline, "episode", headline


def _by_round(headline: str, records: Sequence[Mapping[str, Any]]) -> _Curve:
    """Each episode is smoothed before the mean is taken, so the band is that of the drawn curve."""
    span = max(1, min(10, len(by_round(records)) // 4))
    smooth = []
    for record in records:
        numbers, values = ([pair[place] for pair in record["headline_by_round"]] for place in (0, 1))
        smooth.append({"headline_by_round": list(zip(numbers, _smoothed(values, span), strict=True))})
    rounds = by_round(smooth)
    series = Series(headline, [sum(some) / len(some) for some in rounds.values()], x=list(rounds))
    if len(records) > 1 and len(rounds) <= _BANDED:
        intervals = [bootstrap(some) for some in rounds.values()]
        series = replace(series, low=[each.low for each in intervals], high=[each.high for each in intervals])
    label = f"{headline}, mean of the last {counted(span, 'round')}, over {counted(len(records), 'episode')}"
    return [series], headline, "round", label


def _by_update(headline: str, stages: Mapping[int, Sequence[Mapping[str, Any]]]) -> _Curve:
    found = {number: intervals(records) for number, records in stages.items()}
    name = leading(set.intersection(*(set(figures) for figures in found.values())), headline)
    values = {number: figures[name] for number, figures in found.items() if name in figures}
    means, low, high = ([getattr(value, bound) for value in values.values()] for bound in ("estimate", "low", "high"))
    count = max((value.count for value in values.values()), default=0)
    label = f"{name}, mean and 95% interval of {count} held-out episodes"
    return [Series(name, means, x=list(values), low=low, high=high)], name, "update", label


def _smoothed(values: Sequence[float], span: int) -> list[float]:
    """The mean of each value and up to span - 1 values before it. Missing values are skipped."""
    smooth = []
    for place in range(len(values)):
        known = [value for value in values[max(0, place - span + 1) : place + 1] if not math.isnan(value)]
        smooth.append(sum(known) / len(known) if known else math.nan)
    return smooth


def timeline_picture(episode: Episode, *, title: str = "", unit: str = "") -> Canvas:
    """An episode in lanes: what was observed, what was done, what was in progress, and what was interrupted."""
    works, breaks = defaultdict[str, list[Span]](list), defaultdict[str, list[Mark]](list)
    running: dict[tuple[str, int], float] = {}
    known, done = [], []
    for event in episode.events:
        lane = f"{event.seat}: {event.name}" if event.seat else event.name
        if event.kind == "work":
            key, state = (lane, int(event.data["id"])), event.data["state"]
            if state in ("started", "resumed"):
                running[key] = event.time
                continue
            if (begun := running.pop(key, None)) is not None:
                works[lane].append(Span(begun, event.time, "thinking" if event.name == "think" else "work"))
            if state in ("interrupted", "cancelled"):
                how = "put aside" if state == "interrupted" else "broken off"
                breaks[lane].append(Mark(event.time, how, "interruption"))
        elif event.kind == "observation":
            known.append(Mark(event.time, lane.replace("_", " "), "observation"))
        elif event.kind in ("intervention", "reflex"):
            done.append(Mark(event.time, lane.replace("_", " "), "intervention"))
    for (lane, _), begun in running.items():
        works[lane].append(Span(begun, episode.ended))
    longest = sorted(works, key=lambda lane: -sum(span.end - span.start for span in works[lane]))[:_LANES]
    # In order of their start, so that causes are above effects.
    longest.sort(key=lambda lane: works[lane][0].start)
    lanes = [Lane("becomes known", marks=known), Lane("is done", marks=done)]
    lanes += [Lane(lane.replace("_", " "), spans=works[lane], marks=breaks[lane]) for lane in longest]
    label = f"time in {unit}" if unit else "time"
    return lanes_chart(lanes, title=title or f"Episode {episode.id}", time_label=label)


def write_episode_picture(folder: RunFolder, file: Path, wanted: str | None = None) -> Path:
    if file.suffix.lower() != ".svg":
        raise UsageError(f"can't draw into {file}", fix="use a file name that ends in .svg")
    ids = [str(record["episode"]) for record in folder.metrics()]
    if not ids:
        raise folder.without_episodes()
    if wanted is not None and wanted not in ids:
        raise UnknownNameError("episode", wanted, ids, fix=f"the first is {ids[0]}, the last {ids[-1]}")
    episode = next(one for one in folder.episodes() if one.id == (wanted or ids[0]))
    spec = folder.about["spec"]
    title = f"{spec['environment']['name']}, episode {episode.id}, {spec['interface'].replace('_', ' ')}"
    write_whole(file, timeline_picture(episode, title=title, unit=folder.time_unit).to_svg())
    return file


def transcript(episode: Episode) -> str:
    """The whole episode as text."""
    told: set[int] = set()
    parts = []
    for turn in episode.turns:
        for index in turn.shown:
            message = episode.messages[index]
            if index not in told and message.role != "assistant":
                parts.append(f"{message.role}\n  " + message.content.replace("\n", "\n  "))
            told.add(index)
        said = turn.text if turn.said is None else turn.said
        lines = [*said.splitlines(), *map(call_in_words, turn.calls)] or ["(nothing)"]
        ending = " (interrupted)" if turn.finish == "interrupted" else ""
        parts.append("\n".join([f"at {turn.ended:g}{ending}", *(f"> {line}" for line in lines)]))
        parts += [f"! {failure}" for failure in turn.failures]
        parts += decisions(episode, turn)
    return "\n\n".join(parts)


def call_in_words(call: Call) -> str:
    """A call with its arguments.

    >>> call_in_words(Call("decide", {"accept": "A", "ranking": ["A", "C"]}))
    'decide(accept="A", ranking=["A", "C"])'
    """
    arguments = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items()]
    return f"{call.name}({', '.join(arguments)})"
