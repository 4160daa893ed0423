"""The PNG writer: draws the shapes of a picture with Pillow.

Everything is drawn at three times the size and averaged down for smooth edges. A translucent shape is applied as one
mask, so that it isn't darker where it overlaps itself.

Letters come from Pillow's built-in font (Latin without accents), so a picture needs no installed fonts and looks the
same everywhere. Text with other letters uses a font of the machine. Without one, accents are dropped and unknown
letters become "?". SVG doesn't have this limitation.

    >>> from agentfw.report.canvas import Canvas
    >>> canvas = Canvas(20, 10)
    >>> canvas.rectangle(0, 0, 10, 10, fill="#2468a8", opacity=0.5)
    >>> render_png(canvas)[:4]
    b'\\x89PNG'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from agentfw.report.shapes import Circle, Drawing, Group, Line, Point, Polygon, Rectangle, Shape, Text

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

    Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

__all__ = ["render_png"]

OVERSAMPLING = 3
LARGEST = 120_000_000
"""Maximum number of pixels before averaging. Larger pictures get less oversampling, so that memory stays limited."""
MACHINE_FONTS = ("NotoSans-Regular.ttf", "DejaVuSans.ttf", "segoeui.ttf", "Arial Unicode.ttf", "arial.ttf")

Box = tuple[int, int, int, int]


def render_png(canvas: Drawing, *, scale: float = 2) -> bytes:
    import io

    from PIL import Image

    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"the scale of a picture must be above 0, not {scale}")
    size = (max(1, round(canvas.width * scale)), max(1, round(canvas.height * scale)))
    oversampling = OVERSAMPLING if size[0] * size[1] * OVERSAMPLING**2 <= LARGEST else 1
    large = Image.new("RGB", (size[0] * oversampling, size[1] * oversampling), canvas.background or "#ffffff")
    painter = _Painter(large, scale * oversampling)
    painter.paint(canvas.shapes)
    finished = large.reduce(oversampling) if oversampling > 1 else large
    written = io.BytesIO()
    finished.save(written, "PNG", optimize=False, compress_level=6)
    return written.getvalue()


class _Painter:
    """Draws shapes into an image. `unit` is the number of image pixels per canvas pixel."""

    def __init__(self, image: Image.Image, unit: float) -> None:
        self.image = image
        self.unit = unit

    def paint(self, shapes: Sequence[Shape]) -> None:
        for shape in shapes:
            match shape:
                case Group():
                    self._group(shape)
                case Line():
                    self._line(shape)
                case Polygon():
                    self._polygon(shape)
                case Rectangle():
                    self._rectangle(shape)
                case Circle():
                    self._circle(shape)
                case Text():
                    self._text(shape)

    def _group(self, group: Group) -> None:
        if group.clip is None:
            self.paint(group.shapes)
            return
        x, y, width, height = (value * self.unit for value in group.clip)
        window = (round(x), round(y), round(x + width), round(y + height))
        outside = self.image.copy()
        self.paint(group.shapes)
        inside = self.image.crop(window)
        self.image.paste(outside)
        self.image.paste(inside, window[:2])

    def _line(self, line: Line) -> None:
        thickness = max(1.0, line.width * self.unit)
        points = [(x * self.unit, y * self.unit) for x, y in line.points]
        strokes = list(_dashes(points, line.dash[0] * self.unit, line.dash[1] * self.unit)) if line.dash else [points]

        def draw(pen: ImageDraw.ImageDraw, ink: str | int, shift: Point) -> None:
            for stroke in strokes:
                moved = [(x - shift[0], y - shift[1]) for x, y in stroke]
                pen.line(moved, fill=ink, width=round(thickness))
                if thickness >= 3:
                    radius = round(thickness) / 2 - 0.5
                    for x, y in moved:
                        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)

        self._lay(line.colour, line.opacity, self._box(line.points, line.width), draw)

    def _polygon(self, polygon: Polygon) -> None:
        points = [(x * self.unit, y * self.unit) for x, y in polygon.points]

        def draw(pen: ImageDraw.ImageDraw, ink: str | int, shift: Point) -> None:
            pen.polygon([(x - shift[0], y - shift[1]) for x, y in points], fill=ink)

        self._lay(polygon.fill, polygon.opacity, self._box(polygon.points, 1), draw)
        if polygon.stroke:
            outline = (*polygon.points, polygon.points[0])
            self._line(Line(outline, polygon.stroke, polygon.stroke_width, None, 1))

    def _rectangle(self, shape: Rectangle) -> None:
        corners = ((shape.x, shape.y), (shape.x + shape.width, shape.y + shape.height))
        grow = shape.stroke_width / 2 if shape.stroke else 0.0

        def draw(by: float) -> Callable[[ImageDraw.ImageDraw, str | int, Point], None]:
            def rounded(pen: ImageDraw.ImageDraw, ink: str | int, shift: Point) -> None:
                left, top = ((value - by) * self.unit - move for value, move in zip(corners[0], shift, strict=True))
                # Pillow includes the last pixel, so subtract 1.
                right, bottom = (
                    (value + by) * self.unit - move - 1 for value, move in zip(corners[1], shift, strict=True)
                )
                if right >= left and bottom >= top:
                    radius = (shape.radius + by) * self.unit if shape.radius else 0
                    pen.rounded_rectangle((left, top, right, bottom), radius, fill=ink)

            return rounded

        box = self._box(corners, 2 * grow + 1)
        if shape.stroke:
            self._ring(shape.stroke, box, draw(grow), draw(-grow))
        if shape.fill:
            self._lay(shape.fill, shape.opacity, box, draw(-grow))

    def _circle(self, shape: Circle) -> None:
        grow = shape.stroke_width / 2 if shape.stroke else 0.0

        def draw(by: float) -> Callable[[ImageDraw.ImageDraw, str | int, Point], None]:
            def disc(pen: ImageDraw.ImageDraw, ink: str | int, shift: Point) -> None:
                x, y = shape.x * self.unit - shift[0], shape.y * self.unit - shift[1]
                radius = max(0.0, (shape.radius + by) * self.unit)
                pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)

            return disc

        reach = shape.radius + grow
        corners = ((shape.x - reach, shape.y - reach), (shape.x + reach, shape.y + reach))
        if shape.stroke:
            self._ring(shape.stroke, self._box(corners, 1), draw(grow), draw(-grow))
        if shape.fill:
            self._lay(shape.fill, shape.opacity, self._box(corners, 1), draw(-grow))

    def _text(self, text: Text) -> None:
        from PIL import Image, ImageDraw

        line, font = _typeset(text.text, max(1, round(text.size * self.unit)))
        # Pillow's font has a single weight. A thin outline in the same colour makes it bold.
        bold = round(0.016 * text.size * self.unit) if text.weight >= 600 else 0
        halo = round(2 * self.unit) if text.halo else 0
        width = font.getlength(line)
        start = {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
        # The letters are drawn on a square that is large enough to rotate about the anchor in its middle.
        reach = math.ceil(max(width, text.size * self.unit) + text.size * self.unit + bold + halo)
        x, y = text.x * self.unit, text.y * self.unit
        box = (round(x) - reach, round(y) - reach, round(x) + reach, round(y) + reach)
        if not text.rotation:
            rise = math.ceil(1.5 * text.size * self.unit) + bold + halo
            box = (box[0], round(y) - rise, box[2], round(y) + rise)
        middle = ((box[2] - box[0]) / 2, (box[3] - box[1]) / 2)
        for outline, colour in ((halo + bold, text.halo), (bold, text.colour)):
            if colour is None:
                continue
            mask = Image.new("L", (box[2] - box[0], box[3] - box[1]), 0)
            place = (middle[0] - start, middle[1])
            ImageDraw.Draw(mask).text(place, line, fill=255, font=font, anchor="ls", stroke_width=outline)
            if text.rotation:
                mask = mask.rotate(-text.rotation, Image.Resampling.BICUBIC)
            self.image.paste(colour, box, mask)

    def _ring(
        self,
        colour: str,
        box: Box | None,
        outer: Callable[[ImageDraw.ImageDraw, str | int, Point], None],
        inner: Callable[[ImageDraw.ImageDraw, str | int, Point], None],
    ) -> None:
        """The area between two outlines, so that what is below shows through a hollow or translucent middle."""
        from PIL import Image, ImageDraw

        if box is None:
            return
        mask = Image.new("L", (box[2] - box[0], box[3] - box[1]), 0)
        pen = ImageDraw.Draw(mask)
        outer(pen, 255, box[:2])
        inner(pen, 0, box[:2])
        self.image.paste(colour, box, mask)

    def _lay(
        self,
        colour: str,
        opacity: float,
        box: Box | None,
        draw: Callable[[ImageDraw.ImageDraw, str | int, Point], None],
    ) -> None:
        from PIL import Image, ImageDraw

        if opacity <= 0 or box is None:
            return
        if opacity >= 1:
            draw(ImageDraw.Draw(self.image), colour, (0, 0))
            return
        mask = Image.new("L", (box[2] - box[0], box[3] - box[1]), 0)
        draw(ImageDraw.Draw(mask), round(255 * opacity), box[:2])
        self.image.paste(colour, box, mask)

    def _box(self, points: Sequence[Point], margin: float) -> Box | None:
        """The part of the image that the points cover, with a margin. None if they are outside of it."""
        horizontal, vertical = [x for x, _ in points], [y for _, y in points]
        left = max(0, math.floor((min(horizontal) - margin) * self.unit))
        top = max(0, math.floor((min(vertical) - margin) * self.unit))
        right = min(self.image.width, math.ceil((max(horizontal) + margin) * self.unit) + 1)
        bottom = min(self.image.height, math.ceil((max(vertical) + margin) * self.unit) + 1)
        return (left, top, right, bottom) if left < right and top < bottom else None


def _dashes(points: Sequence[Point], drawn: float, left_out: float) -> Iterator[list[Point]]:
    """The drawn pieces of a dashed line."""
    piece, drawing, remaining = [points[0]], True, drawn
    for (x1, y1), (x2, y2) in pairwise(points):
        length = math.hypot(x2 - x1, y2 - y1)
        walked = 0.0
        while length and length - walked >= remaining:
            walked += remaining
            corner = (x1 + (x2 - x1) * walked / length, y1 + (y2 - y1) * walked / length)
            if drawing:
                yield [*piece, corner]
            piece, drawing = [corner], not drawing
            remaining = drawn if drawing else left_out
        remaining -= length - walked
        if drawing:
            piece.append((x2, y2))
    if drawing and len(piece) >= 2:
        yield piece


def _typeset(text: str, size: int) -> tuple[str, Font]:
    """The text as it can be drawn, and its font."""
    import unicodedata

    font = _own_font(size)
    text = text.replace("\u2212", "\u2013")  # Pillow's font has no minus sign; its en dash has the same width
    if all(map(_in_own_font, text)):
        return text, font
    machine = _machine_font(size)
    if machine is not None:
        return text, machine
    bare = "".join(mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))
    return "".join(character if _in_own_font(character) else "?" for character in bare), font


@lru_cache(maxsize=64)
def _own_font(size: int) -> Font:
    from PIL import ImageFont

    return ImageFont.load_default(size)


@lru_cache(maxsize=64)
def _machine_font(size: int) -> Font | None:
    from PIL import ImageFont

    for name in MACHINE_FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return None


@lru_cache(maxsize=4096)
def _in_own_font(character: str) -> bool:
    """Whether Pillow's font has this letter. A font draws all missing letters as the same box."""
    font = _own_font(20)
    return bytes(font.getmask(character)) != bytes(font.getmask("\uffff"))
