"""The common parts of charts: margins, the title, and the plot rectangle.

Everything that isn't data is drawn in muted colours, at the same place in every chart.

    >>> from agentfw.report.axis import nice_axis
    >>> canvas, top = begin("Error by round", "action error rate", 400, 200)
    >>> Plot(40, top, 340, 100, nice_axis(0, 10, target=5), nice_axis(0, 1, target=5)).x(5)
    210.0
"""

from __future__ import annotations

from dataclasses import dataclass

from agentfw.report.axis import Axis, ellipsis
from agentfw.report.canvas import Canvas
from agentfw.report.palette import MUTED

__all__ = ["PADDING", "SMALL", "Plot", "begin", "nothing"]

PADDING = 24.0
SMALL, TITLE = 11.5, 15.0
"""Font sizes of ticks and notes, and of the title."""


@dataclass(frozen=True, slots=True)
class Plot:
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


def begin(title: str, subtitle: str, width: float, height: float) -> tuple[Canvas, float]:
    """Start a canvas with a title and a muted subtitle. Returns the top of the remaining area."""
    canvas = Canvas(width, height, label=title)
    room = width - 2 * PADDING
    canvas.text(PADDING, PADDING + 12, ellipsis(title, width=room, size=TITLE, weight=600), size=TITLE, weight=600)
    top = PADDING + 20
    if subtitle:
        canvas.text(PADDING, top + 12, ellipsis(subtitle, width=room, size=12), size=12, colour=MUTED)
        top += 20
    return canvas, top


def nothing(canvas: Canvas, top: float) -> None:
    """The message of a chart without data, in the middle."""
    middle = (canvas.width / 2, (top + canvas.height - PADDING) / 2)
    canvas.text(*middle, "nothing to show yet", size=13, anchor="middle", colour=MUTED)
