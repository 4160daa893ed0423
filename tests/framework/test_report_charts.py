"""Charts show the data that is there, whatever it is, and stay light."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from agentfw.errors import UsageError
from agentfw.report import (
    Canvas,
    Lane,
    Mark,
    Series,
    Span,
    bars,
    lanes_chart,
    line_chart,
    sparkline,
)
from agentfw.report.axis import number_labels
from agentfw.report.canvas import DARK, FAINT, INK, MUTED, SERIES, SURFACE

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(canvas: Canvas) -> ElementTree.Element:
    return ElementTree.fromstring(canvas.to_svg())


def words(canvas: Canvas) -> list[str]:
    return [text.text or "" for text in parsed(canvas).iter(f"{NAMESPACE}text")]


def tooltips(canvas: Canvas) -> list[str]:
    return [title.text or "" for title in parsed(canvas).iter(f"{NAMESPACE}title")]


def numbers(canvas: Canvas) -> list[float]:
    places = ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy")
    return [float(element.get(name, 0)) for element in parsed(canvas).iter() for name in places]


def curves(canvas: Canvas, colour: str) -> list[list[tuple[float, float]]]:
    lines = [line for line in parsed(canvas).iter(f"{NAMESPACE}polyline") if line.get("stroke") == colour]
    return [[(float(x), float(y)) for x, y in (p.split(",") for p in line.get("points", "").split())] for line in lines]


def test_a_line_goes_up_where_its_values_go_up() -> None:
    (path,) = curves(line_chart([Series("up", [1, 2, 4])], title="Up"), SERIES[0])
    assert [x for x, _ in path] == sorted(x for x, _ in path)
    assert path[0][1] > path[1][1] > path[2][1]


def test_each_line_is_named_with_its_last_value_and_a_point_tells_its_value_and_interval() -> None:
    ours = Series("ours", [0.5, 0.21], low=[0.4, 0.2], high=[0.6, 0.3])
    chart = line_chart([ours, Series("theirs", [0.5, 0.48])], title="Error")
    assert {"Error", "ours · 0.210", "theirs · 0.480"} <= set(words(chart))
    assert "ours, 2: 0.210 (0.200 to 0.300)" in tooltips(chart)


def test_nan_is_a_gap_and_not_a_zero() -> None:
    chart = line_chart([Series("gappy", [1, 2, 3, math.nan, 5, 6, 7])], title="Gap")
    assert [len(path) for path in curves(chart, SERIES[0])] == [3, 3]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [math.nan, math.inf],
        [7],
        [0, 0, 0],
        [1e300, -1e300, 1e308],
        [1e16, 1e16 + 2],
        [5e-324, 0],
        [math.nan, 3, math.nan],
    ],
)
def test_any_numbers_make_a_picture(values: list[float]) -> None:
    for width in (340, 880):
        chart = line_chart([Series("data", values, low=values, high=values)], title="Any", width=width)
        assert all(abs(number) < 50_000 for number in numbers(chart))
        assert ("nothing to show yet" in words(chart)) == (not any(map(math.isfinite, values)))


def test_series_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(UsageError, match="3 y values and 2 x values"):
        Series("s", [1, 2, 3], x=[1, 2])
    with pytest.raises(UsageError, match="one side of a band"):
        Series("s", [1, 2, 3], low=[1, 2, 3])


def test_three_events_are_all_named() -> None:
    lanes = [
        Lane("user", [Span(0, 30)], [Mark(22, "ping", "interruption")]),
        Lane("agent", marks=[Mark(12, "hello", "intervention")]),
    ]
    chart = lanes_chart(lanes, title="Three", time_label="minutes")
    assert {"Three", "user", "agent", "ping", "hello", "work 1", "interruption 1"} <= set(words(chart))
    assert "interruption “ping”, 22.0" in tooltips(chart)


@pytest.mark.parametrize(
    "lanes",
    [
        [],
        [Lane("empty")],
        [Lane("odd", [Span(math.nan, 1), Span(5, 2), Span(0, math.inf)], [Mark(math.nan), Mark(math.inf)])],
        [Lane("huge", marks=[Mark(0), Mark(1e15)])],
        [Lane("日本語 " * 30, marks=[Mark(0, "<b>&" * 40)])],
        [Lane(f"lane {index}", marks=[Mark(index)]) for index in range(60)],
    ],
)
def test_any_timeline_makes_a_picture(lanes: list[Lane]) -> None:
    for width in (340, 880):
        chart = lanes_chart(lanes, title="Any", width=width)
        assert all(-1 <= number <= max(chart.width, chart.height) + 1 for number in numbers(chart))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.213, 0.5], ["0.213", "0.500"]),
        ([1_500_000, 2_000_000], ["1.50M", "2.00M"]),
        ([-0.0001, 0.5], ["0.000", "0.500"]),
        ([math.nan, 1.0], ["–", "1"]),
        ([2e-7], ["2.00e−7"]),
        ([], []),
    ],
)
def test_numbers_share_a_unit_and_decimals(values: list[float], expected: list[str]) -> None:
    assert number_labels(values) == expected


def test_bars_show_each_value_with_blocks_in_proportion() -> None:
    assert bars([0.42, 0.21, 0.0, math.nan], width=4) == "0.42 ▇▇▇▇   0.21 ▇▇   0.00   –"
    assert bars([0.001, 1.0], width=4).startswith("0.00 ▇ ")
    assert bars([]) == ""


def test_a_sparkline_has_one_block_a_value_and_fits_its_width() -> None:
    assert sparkline([0, 1, math.nan, 2]) == "▁▅ █"
    assert sparkline([3, 3]) == "▄▄"
    assert len(sparkline(range(1000), width=40)) == 40
    assert sparkline([]) == ""


def test_values_whose_order_means_nothing_are_points_that_no_line_joins() -> None:
    chart = line_chart([Series("each", [1, 2, 3], quiet=True, joined=False), Series("mean", [2, 2, 2])], title="t")

    assert not curves(chart, FAINT)
    assert len(curves(chart, SERIES[0])) == 1


@pytest.mark.parametrize(
    "text", ["</text><script>alert(1)</script>", 'a & b < c > d "e"', "\x00\x08 control, half \ud800"]
)
def test_any_text_is_escaped_and_the_file_stays_readable(text: str) -> None:
    canvas = Canvas(100, 20, label=text)
    with canvas.group(title=text):
        canvas.text(0, 10, text)
        canvas.draw("circle", cx=5, cy=5, r=2)
    svg = canvas.to_svg()
    root = ElementTree.fromstring(svg.encode())
    assert "<script>" not in svg
    if text.isprintable():
        assert root.find(f".//{NAMESPACE}text").text == text  # type: ignore[union-attr]


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
