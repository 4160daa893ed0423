"""Horizontal bar charts with intervals, for `compare`.

Bars always start at zero, because a cut axis would exaggerate small differences.

    >>> bars = [Bar("tiny + strategyhub", 0.21, 0.19, 0.23), Bar("random", 0.52, quiet=True)]
    >>> bar_chart(bars, title="Error over the last 25 rounds").to_svg().startswith("<svg")
    True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentfw.report.axis import ellipsis, exact_axis, number_labels, text_width
from agentfw.report.canvas import Canvas
from agentfw.report.frame import PADDING, SMALL, Plot, begin, nothing
from agentfw.report.palette import AXIS, FAINT, GRID, INK, MUTED, SERIES, SURFACE

__all__ = ["Bar", "bar_chart"]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar from zero to the value. `low` and `high` are its interval."""

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan
    colour: str | None = None
    quiet: bool = False


def bar_chart(
    bars: Sequence[Bar], *, title: str, x_label: str = "", decimals: int | None = None, width: float = 880
) -> Canvas:
    """Draw bars in the given order, with intervals and values. The height depends on their number."""
    narrow = width < 560
    pitch = 46.0 if narrow else 34.0
    height = PADDING + 40 + max(2, len(bars)) * pitch + 24 + (PADDING if bars else 12)
    canvas, top = begin(title, x_label, width, height)
    known = [value for bar in bars for value in (bar.value, bar.low, bar.high) if math.isfinite(value)]
    if not known:
        nothing(canvas, top)
        return canvas
    across = exact_axis(min(0.0, *known), max(0.0, *known), target=max(2, int((width - 200) / 130)))
    texts = _bar_values(bars, decimals)
    name_room = 0.0 if narrow else min(0.34 * width, max(text_width(bar.label, 13) for bar in bars) + 16)
    value_room = max(text_width(text, 12.5, 600) for text in texts) + 14
    negative = any(bar.value < 0 for bar in bars)
    left = PADDING + name_room + (value_room if negative else 0)
    top += 12
    plot = Plot(left, top, width - PADDING - value_room - left, len(bars) * pitch, across, across)
    bottom = top + plot.height
    for value, label in zip(across.ticks, across.labels, strict=True):
        x = plot.x(value)
        canvas.line([(x, top), (x, bottom)], colour=AXIS if value == 0 else GRID)
        canvas.text(x, bottom + 18, label, size=SMALL, anchor="middle", colour=MUTED)
    for index, (bar, text) in enumerate(zip(bars, texts, strict=True)):
        _bar(canvas, plot, bar, text, top + index * pitch, pitch, narrow=narrow)
    return canvas


def _bar_values(bars: Sequence[Bar], decimals: int | None) -> list[str]:
    return number_labels([bar.value for bar in bars], resolution=None if decimals is None else 10.0**-decimals)


def _bar(canvas: Canvas, plot: Plot, bar: Bar, text: str, top: float, pitch: float, *, narrow: bool) -> None:
    thick = 16.0 if narrow else 18.0
    middle = top + (pitch - thick / 2 - 5 if narrow else pitch / 2)
    if narrow:
        label = ellipsis(bar.label, width=canvas.width - 2 * PADDING, size=12.5)
        canvas.text(PADDING, middle - thick / 2 - 6, label, size=12.5, halo=SURFACE)
    else:
        label = ellipsis(bar.label, width=0.34 * canvas.width - 16, size=13)
        canvas.text(PADDING, middle + 4.5, label, size=13)
    if not math.isfinite(bar.value):
        canvas.text(plot.x(0) + 8, middle + 4.5, "not measured", size=12, colour=MUTED)
        return
    zero, end = plot.x(0), plot.x(bar.value)
    colour = bar.colour or (FAINT if bar.quiet else SERIES[0])
    reach = end
    measured = math.isfinite(bar.low) and math.isfinite(bar.high)
    interval = f" ({' to '.join(number_labels([bar.low, bar.high]))})" if measured else ""
    with canvas.group(title=f"{bar.label}: {text}{interval}"):
        canvas.rectangle(
            min(zero, end), middle - thick / 2, max(abs(end - zero), 1), thick, fill=colour, radius=3, opacity=0.88
        )
        if measured:
            low, high = plot.x(bar.low), plot.x(bar.high)
            reach = min(low, end) if bar.value < 0 else max(high, end)
            canvas.line([(low, middle), (high, middle)], colour=INK, width=1.5)
            for x in (low, high):
                canvas.line([(x, middle - 4), (x, middle + 4)], colour=INK, width=1.5)
    side = -1 if bar.value < 0 else 1
    canvas.text(
        reach + side * 8,
        middle + 4.5,
        text,
        size=12.5,
        weight=600,
        anchor="end" if side < 0 else "start",
        colour=MUTED if bar.quiet else INK,
        halo=SURFACE,
    )
