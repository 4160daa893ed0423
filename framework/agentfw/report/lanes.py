"""Timeline charts with lanes: who worked when, what was observed and done, and what was interrupted.

Every event is drawn, however many there are. If there isn't enough room, names are omitted, and overlapping marks are
merged into one mark whose tooltip has the count.

    >>> user = Lane("postdoc", [Span(0, 45), Span(60, 90, "thinking")], [Mark(20, "chat", "interruption")])
    >>> agent = Lane("agent", marks=[Mark(18, "new mail", "observation"), Mark(20, "suggest a slot", "intervention")])
    >>> chart = lanes_chart([user, agent], title="Episode 3", time_label="minutes")
    >>> "suggest a slot" in chart.to_svg()
    True

The kinds are `work`, `thinking`, `observation`, `intervention` and `interruption`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentfw.report.axis import PADDING, SMALL, Axis, begin, ellipsis, make_axis, number_labels, text_width
from agentfw.report.canvas import AXIS, FAINT, GRID, MUTED, SERIES, SURFACE, Canvas

MARK_ROW, SPAN_ROW, LABEL_ROW, LANE_GAP = 20.0, 18.0, 17.0, 14.0
DEEPEST = 4  # rows for overlapping spans. Further ones share the last row, translucent

BLUE, VERMILLION, GREEN = SERIES[:3]
COLOURS = {"work": BLUE, "thinking": FAINT, "observation": MUTED, "intervention": GREEN, "interruption": VERMILLION}
"""The kinds, in the order of the legend."""
RANK = {"interruption": 0, "intervention": 1}
"""Kinds in the order in which their names are placed if there isn't room for all."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes time."""

    start: float
    end: float
    kind: str = "work"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happens at one time."""

    time: float
    label: str = ""
    kind: str = "observation"


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline: spans and marks, with its name beside them."""

    name: str
    spans: Sequence[Span] = ()
    marks: Sequence[Mark] = ()


class _Cluster(NamedTuple):
    """Marks of one kind on the same pixel."""

    x: float
    kind: str
    marks: list[Mark]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A lane with its rows computed."""

    name: str
    clusters: list[_Cluster]
    rows: list[list[Span]]
    labelled: bool

    @property
    def height(self) -> float:
        return max(MARK_ROW, self.marks_height + SPAN_ROW * len(self.rows)) + LANE_GAP

    @property
    def marks_height(self) -> float:
        return (MARK_ROW if self.clusters else 0) + (LABEL_ROW if self.labelled else 0)


@dataclass(frozen=True, slots=True)
class _Clock:
    """Times as positions and as text."""

    axis: Axis
    left: float
    width: float

    def x(self, time: float) -> float:
        return self.left + max(0.0, min(1.0, self.axis.share(time))) * self.width

    def say(self, time: float) -> str:
        # Three digits of the visible range are as precise as a pixel.
        resolution = 10.0 ** math.floor(math.log10((self.axis.high - self.axis.low) / 250))
        return number_labels([time], resolution=min(1.0, resolution))[0]


def lanes_chart(lanes: Sequence[Lane], *, title: str, time_label: str = "", width: float = 880) -> Canvas:
    """Draw one row per lane on a common time axis. The height depends on the contents of the lanes.

    The axis spans all events. Events without a finite time aren't drawn.
    """
    times = [mark.time for lane in lanes for mark in lane.marks]
    times += [time for lane in lanes for span in lane.spans for time in (span.start, span.end)]
    finite = [time for time in times if math.isfinite(time)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    # An axis that would start just above zero starts at zero.
    low = 0.0 if 0 < low < 0.05 * high else low
    gutter = max((text_width(lane.name, 13, 600) for lane in lanes), default=0) + 20
    gutter = min(gutter, 0.26 * width)
    left = PADDING + gutter
    axis = make_axis(low, high, target=max(2, int((width - left - PADDING) / 90)), exact=True)
    clock = _Clock(axis, left, width - left - PADDING)
    placed = [_place(lane, clock) for lane in lanes]
    legend, legend_height = _legend(placed, width)
    above = PADDING + 20 + (20 if time_label else 0) + legend_height
    bottom = above + sum(lane.height for lane in placed)
    canvas, top = begin(title, time_label, width, max(above + 60.0, bottom) + 28 + PADDING)
    if not legend:
        middle = canvas.height / 2 + 12
        canvas.text(width / 2, middle, "nothing happened", size=13, anchor="middle", colour=MUTED)
        return canvas
    for x, below, kind, spanning, label in legend:
        y = top + below
        if spanning:
            _draw_span(canvas, kind, x, x + 15, y - 6, 12)
        else:
            _draw_mark(canvas, kind, x + 7, y)
        canvas.text(x + 20, y + 4, label, size=12, colour=MUTED)
    for tick, label in zip(axis.ticks, axis.labels, strict=True):
        x = clock.x(tick)
        canvas.line([(x, above), (x, bottom)], colour=GRID)
        half = text_width(label, SMALL) / 2
        inside = max(PADDING + half, min(width - PADDING / 2 - half, x))
        canvas.text(inside, bottom + 18, label, size=SMALL, anchor="middle", colour=MUTED)
    top = above
    for lane in placed:
        canvas.line([(PADDING, top), (width - PADDING, top)], colour=GRID)
        _draw_lane(canvas, lane, clock, top, gutter)
        top += lane.height
    canvas.line([(PADDING, bottom), (width - PADDING, bottom)], colour=AXIS)
    return canvas


def _place(lane: Lane, clock: _Clock) -> _Placed:
    """The lane without what has no finite time. No two spans of a row overlap, as long as there are enough rows."""
    rows: list[list[Span]] = []
    known = [span for span in lane.spans if math.isfinite(span.start) and math.isfinite(span.end)]
    for span in sorted(known, key=lambda span: span.start):
        free = next((row for row in rows if row[-1].end <= span.start), None)
        if free is None and len(rows) < DEEPEST:
            rows.append([])
        (free or rows[-1]).append(Span(span.start, max(span.end, span.start), span.kind))
    marks = [mark for mark in lane.marks if clock.axis.low <= mark.time <= clock.axis.high]
    buckets: dict[tuple[int, str], list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: mark.time):
        buckets.setdefault((round(clock.x(mark.time)), mark.kind), []).append(mark)
    clusters = [_Cluster(clock.x(some[0].time), kind, some) for (_, kind), some in buckets.items()]
    # Interruptions are drawn above interventions, and both above everything else.
    clusters.sort(key=lambda cluster: (-RANK.get(cluster.kind, 2), cluster.x))
    return _Placed(lane.name, clusters, rows, any(mark.label for mark in marks))


_Entry = tuple[float, float, str, bool, str]
"""Where a kind stands in the legend, the kind, whether it takes time, and its label."""


def _legend(lanes: Sequence[_Placed], width: float) -> tuple[list[_Entry], float]:
    """The kinds that occur, and the height of all."""
    counts: Counter[tuple[str, bool]] = Counter()
    for lane in lanes:
        counts.update((span.kind, True) for row in lane.rows for span in row)
        counts.update((mark.kind, False) for cluster in lane.clusters for mark in cluster.marks)
    entries, x, y = list[_Entry](), PADDING, 10.0
    for (kind, spanning), count in sorted(counts.items(), key=lambda item: [*COLOURS].index(item[0][0])):
        label = f"{ellipsis(kind, width=140, size=12)} {count:,}"
        needed = 40 + text_width(label, 12)
        if entries and x + needed > width - PADDING:
            x, y = PADDING, y + 20
        entries.append((x, y, kind, spanning, label))
        x += needed
    return entries, y + 20 if entries else 0.0


def _draw_lane(canvas: Canvas, placed: _Placed, clock: _Clock, top: float, gutter: float) -> None:
    name = ellipsis(placed.name, width=gutter - 14, size=13, weight=600)
    canvas.text(PADDING, top + placed.height / 2 + 4.5, name, size=13, weight=600)
    y = top + LANE_GAP / 2
    for index, row in enumerate(placed.rows):
        spans_top = y + placed.marks_height + SPAN_ROW * index + 2
        for span in row:
            with canvas.group(title=f"{span.kind}, {clock.say(span.start)} to {clock.say(span.end)}"):
                _draw_span(canvas, span.kind, clock.x(span.start), clock.x(span.end), spans_top, SPAN_ROW - 4)
    if placed.labelled:
        # Names above their marks, the most important kinds first, then by time, where there is still room.
        taken, right = list[tuple[float, float]](), clock.left + clock.width
        for cluster in sorted(placed.clusters, key=lambda cluster: (RANK.get(cluster.kind, 2), cluster.x)):
            first_label = next((mark.label for mark in cluster.marks if mark.label), "")
            more = f", {len(cluster.marks) - 1} more" if len(cluster.marks) > 1 else ""
            label = ellipsis(first_label, width=170, size=SMALL) + more
            needed = text_width(label, SMALL)
            start = max(clock.left - 4, min(cluster.x - 5, right - needed))
            if first_label and not any(start < end + 12 and begin < start + needed + 12 for begin, end in taken):
                taken.append((start, start + needed))
                colour = COLOURS[cluster.kind] if cluster.kind in RANK else MUTED
                canvas.text(start, y + 12, label, size=SMALL, colour=colour)
        y += LABEL_ROW
    for cluster in placed.clusters:
        first, last = cluster.marks[0], cluster.marks[-1]
        title = f"{first.kind}{f' “{first.label}”' if first.label else ''}, {clock.say(first.time)}"
        if len(cluster.marks) > 1:
            title = f"{len(cluster.marks)} × {cluster.kind}, {clock.say(first.time)} to {clock.say(last.time)}"
        with canvas.group(title=title):
            busy = any(span.start <= first.time <= span.end for row in placed.rows for span in row)
            if cluster.kind == "interruption" and busy:
                # An interruption crosses the spans in progress.
                foot = y + MARK_ROW + SPAN_ROW * len(placed.rows) - 1
                canvas.line([(cluster.x, y + MARK_ROW / 2), (cluster.x, foot)], colour=VERMILLION, width=1.5)
            _draw_mark(canvas, cluster.kind, cluster.x, y + MARK_ROW / 2)


def _draw_span(canvas: Canvas, kind: str, start: float, end: float, top: float, height: float) -> None:
    if end - start < 5:
        width = max(1.5, end - start)
        canvas.draw("rect", x=start, y=top, width=width, height=height, rx=1.5, fill=COLOURS[kind], fill_opacity=0.5)
        return
    # A small gap on the right separates adjacent spans.
    width = end - start - 1
    canvas.draw("rect", x=start, y=top, width=width, height=height, rx=3, fill=COLOURS[kind], fill_opacity=0.22)
    canvas.draw("rect", x=start, y=top, width=2.5, height=height, rx=1, fill=COLOURS[kind])


def _draw_mark(canvas: Canvas, kind: str, x: float, y: float) -> None:
    colour = COLOURS[kind]
    if kind == "intervention":
        corners = [(x, y - 6.5), (x + 6.5, y), (x, y + 6.5), (x - 6.5, y)]
        canvas.polygon(corners, fill=colour, stroke=SURFACE, stroke_width=1.25)
    elif kind == "interruption":
        for stroke, width in ((SURFACE, 5.5), (colour, 2.5)):
            for lean in (-1, 1):
                canvas.line([(x - 4, y - 4 * lean), (x + 4, y + 4 * lean)], colour=stroke, width=width)
    else:
        canvas.draw("circle", cx=x, cy=y, r=4, fill=SURFACE, stroke=colour, stroke_width=1.75)
