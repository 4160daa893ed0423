"""A canvas draws what was asked, and the same each time."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from agentfw.report import Canvas
from agentfw.report.canvas import DARK, INK, MUTED, SERIES, SURFACE

NAMESPACE = "{http://www.w3.org/2000/svg}"
RED, BLUE = "#c80000", "#0000c8"


def scene() -> Canvas:
    canvas = Canvas(120, 80, label="a scene")
    with canvas.group(title="all of it"):
        canvas.rectangle(10, 10, 40, 20, fill=RED, radius=4)
        canvas.circle(90, 20, 8, fill=BLUE, opacity=0.5)
    canvas.line([(10, 50), (60, 70), (110, 50)], colour=RED, width=3, dash=(4, 4), opacity=0.8)
    canvas.polygon([(10, 75), (20, 60), (30, 75)], fill=BLUE, stroke=RED)
    canvas.text(60, 40, "naïve π − 10 %", weight=600, anchor="middle")
    return canvas


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
    canvas = Canvas(100, 20, label=text)
    with canvas.group(title=text):
        canvas.text(0, 10, text)
        canvas.circle(5, 5, 2)
    svg = canvas.to_svg()
    root = ElementTree.fromstring(svg.encode())
    assert "<script>" not in svg
    if text.isprintable():
        assert root.find(f".//{NAMESPACE}text").text == text  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_no_place_are_refused_at_once(bad: float) -> None:
    canvas = Canvas(10, 10)
    with pytest.raises(ValueError, match="finite"):
        canvas.line([(0, 0), (bad, 1)])
    with pytest.raises(ValueError, match="finite"):
        canvas.circle(1, bad, 2)
    with pytest.raises(ValueError, match="width and a height"):
        Canvas(0, 10)


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
