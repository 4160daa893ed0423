"""Charts of a run: the curve of its headline metric, the timeline of an episode, and the updates of a training.

    curve(folder).to_svg()
    timeline_picture(episode).to_svg()

The metrics of updates come from rollouts, while the policy changes. Evaluations show how good the policy is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...episode import Episode
from ...errors import UnknownNameError, UsageError
from ...report import Canvas, Lane, Mark, Series, Span, lanes_chart, line_chart, short
from ...report.html import Cell, Number
from ...report.statistics import bootstrap
from ..records.figure_table import CHARTS, UPDATE_FIGURES
from ..records.folder import RunFolder
from ..records.journal import write_whole
from ..records.summary import by_round, columns, flat, intervals, leading

_PHASES = {
    "play": "playing",
    "learn": "learning",
    "publish": "publishing",
    "evaluate": "evaluating",
    "wait": "waiting for rollouts",
}


def update_charts(lines: Sequence[Mapping[str, Any]], widths: tuple[float, float]) -> Iterator[tuple[Canvas, Canvas]]:
    """Each chart in two widths."""
    rows = [flat(line) for line in lines]
    updates = [float(line["update"]) for line in lines]
    for title, label in CHARTS.items():
        series = [
            Series(figure.line, [row.get(name, math.nan) for row in rows], x=updates)
            for name, figure in UPDATE_FIGURES.items()
            if figure.chart == title and any(name in row for row in rows)
        ]
        if series and len(lines) > 1:
            wide, narrow = (
                line_chart(series, title=title, x_label="update", y_label=label, width=width, height=260)
                for width in widths
            )
            yield wide, narrow


def phases_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """Where the time went: the headings and rows of a table of all updates' seconds by phase."""
    rows = [flat(line) for line in lines]
    phases = [name for name in _PHASES if name != "wait" or any("seconds/wait" in row for row in rows)]
    seconds = {name: sum(row.get(f"seconds/{name}", 0.0) for row in rows) for name in phases}
    whole = sum(seconds.values()) or 1.0
    return ["phase", "seconds", "share"], [
        [_PHASES[name], short(value), Number(value, f"{value / whole:.0%}")] for name, value in seconds.items()
    ]


def clipping_note(lines: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where every update had a single step, in which no clipping setting has an effect."""
    known = [line["learner"]["on_policy"] for line in lines if "on_policy" in line["learner"]]
    return "On policy: no clipping took part." if known and all(known) else ""


def updates_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """The headings and rows of the table of updates."""
    rows = [flat(line) for line in lines]
    known = [one for name, one in UPDATE_FIGURES.items() if one.listed and any(name in row for row in rows)]
    return ["update", "version", *(one.title for one in known)], [
        [int(line["update"]), str(line["version"]), *(short(row.get(one.name, math.nan)) for one in known)]
        for line, row in zip(lines, rows, strict=True)
    ]


_BANDED = 300
"""Maximum number of rounds with an interval each. Resampling thousands would take longer than the run."""
_LANES = 8
"""Maximum number of kinds of work with their own lane: those that took longest."""


def curve(folder: RunFolder, *, width: float = 880) -> Canvas:
    """The headline metric by update in a training, by round if there are rounds, else by episode."""
    stages = folder.stages()
    if folder.planned_updates and stages:
        return _curve_by_update(folder.headline, stages, width)
    records = folder.metrics()
    headline, rounds = leading(columns(records), folder.headline), by_round(records)
    if rounds:
        return _curve_by_round(folder.headline, records, len(rounds), width)
    found = columns(records)
    if headline not in found:  # nobody has rated these sessions
        headline, found = "turns", {"turns": [float(record["turns"]) for record in records]}
    values = found[headline]
    span = max(1, min(10, len(values) // 4))
    series = [Series("each episode", values, quiet=True)] if span > 1 else []
    series.append(Series(f"mean of {span}" if span > 1 else headline, _smoothed(values, span)))
    title = f"{headline[:1].upper()}{headline[1:]} by episode"
    return line_chart(series, title=title, x_label="episode", y_label=headline, width=width)


def _curve_by_round(headline: str, records: Sequence[Mapping[str, Any]], count: int, width: float) -> Canvas:
    """Each episode is smoothed before the mean is taken, so the band is that of the drawn curve."""
    span = max(1, min(10, count // 4))
    smooth = []
    for record in records:
        played = record["headline_by_round"]
        values = _smoothed([value for _, value in played], span)
        smooth.append(
            {"headline_by_round": [(number, value) for (number, _), value in zip(played, values, strict=True)]}
        )
    rounds = by_round(smooth)
    means = [sum(some) / len(some) for some in rounds.values()]
    series = Series(headline, means, x=list(rounds))
    if len(records) > 1 and len(rounds) <= _BANDED:
        intervals = [bootstrap(some) for some in rounds.values()]
        low, high = [each.low for each in intervals], [each.high for each in intervals]
        series = Series(headline, means, x=list(rounds), low=low, high=high)
    title = f"{headline[:1].upper()}{headline[1:]} by round"
    below = f"{headline}, mean of the last {span} rounds" if span > 1 else headline
    if len(records) > 1:
        below += f", over {len(records)} episodes"
    return line_chart([series], title=title, x_label="round", y_label=below, width=width)


def _curve_by_update(headline: str, stages: Mapping[int, Sequence[Mapping[str, Any]]], width: float) -> Canvas:
    found = {number: intervals(records) for number, records in stages.items()}
    name = leading(set.intersection(*(set(figures) for figures in found.values())), headline)
    values = [figures[name] for figures in found.values()]
    series = Series(
        name,
        [value.estimate for value in values],
        x=list(found),
        low=[value.low for value in values],
        high=[value.high for value in values],
    )
    title = f"{name[:1].upper()}{name[1:]} by update"
    below = f"{name}, mean and 95% interval of {values[0].count} held-out episodes"
    return line_chart([series], title=title, x_label="updates", y_label=below, width=width)


def _smoothed(values: Sequence[float], span: int) -> list[float]:
    """The mean of each value and up to span - 1 values before it. Missing values are skipped."""
    smooth = []
    for place in range(len(values)):
        known = [value for value in values[max(0, place - span + 1) : place + 1] if not math.isnan(value)]
        smooth.append(sum(known) / len(known) if known else math.nan)
    return smooth


def timeline_picture(episode: Episode, *, title: str = "", width: float = 880) -> Canvas:
    """An episode in lanes: what was observed, what was done, what was in progress, and what was interrupted."""
    works: dict[str, list[Span]] = {}
    breaks: dict[str, list[Mark]] = {}
    running: dict[tuple[str, int], float] = {}
    known, done = [], []
    for event in episode.events:
        lane = f"{event.seat}: {event.name}" if event.seat else event.name
        if event.kind == "work":
            key = (lane, int(event.data["id"]))
            if event.data["state"] in ("started", "resumed"):
                running[key] = event.time
                continue
            begun = running.pop(key, None)
            if begun is not None:
                kind = "thinking" if event.name == "think" else "work"
                works.setdefault(lane, []).append(Span(begun, event.time, "", kind))
            if event.data["state"] in ("interrupted", "cancelled"):
                how = "put aside" if event.data["state"] == "interrupted" else "broken off"
                breaks.setdefault(lane, []).append(Mark(event.time, how, "interruption"))
        elif event.kind == "observation":
            known.append(Mark(event.time, lane.replace("_", " "), "observation"))
        elif event.kind in ("intervention", "reflex"):
            done.append(Mark(event.time, lane.replace("_", " "), "intervention"))
    for (lane, _), begun in running.items():
        works.setdefault(lane, []).append(Span(begun, episode.ended, "", "work"))
    longest = sorted(works, key=lambda lane: -sum((span.end or 0) - span.start for span in works[lane]))[:_LANES]
    # In order of their start, so that causes are above effects.
    longest.sort(key=lambda lane: works[lane][0].start)
    lanes = [Lane("becomes known", marks=known), Lane("is done", marks=done)]
    lanes += [Lane(lane.replace("_", " "), spans=works[lane], marks=breaks.get(lane, [])) for lane in longest]
    return lanes_chart(lanes, title=title or f"Episode {episode.id}", time_label="time", width=width)


def write_episode_picture(folder: RunFolder, file: Path, wanted: str | None = None) -> Path:
    """Draw the timeline of one episode as SVG. Default: the first episode."""
    if file.suffix.lower() != ".svg":
        raise UsageError(f"can't draw into {file}", fix="use a file name that ends in .svg")
    ids = [str(record["episode"]) for record in folder.metrics()]
    if not ids:
        raise UsageError(f"{folder.id} has no finished episode yet", fix=f"agentfw runs resume {folder.id}")
    if wanted is not None and wanted not in ids:
        raise UnknownNameError("episode", wanted, ids, fix=f"the first is {ids[0]}, the last {ids[-1]}")
    episode = next(one for one in folder.episodes() if one.id == (wanted or ids[0]))
    spec = folder.about["spec"]
    title = f"{spec['environment']['name']}, episode {episode.id}, {spec['interface'].replace('_', ' ')}"
    write_whole(file, timeline_picture(episode, title=title).to_svg())
    return file
