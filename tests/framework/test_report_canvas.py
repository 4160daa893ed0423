"""One scene, two writers: both draw what was asked, and the same each time."""

from __future__ import annotations

import doctest
import importlib
import io
import math
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from PIL import Image

from agentfw.report import Canvas
from agentfw.report.palette import DARK, INK, MUTED, SERIES, SURFACE
from agentfw.report.shapes import Anchor

MODULES = [
    "axis",
    "bars",
    "canvas",
    "line_chart",
    "frame",
    "html",
    "lanes",
    "report_style",
    "palette",
    "raster",
    "terminal",
    "vector",
]
NAMESPACE = "{http://www.w3.org/2000/svg}"
RED, BLUE = "#c80000", "#0000c8"


def pixels(canvas: Canvas, scale: float = 1) -> Image.Image:
    return Image.open(io.BytesIO(canvas.to_png(scale=scale))).convert("RGB")


def scene() -> Canvas:
    canvas = Canvas(120, 80, label="a scene")
    with canvas.group(title="all of it"):
        canvas.rectangle(10, 10, 40, 20, fill=RED, radius=4, stroke=BLUE, stroke_width=2)
        canvas.circle(90, 20, 8, fill=BLUE, opacity=0.5)
    canvas.line([(10, 50), (60, 70), (110, 50)], colour=RED, width=3, dash=(4, 4), opacity=0.8)
    canvas.polygon([(10, 75), (20, 60), (30, 75)], fill=BLUE, stroke=RED)
    canvas.text(60, 40, "naïve π − 10 %", weight=600, anchor="middle", rotation=-30, halo=SURFACE)
    return canvas


@pytest.mark.parametrize("name", ["agentfw.report", *(f"agentfw.report.{module}" for module in MODULES)])
def test_the_example_in_each_docstring_runs(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_importing_the_report_imports_neither_numpy_nor_pillow() -> None:
    code = "import sys, agentfw.report; sys.exit(bool({'numpy', 'PIL'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_same_scene_gives_the_same_bytes() -> None:
    assert scene().to_svg() == scene().to_svg()
    assert scene().to_png() == scene().to_png()


def test_svg_is_xml_with_every_shape_and_its_tooltip() -> None:
    root = ElementTree.fromstring(scene().to_svg())
    assert root.get("viewBox") == "0 0 120 80"
    assert root.get("aria-label") == "a scene"
    for tag in ("rect", "circle", "polyline", "polygon", "text"):
        assert root.findall(f".//{NAMESPACE}{tag}"), tag
    assert [title.text for title in root.iter(f"{NAMESPACE}title")] == ["all of it"]


def test_svg_inside_a_page_names_no_address_and_holds_no_style_or_id() -> None:
    inline = scene().to_svg(standalone=False)
    for part in ("http", "style=", " id="):
        assert part not in inline


@pytest.mark.parametrize(
    "text", ["</text><script>alert(1)</script>", 'a & b < c > d "e"', "\x00\x08 control", "half \ud800"]
)
def test_any_text_is_escaped_and_the_file_stays_readable(text: str) -> None:
    canvas = Canvas(100, 20, label=text, background=None)
    with canvas.group(title=text):
        canvas.text(0, 10, text)
        canvas.circle(5, 5, 2)
    svg = canvas.to_svg()
    root = ElementTree.fromstring(svg.encode())
    assert "<script>" not in svg
    if text.isprintable():
        assert root.find(f".//{NAMESPACE}text").text == text  # type: ignore[union-attr]
    assert canvas.to_png().startswith(b"\x89PNG")


@pytest.mark.parametrize(("scale", "size"), [(1, (120, 80)), (2, (240, 160)), (0.5, (60, 40))])
def test_png_has_the_size_times_the_scale(scale: float, size: tuple[int, int]) -> None:
    assert pixels(scene(), scale).size == size


def test_png_has_the_colours_where_they_were_drawn() -> None:
    canvas = Canvas(100, 50, background="#fafafa")
    canvas.rectangle(10, 10, 20, 20, fill=RED)
    canvas.line([(50, 25), (90, 25)], colour=BLUE, width=6)
    canvas.polygon([(50, 35), (90, 35), (90, 48), (50, 48)], fill=RED)
    drawn = pixels(canvas)
    assert drawn.getpixel((20, 20)) == (200, 0, 0)
    assert drawn.getpixel((70, 25)) == (0, 0, 200)
    assert drawn.getpixel((70, 41)) == (200, 0, 0)
    assert drawn.getpixel((5, 5)) == (250, 250, 250)
    # Edges on whole pixels are exact: the rectangle is 20 pixels wide, not 21.
    assert [drawn.getpixel((x, 20)) == (200, 0, 0) for x in (9, 10, 29, 30)] == [False, True, True, False]


def test_opacity_mixes_with_what_lies_below_and_not_with_itself() -> None:
    canvas = Canvas(60, 20, background="#ffffff")
    canvas.rectangle(0, 0, 30, 20, fill="#000000")
    canvas.rectangle(0, 0, 60, 20, fill="#ff0000", opacity=0.5)
    drawn = pixels(canvas)
    assert drawn.getpixel((15, 10)) == (128, 0, 0)
    assert drawn.getpixel((45, 10)) == (255, 127, 127)
    crossing = Canvas(40, 40)
    crossing.line([(0, 20), (40, 20), (20, 0), (20, 40)], colour="#000000", width=8, opacity=0.5)
    assert pixels(crossing).getpixel((20, 20)) == pixels(crossing).getpixel((6, 20))


def test_a_slanted_edge_is_smooth() -> None:
    canvas = Canvas(40, 40)
    canvas.line([(2, 3), (38, 31)], colour="#000000", width=2)
    assert len(set(pixels(canvas).convert("L").tobytes())) > 6


def test_a_clipped_group_shows_only_its_window() -> None:
    canvas = Canvas(40, 20)
    with canvas.group(clip=(10, 0, 10, 20)):
        canvas.rectangle(0, 0, 40, 20, fill=RED)
    drawn = pixels(canvas)
    assert [drawn.getpixel((x, 10)) == (200, 0, 0) for x in (5, 15, 25)] == [False, True, False]
    window = ElementTree.fromstring(canvas.to_svg()).find(f"{NAMESPACE}svg")
    assert window is not None
    assert window.get("viewBox") == "10 0 10 20"


def test_a_dashed_line_has_gaps() -> None:
    canvas = Canvas(100, 10)
    canvas.line([(0, 5), (50, 5), (100, 5)], colour="#000000", width=2, dash=(10, 10))
    drawn = pixels(canvas)
    row = drawn.convert("L").tobytes()[5 * 100 : 6 * 100]
    assert [row[x] < 128 for x in (5, 15, 25, 35, 45, 55, 65)] == [True, False] * 3 + [True]


def test_text_keeps_to_its_anchor_and_turns() -> None:
    def inked(canvas: Canvas) -> tuple[int, int, int, int]:
        box = pixels(canvas).convert("L").point(lambda value: 255 if value < 200 else 0).getbbox()
        assert box is not None
        return box

    boxes = []
    anchors: list[Anchor] = ["start", "middle", "end"]
    for anchor in anchors:
        canvas = Canvas(200, 200)
        canvas.text(100, 100, "wide words", anchor=anchor)
        boxes.append(inked(canvas))
    assert abs(boxes[0][0] - 100) <= 2
    assert abs((boxes[1][0] + boxes[1][2]) / 2 - 100) <= 2
    assert abs(boxes[2][2] - 100) <= 2
    upright = Canvas(200, 200)
    upright.text(100, 100, "wide words", rotation=-90)
    left, top, right, bottom = inked(upright)
    assert bottom - top > 3 * (right - left)
    assert abs(bottom - 100) <= 2  # turned to the left, it runs upwards from its anchor


def test_bold_text_has_more_ink() -> None:
    def ink(weight: int) -> int:
        canvas = Canvas(100, 30)
        canvas.text(5, 20, "weight", size=15, weight=weight)
        return sum(255 - value for value in pixels(canvas, 2).convert("L").tobytes())

    assert ink(600) > 1.1 * ink(400)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_no_place_are_refused_at_once(bad: float) -> None:
    canvas = Canvas(10, 10)
    with pytest.raises(ValueError, match="finite"):
        canvas.line([(0, 0), (bad, 1)])
    with pytest.raises(ValueError, match="finite"):
        canvas.circle(1, bad, 2)
    with pytest.raises(ValueError, match="a length and a gap"):
        canvas.line([(0, 0), (5, 5)], dash=(0, 0))
    with pytest.raises(ValueError, match="width and a height"):
        Canvas(0, 10)


def test_shapes_outside_of_the_picture_do_no_harm() -> None:
    canvas = Canvas(20, 20, background="#ffffff")
    canvas.circle(-500, -500, 10, fill=RED, opacity=0.5, stroke=BLUE)
    canvas.line([(-1e6, 10), (1e6, 10)], colour=RED, width=4)
    canvas.text(5000, 5000, "far")
    assert pixels(canvas).getpixel((10, 10)) == (200, 0, 0)


def contrast(colour: str, ground: str) -> float:
    def luminance(text: str) -> float:
        parts = [value / 255 for value in bytes.fromhex(text[1:])]
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    brighter, darker = sorted((luminance(colour), luminance(ground)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colour", [INK, MUTED, *SERIES])
def test_every_colour_that_text_has_can_be_read_on_its_card_in_light_and_dark(colour: str) -> None:
    assert contrast(colour, SURFACE) >= 4.5
    assert contrast(DARK[colour], DARK[SURFACE]) >= 4.5
