"""The drawing surface of charts, which writes SVG, and the colours of all pictures and pages.

It rejects numbers that aren't finite, because they would make the file unreadable. It writes no ids, style attributes
or links. So many pictures can be in one page without conflicts, under a policy that forbids inline styles, and the page
can recolour them for dark mode by matching `fill` and `stroke`.

    >>> canvas = Canvas(120, 40)
    >>> with canvas.group(title="an hour & a half"):
    ...     canvas.draw("rect", x=10, y=10, width=90, height=20, rx=4, fill="#2468a8")
    >>> '<title>an hour &amp; a half</title>' in canvas.to_svg()
    True
    >>> '<rect x="10" y="10" width="90" height="20" rx="4" fill="#2468a8"/>' in canvas.to_svg()
    True

The series colours are those of Okabe and Ito, darkened until they are readable as text on a card (contrast 4.5 to 1),
with two others, found by search, for orange and sky blue, which colour-blind readers would then confuse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Literal

INK = "#1f2a36"
MUTED = "#626e7b"
FAINT = "#98a3af"
AXIS = "#c3cad2"
GRID = "#e9ecf0"
SURFACE = "#ffffff"

SERIES = (
    "#2468a8",  # blue
    "#c4531d",  # vermillion
    "#12836a",  # bluish green
    "#a4528a",  # reddish purple
    "#5c4414",  # umber, for orange
    "#7b3fd0",  # violet, for sky blue
)

DARK = {
    INK: "#e7ebf0",
    MUTED: "#9ba7b4",
    FAINT: "#6f7b88",
    AXIS: "#46515c",
    GRID: "#282f37",
    SURFACE: "#171c22",
    "#2468a8": "#6cb0ec",
    "#c4531d": "#f08c58",
    "#12836a": "#43c9a2",
    "#a4528a": "#e08fc4",
    "#5c4414": "#eadb8a",
    "#7b3fd0": "#8f7bf0",
}
"""What replaces each colour in dark mode. Charts are drawn in light colours, and a page's style sheet changes them."""

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

Point = tuple[float, float]
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Replace what XML doesn't allow (control characters and lone surrogates) with U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


class Canvas:
    """A picture of `width` by `height` pixels. `label` is its text for screen readers."""

    def __init__(self, width: float, height: float, *, label: str = "") -> None:
        self.width, self.height, self.label = width, height, label
        self._parts: list[str] = []

    def draw(self, tag: str, content: str = "", /, **values: str | float | None) -> None:
        """Draw an element of SVG with these attributes, such as `fill_opacity`. Those that are None are left out."""
        opening = f"<{tag}{_attributes(values)}"
        self._parts.append(f"{opening}>{content}</{tag}>" if content else f"{opening}/>")

    def line(
        self, points: Iterable[Point], *, colour: str = INK, width: float = 1, opacity: float | None = None
    ) -> None:
        """Draw a line through two or more points, with round ends and joins."""
        placed = list(points)
        if len(placed) == 2:
            (x1, y1), (x2, y2) = placed
            self.draw("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width, stroke_opacity=opacity)
        elif len(placed) > 2:
            self.draw("polyline", points=_path(placed), fill="none", stroke=colour, stroke_width=width)

    def polygon(self, points: Iterable[Point], **values: str | float | None) -> None:
        """Draw the area between three or more points."""
        placed = list(points)
        if len(placed) > 2:
            self.draw("polygon", points=_path(placed), **values)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        weight: int | None = None,
        anchor: Literal["middle", "end"] | None = None,
        colour: str = INK,
    ) -> None:
        """Draw one line of text with its baseline at `y`."""
        if line := escape(" ".join(printable(text).split()), quote=False):
            self.draw("text", line, x=x, y=y, font_size=size, font_weight=weight, text_anchor=anchor, fill=colour)

    @contextmanager
    def group(self, *, title: str = "", clip: tuple[float, float, float, float] | None = None) -> Iterator[None]:
        """Group what is drawn inside: it shares a tooltip, or is clipped to a rectangle (x, y, width and height)."""
        outside, self._parts = self._parts, []
        try:
            yield
        finally:
            inside, self._parts = self._parts, outside
        body = "\n".join([f"<title>{escape(printable(title), quote=False)}</title>" if title else "", *inside])
        if inside and clip is not None:
            # A nested svg clips to its own rectangle without an id, which could conflict with another picture's.
            x, y, width, height = map(_number, clip)
            view = f"{x} {y} {width} {height}"
            self.draw("svg", body, x=x, y=y, width=width, height=height, viewBox=view, overflow="hidden")
        elif inside:
            self.draw("g", body)

    def to_svg(self, *, standalone: bool = True) -> str:
        """The picture as SVG. Use `standalone=False` inside an HTML page to omit the XML namespace."""
        width, height = _number(self.width), _number(self.height)
        heads = {
            "xmlns": "http://www.w3.org/2000/svg" if standalone else None,
            "width": width,
            "height": height,
            "viewBox": f"0 0 {width} {height}",
            "role": "img" if self.label else None,
            "aria-label": self.label or None,
            "font-family": FONTS,
            "stroke-linecap": "round",
            "stroke-linejoin": "round",
        }
        surface = f'<rect width="{width}" height="{height}" fill="{SURFACE}"/>'
        return "\n".join([f"<svg{_attributes(heads)}>", surface, *self._parts, "</svg>\n"])


def _attributes(values: Mapping[str, str | float | None]) -> str:
    return "".join(
        f' {name.replace("_", "-")}="{escape(printable(value)) if isinstance(value, str) else _number(value)}"'
        for name, value in values.items()
        if value is not None
    )


def _path(points: Iterable[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    """Format with two decimals, a fiftieth of a pixel. More would only make the file larger."""
    if not math.isfinite(value):
        raise ValueError(f"a canvas needs finite numbers, not {value}")
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
