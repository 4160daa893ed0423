"""The drawing surface of reports: collects shapes and writes them as SVG or PNG.

A canvas only records what is drawn, in pixels from the top left, so the same calls give the same bytes. It rejects
numbers that aren't finite, because they would make the file unreadable.

    >>> canvas = Canvas(120, 40)
    >>> with canvas.group(title="an hour & a half"):
    ...     canvas.rectangle(10, 10, 90, 20, fill="#2468a8", radius=4)
    >>> canvas.text(10, 38, "10:00", size=9)
    >>> "an hour &amp; a half" in canvas.to_svg()
    True
    >>> canvas.to_png(scale=2)[1:4]
    b'PNG'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agentfw.report.palette import INK, SURFACE
from agentfw.report.raster import render_png
from agentfw.report.shapes import (
    Anchor,
    Circle,
    Clip,
    Drawing,
    Group,
    Line,
    Point,
    Polygon,
    Rectangle,
    Shape,
    Text,
    printable,
)
from agentfw.report.vector import render_svg

__all__ = ["Canvas"]


class Canvas(Drawing):
    """A picture of `width` by `height` pixels. `label` is its text for screen readers."""

    def __init__(self, width: float, height: float, background: str | None = SURFACE, *, label: str = "") -> None:
        _finite(width, height)
        if width <= 0 or height <= 0:
            raise ValueError(f"a canvas needs a width and a height, not {width} by {height}")
        super().__init__(width, height, background, label)
        self._open: list[list[Shape]] = [self.shapes]

    def line(
        self,
        points: Iterable[Point],
        *,
        colour: str = INK,
        width: float = 1,
        dash: tuple[float, float] | None = None,
        opacity: float = 1,
    ) -> None:
        placed = _points(points)
        if dash and min(dash) <= 0:
            raise ValueError(f"a dash has a length and a gap above 0, not {dash}")
        if len(placed) >= 2:
            self._add(Line(placed, colour, width, dash, opacity))

    def polygon(
        self,
        points: Iterable[Point],
        *,
        fill: str = INK,
        opacity: float = 1,
        stroke: str | None = None,
        stroke_width: float = 1,
    ) -> None:
        placed = _points(points)
        if len(placed) >= 3:
            self._add(Polygon(placed, fill, opacity, stroke, stroke_width))

    def rectangle(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str | None = INK,
        radius: float = 0,
        opacity: float = 1,
        stroke: str | None = None,
        stroke_width: float = 1,
    ) -> None:
        _finite(x, y, width, height)
        radius = max(0.0, min(radius, width / 2, height / 2))
        self._add(Rectangle(x, y, max(width, 0), max(height, 0), fill, radius, opacity, stroke, stroke_width))

    def circle(
        self,
        x: float,
        y: float,
        radius: float,
        *,
        fill: str | None = INK,
        opacity: float = 1,
        stroke: str | None = None,
        stroke_width: float = 1,
    ) -> None:
        _finite(x, y, radius)
        self._add(Circle(x, y, radius, fill, opacity, stroke, stroke_width))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        weight: int = 400,
        anchor: Anchor = "start",
        colour: str = INK,
        rotation: float = 0,
        halo: str | None = None,
    ) -> None:
        """Draw one line of text with its baseline at `y`. Line breaks become spaces."""
        _finite(x, y, size, rotation)
        line = " ".join(printable(text).split())
        if line:
            self._add(Text(x, y, line, size, weight, anchor, colour, rotation, halo))

    @contextmanager
    def group(self, *, title: str = "", clip: Clip | None = None) -> Iterator[None]:
        """Group the shapes drawn inside: they share a tooltip (SVG only) or are clipped to the rectangle `clip`."""
        if clip is not None:
            _finite(*clip)
        group = Group(printable(title), clip)
        self._add(group)
        self._open.append(group.shapes)
        try:
            yield
        finally:
            self._open.pop()

    def to_svg(self, *, standalone: bool = True) -> str:
        """The picture as SVG. Use `standalone=False` inside an HTML page to omit the XML namespace."""
        return render_svg(self, standalone=standalone)

    def to_png(self, scale: float = 2) -> bytes:
        """The picture as PNG, `scale` times the size of the canvas (2 is sharp on high-resolution screens)."""
        return render_png(self, scale=scale)

    def _add(self, shape: Shape) -> None:
        self._open[-1].append(shape)


def _points(points: Iterable[Point]) -> tuple[Point, ...]:
    placed = tuple((float(x), float(y)) for x, y in points)
    for point in placed:
        _finite(*point)
    return placed


def _finite(*numbers: float) -> None:
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"a canvas needs finite numbers, not {numbers}")
