"""The SVG writer: converts the shapes of a picture to text.

It writes no ids, style attributes or links. So many pictures can be in one page without conflicts, under a policy that
forbids inline styles, and the page can recolour them for dark mode by matching `fill` and `stroke`.

    >>> from agentfw.report.canvas import Canvas
    >>> canvas = Canvas(20, 10, background=None)
    >>> canvas.circle(5, 5, 2.50001, fill="#2468a8")
    >>> '<circle cx="5" cy="5" r="2.5" fill="#2468a8"/>' in render_svg(canvas)
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentfw.report.shapes import Circle, Drawing, Group, Line, Point, Polygon, Rectangle, Shape, Text, printable

__all__ = ["FONTS", "render_svg"]

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def render_svg(canvas: Drawing, *, standalone: bool = True) -> str:
    width, height = _number(canvas.width), _number(canvas.height)
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    spoken = f' role="img" aria-label="{_quoted(canvas.label)}"' if canvas.label else ""
    parts = [
        f'<svg{namespace} width="{width}" height="{height}" viewBox="0 0 {width} {height}"{spoken}'
        f' font-family="{_quoted(FONTS)}" stroke-linecap="round" stroke-linejoin="round">'
    ]
    if canvas.background:
        parts.append(f'<rect width="{width}" height="{height}" fill="{_quoted(canvas.background)}"/>')
    _write(canvas.shapes, parts, "")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _write(shapes: Sequence[Shape], parts: list[str], title: str) -> None:
    """Append the shapes. A `title` goes into the first one, which is the only one or the enclosing group."""
    for shape in shapes:
        if isinstance(shape, Group):
            _write_group(shape, parts)
            continue
        opening, content = _element(shape)
        tag = opening[1 : opening.index(" ")]
        inside = _tooltip(title) + content
        parts.append(f"{opening}>{inside}</{tag}>" if inside else f"{opening}/>")


def _write_group(group: Group, parts: list[str]) -> None:
    if not group.shapes:
        return
    if group.clip is not None:
        # A nested svg clips to its own rectangle without an id, which could conflict with another picture's.
        x, y, width, height = map(_number, group.clip)
        parts.append(
            f'<svg x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}"'
            f' overflow="hidden">{_tooltip(group.title)}'
        )
        _write(group.shapes, parts, "")
        parts.append("</svg>")
    elif not group.title or (len(group.shapes) == 1 and not isinstance(group.shapes[0], Group)):
        _write(group.shapes, parts, group.title)
    else:
        parts.append(f"<g>{_tooltip(group.title)}")
        _write(group.shapes, parts, "")
        parts.append("</g>")


def _element(shape: Line | Polygon | Rectangle | Circle | Text) -> tuple[str, str]:
    """The opening tag without its `>`, and the content."""
    match shape:
        case Line():
            opacity = _opacity("stroke-opacity", shape.opacity)
            dash = f' stroke-dasharray="{_number(shape.dash[0])} {_number(shape.dash[1])}"' if shape.dash else ""
            look = f' stroke="{_quoted(shape.colour)}" stroke-width="{_number(shape.width)}"{dash}{opacity}'
            if len(shape.points) == 2:
                (x1, y1), (x2, y2) = shape.points
                ends = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
                return f"<line {ends}{look}", ""
            return f'<polyline points="{_path(shape.points)}" fill="none"{look}', ""
        case Polygon():
            return f'<polygon points="{_path(shape.points)}"{_paint(shape)}', ""
        case Rectangle():
            radius = f' rx="{_number(shape.radius)}"' if shape.radius else ""
            size = f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
            return f'<rect x="{_number(shape.x)}" y="{_number(shape.y)}" {size}{radius}{_paint(shape)}', ""
        case Circle():
            place = f'cx="{_number(shape.x)}" cy="{_number(shape.y)}" r="{_number(shape.radius)}"'
            return f"<circle {place}{_paint(shape)}", ""
        case Text():
            x, y = _number(shape.x), _number(shape.y)
            anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
            weight = "" if shape.weight == 400 else f' font-weight="{shape.weight}"'
            turn = f' transform="rotate({_number(shape.rotation)} {x} {y})"' if shape.rotation else ""
            halo = f' stroke="{_quoted(shape.halo)}" stroke-width="4" paint-order="stroke"' if shape.halo else ""
            look = f'font-size="{_number(shape.size)}"{weight}{anchor} fill="{_quoted(shape.colour)}"{halo}{turn}'
            return f'<text x="{x}" y="{y}" {look}', escape(shape.text, quote=False)


def _paint(shape: Polygon | Rectangle | Circle) -> str:
    fill = f' fill="{_quoted(shape.fill)}"' if shape.fill else ' fill="none"'
    stroke = f' stroke="{_quoted(shape.stroke)}" stroke-width="{_number(shape.stroke_width)}"' if shape.stroke else ""
    return fill + _opacity("fill-opacity", shape.opacity) + stroke


def _opacity(name: str, value: float) -> str:
    return "" if value >= 1 else f' {name}="{_number(value)}"'


def _tooltip(title: str) -> str:
    return f"<title>{escape(title, quote=False)}</title>" if title else ""


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    """Format with two decimals, a fiftieth of a pixel. More would only make the file larger."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _quoted(text: str) -> str:
    return escape(printable(text), quote=True)
