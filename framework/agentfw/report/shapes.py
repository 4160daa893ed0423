"""The shapes that pictures are made of, as plain values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Anchor",
    "Circle",
    "Clip",
    "Drawing",
    "Group",
    "Line",
    "Point",
    "Polygon",
    "Rectangle",
    "Shape",
    "Text",
    "printable",
]

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]
Clip = tuple[float, float, float, float]
"""x, y, width and height of the visible part of a group."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through two or more points, with round ends and joins."""

    points: tuple[Point, ...]
    colour: str
    width: float
    dash: tuple[float, float] | None
    """Lengths of dashes and gaps, in pixels."""
    opacity: float


@dataclass(frozen=True, slots=True)
class Polygon:
    points: tuple[Point, ...]
    fill: str
    opacity: float
    stroke: str | None
    stroke_width: float


@dataclass(frozen=True, slots=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    fill: str | None
    radius: float
    opacity: float
    stroke: str | None
    stroke_width: float


@dataclass(frozen=True, slots=True)
class Circle:
    x: float
    y: float
    radius: float
    fill: str | None
    opacity: float
    """Opacity of the fill. At 0 nothing is visible, but an SVG still shows the title of its group on hover."""
    stroke: str | None
    stroke_width: float


@dataclass(frozen=True, slots=True)
class Text:
    x: float
    y: float
    """Position of the baseline."""
    text: str
    size: float
    weight: int
    anchor: Anchor
    colour: str
    rotation: float
    """Degrees clockwise about (x, y)."""
    halo: str | None
    """Colour around the letters that keeps them readable on top of lines."""


@dataclass(slots=True)
class Group:
    """A group of shapes that share a tooltip or a clipping rectangle."""

    title: str = ""
    clip: Clip | None = None
    shapes: list[Shape] = field(default_factory=list)


Shape = Line | Polygon | Rectangle | Circle | Text | Group


@dataclass(slots=True)
class Drawing:
    """All shapes of one picture, in drawing order."""

    width: float
    height: float
    background: str | None = None
    label: str = ""
    """Text for screen readers."""
    shapes: list[Shape] = field(default_factory=list)


def printable(text: str) -> str:
    """Replace what XML doesn't allow (control characters and lone surrogates) with U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
