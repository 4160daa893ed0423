"""Line charts, and small charts for a terminal that are made of block characters.

The data is the darkest element. Names are above the plot, the grid is thin, and the title is at the top left. A value
that isn't a finite number is a gap, not a zero.

    >>> curve = Series("tiny + strategyhub", [0.42, 0.31, 0.22], low=[0.38, 0.26, 0.18], high=[0.46, 0.36, 0.26])
    >>> chart = line_chart([curve], title="Error by round", x_label="round")
    >>> chart.to_svg().count("<polyline")
    1
    >>> bars([0.42, 0.21, 0.16, 0.11], width=8)
    '0.42 ▇▇▇▇▇▇▇▇   0.21 ▇▇▇▇   0.16 ▇▇▇   0.11 ▇▇'
    >>> sparkline([1, 2, 4, 8, 4])
    '▁▂▄█▄'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from agentfw.errors import UsageError
from agentfw.report.axis import PADDING, SMALL, Axis, begin, ellipsis, make_axis, number_labels, text_width
from agentfw.report.canvas import AXIS, FAINT, GRID, MUTED, SERIES, SURFACE, Canvas

HOVERED = 150  # points, in total, up to which each shows its value on hover
_DRAWN = 1000  # points of a line, about, that are drawn. The picture isn't wide enough for more
_MARKED = 12  # points up to which each is marked. A line between two points would otherwise look like many


@dataclass(frozen=True, slots=True)
class Series:
    """One line. `x` defaults to 1, 2, ... `low` and `high` are a band, such as a confidence interval."""

    name: str
    y: Sequence[float]
    x: Sequence[float] | None = None
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    quiet: bool = False
    """Whether it is a baseline, drawn in grey behind the other lines."""
    joined: bool = True
    """False where the order of the values means nothing: they are drawn as points."""

    def __post_init__(self) -> None:
        for name, values in (("x", self.x), ("low", self.low), ("high", self.high)):
            if values is not None and len(values) != len(self.y):
                raise UsageError(f'series "{self.name}" has {len(self.y)} y values and {len(values)} {name} values')


@dataclass(frozen=True, slots=True)
class _Plot:
    """The rectangle of the data, with its two axes."""

    left: float
    top: float
    width: float
    height: float
    across: Axis
    up: Axis

    def x(self, value: float) -> float:
        return self.left + self.across.share(value) * self.width

    def y(self, value: float) -> float:
        # Values far outside the axis are clamped near the plot: SVG viewers can't handle coordinates such as 1e300.
        return self.top + (1 - max(-9.0, min(10.0, self.up.share(value)))) * self.height


_Row = tuple[float, float, float, float]  # x, y, low and high. All but x can be NaN


class _Drawn(NamedTuple):
    """A series ready for drawing: its rows by x, and its last value."""

    series: Series
    rows: list[_Row]
    colour: str
    last: float


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    y_range: tuple[float, float] | None = None,
    width: float = 880,
    height: float = 360,
) -> Canvas:
    """Draw lines over a common x axis, with bands. The y axis includes zero if it is close."""
    canvas, top = begin(title, y_label, width, height)
    drawn = _prepare(series)
    points = [(x, y) for line in drawn for x, y, _, _ in line.rows if math.isfinite(y)]
    if not points:
        middle = (top + height - PADDING) / 2
        canvas.text(width / 2, middle, "nothing to show yet", size=13, anchor="middle", colour=MUTED)
        return canvas
    top = _legend(canvas, drawn, top)
    bottom = height - PADDING - 18 - (18 if x_label else 0)
    target = max(2, int((bottom - top) / 40))
    if y_range is not None:
        up = make_axis(*y_range, target=target, exact=True)
    else:
        values = [value for line in drawn for row in line.rows for value in row[1:] if math.isfinite(value)]
        low, high = min(values), max(values)
        if 0 < low < high * 0.5:
            low = 0.0
        elif low * 0.5 > high > low:
            high = 0.0
        up = make_axis(low, high, target=target)
    left = PADDING + max(text_width(label, SMALL) for label in up.labels) + 8
    xs = [x for x, _ in points]
    whole = all(x == int(x) for x in xs)
    across = make_axis(min(xs), max(xs), target=int((width - left - PADDING) / 80), exact=True, integral=whole)
    if len(across.ticks) < 2:
        across = make_axis(across.low, across.high, target=2, integral=whole)
    plot = _Plot(left, top + 10, width - left - PADDING, bottom - top - 10, across, up)
    _grid(canvas, plot, x_label)
    with canvas.group(clip=(plot.left - 6, plot.top - 6, plot.width + 12, plot.height + 12)):
        drawn.sort(key=lambda line: not line.series.quiet)
        for line in drawn:
            _band(canvas, plot, line)
        for line in drawn:
            _curve(canvas, plot, line, hovered=len(points) <= HOVERED)
    return canvas


def _prepare(series: Sequence[Series]) -> list[_Drawn]:
    drawn, coloured = list[_Drawn](), 0
    for one in series:
        missing = [math.nan] * len(one.y)
        across = one.x if one.x is not None else range(1, len(one.y) + 1)
        low, high = (missing if bound is None else bound for bound in (one.low, one.high))
        columns = (map(float, column) for column in (across, one.y, low, high))
        rows = sorted((row for row in zip(*columns, strict=True) if math.isfinite(row[0])), key=lambda row: row[0])
        if known := [place for place, row in enumerate(rows) if math.isfinite(row[1])]:
            colour = FAINT if one.quiet else SERIES[coloured % len(SERIES)]
            coloured += not one.quiet
            # Every so manyth, the last among them. Gaps stay.
            left_out = set(known) - set(known[:: -(1 + len(known) // _DRAWN)])
            kept = [row for place, row in enumerate(rows) if place not in left_out]
            drawn.append(_Drawn(one, kept, colour, rows[known[-1]][1]))
    return drawn


def _grid(canvas: Canvas, plot: _Plot, x_label: str) -> None:
    right, bottom = plot.left + plot.width, plot.top + plot.height
    for value, label in zip(plot.up.ticks, plot.up.labels, strict=True):
        y = plot.y(value)
        canvas.line([(plot.left, y), (right, y)], colour=AXIS if value == 0 else GRID)
        canvas.text(plot.left - 8, y + 4, label, size=SMALL, anchor="end", colour=MUTED)
    if plot.up.ticks and plot.up.ticks[0] != 0:
        canvas.line([(plot.left, bottom), (right, bottom)], colour=AXIS)
    for value, label in zip(plot.across.ticks, plot.across.labels, strict=True):
        canvas.line([(plot.x(value), bottom), (plot.x(value), bottom + 4)], colour=AXIS)
        canvas.text(plot.x(value), bottom + 18, label, size=SMALL, anchor="middle", colour=MUTED)
    canvas.text(right, bottom + 37, x_label, size=12, anchor="end", colour=MUTED)


def _band(canvas: Canvas, plot: _Plot, line: _Drawn) -> None:
    for run in _runs([row for row in line.rows if line.series.low is not None], (2, 3)):
        lower = [(plot.x(x), plot.y(low)) for x, _, low, _ in run]
        upper = [(plot.x(x), plot.y(high)) for x, _, _, high in run]
        if len(run) == 1:
            canvas.line([lower[0], upper[0]], colour=line.colour, width=3, opacity=0.3)
        canvas.polygon([*upper, *reversed(lower)], fill=line.colour, fill_opacity=0.14)


def _curve(canvas: Canvas, plot: _Plot, line: _Drawn, *, hovered: bool) -> None:
    for run in _runs(line.rows, (1,)):
        path = [(plot.x(x), plot.y(y)) for x, y, _, _ in run]
        if line.series.joined:
            canvas.line(path, colour=line.colour, width=1.5 if line.series.quiet else 2.25)
        if len(path) <= _MARKED or not line.series.joined:
            for x, y in path:
                canvas.draw("circle", cx=x, cy=y, r=2.5, fill=line.colour)
    known = [row for row in line.rows if math.isfinite(row[1])]
    x, y = plot.x(known[-1][0]), plot.y(known[-1][1])
    canvas.draw("circle", cx=x, cy=y, r=3.75, fill=line.colour, stroke=SURFACE, stroke_width=1.5)
    if hovered:
        for row in known:
            bounds = number_labels([row[1], *[bound for bound in row[2:] if math.isfinite(bound)]])
            interval = f" ({bounds[1]} to {bounds[2]})" if len(bounds) == 3 else ""
            place = number_labels([row[0]])[0]
            with canvas.group(title=f"{line.series.name}, {place}: {bounds[0]}{interval}"):
                # Nothing to see, but the title is shown on hover.
                canvas.draw("circle", cx=plot.x(row[0]), cy=plot.y(row[1]), r=7, fill=line.colour, fill_opacity=0)


def _runs(rows: Sequence[_Row], columns: Sequence[int]) -> list[list[_Row]]:
    """The segments between gaps: rows in which all of the columns are known."""
    by_known = groupby(rows, key=lambda row: all(math.isfinite(row[column]) for column in columns))
    return [list(run) for known, run in by_known if known]


def _legend(canvas: Canvas, drawn: Sequence[_Drawn], top: float) -> float:
    """Names above the plot, each with the last value. Returns the new top of the plot."""
    x, y = PADDING, top + 14
    for line, value in zip(drawn, number_labels([line.last for line in drawn]), strict=True):
        label = " · ".join(filter(None, (ellipsis(line.series.name, width=160, size=12), value)))
        label = ellipsis(label, width=canvas.width - 2 * PADDING - 24, size=12)
        needed = 22 + text_width(label, 12) + 18
        if x > PADDING and x + needed - 18 > canvas.width - PADDING:
            x, y = PADDING, y + 18
        canvas.line([(x, y - 4), (x + 14, y - 4)], colour=line.colour, width=3)
        canvas.text(x + 22, y, label, size=12, colour=MUTED if line.series.quiet else line.colour)
        x += needed
    return y + 8


_BLOCK, _STEPS = "▇", "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float], width: int = 8) -> str:
    """Draw each value with a bar behind it. The largest has `width` blocks, and any value above zero at least one.

    A value that is negative or was not measured has no bar.
    """
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    parts = []
    for value in values:
        known = math.isfinite(value)
        blocks = max(1, round(value / largest * width)) if known and value > 0 else 0
        parts.append(f"{f'{value:.2f}' if known else '–'} {_BLOCK * blocks}".rstrip())
    return "   ".join(parts)


def sparkline(values: Sequence[float], width: int | None = None) -> str:
    """Draw one block per value, lowest to highest, with gaps for missing values. More than `width` are averaged."""
    if width is not None and 0 < width < len(values):
        edges = [index * len(values) // width for index in range(width + 1)]
        parts = ([value for value in values[start:end] if math.isfinite(value)] for start, end in pairwise(edges))
        values = [sum(part) / len(part) if part else math.nan for part in parts]
    finite = [value for value in values if math.isfinite(value)]
    low, top = min(finite, default=0.0), len(_STEPS) - 1
    span = max(finite, default=0.0) - low
    return "".join(
        " " if not math.isfinite(value) else _STEPS[round((value - low) / span * top) if span else top // 2]
        for value in values
    )
