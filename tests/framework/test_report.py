"""Charts show the data that is there, whatever it is, and the report is one file that nothing foreign can leave."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from agentfw.errors import UsageError
from agentfw.report import Canvas, Lane, Mark, Number, Page, Series, Span, bars, lanes_chart, line_chart, sparkline
from agentfw.report.axis import number_labels
from agentfw.report.canvas import DARK, FAINT, INK, MUTED, SERIES, SURFACE
from agentfw.report.statistics import Interval, bootstrap

NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(canvas: Canvas, tag: str = "text") -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(canvas.to_svg()).iter(f"{NAMESPACE}{tag}")]


def numbers(canvas: Canvas) -> list[float]:
    places = ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy")
    return [float(each.get(name, 0)) for each in ElementTree.fromstring(canvas.to_svg()).iter() for name in places]


def curves(canvas: Canvas, colour: str) -> list[list[tuple[float, float]]]:
    lines = ElementTree.fromstring(canvas.to_svg()).iter(f"{NAMESPACE}polyline")
    points = [line.get("points", "").split() for line in lines if line.get("stroke") == colour]
    return [[(float(x), float(y)) for x, y in (point.split(",") for point in line)] for line in points]


# --- charts


def test_a_line_goes_up_where_its_values_go_up_and_nan_is_a_gap() -> None:
    chart = line_chart([Series("gappy", [1, 2, 4, math.nan, 5, 6, 7])], title="Gap")

    first, second = curves(chart, SERIES[0])
    assert [x for x, _ in first + second] == sorted(x for x, _ in first + second)
    assert first[0][1] > first[1][1] > first[2][1] > second[0][1]
    assert len(second) == 3
    # Of a long line some points are left out, but not the last, and none of a line that has few.
    few = Series("few", [math.nan] * 2000 + [1.0, math.nan, math.nan], quiet=True, joined=False)
    long = line_chart([few, Series("long", range(2003))], title="Long")
    (line,) = curves(long, SERIES[0])
    assert (len(line), len(curves(long, FAINT))) == (668, 0)
    assert line[-1] == min(line, key=lambda point: point[1]), "it ends where its values end"


def test_each_line_is_named_with_its_last_value_and_a_point_tells_its_value_and_interval() -> None:
    ours = Series("ours", [0.5, 0.21], low=[0.4, 0.2], high=[0.6, 0.3])
    chart = line_chart([ours, Series("theirs", [0.5, 0.48])], title="Error")

    assert {"Error", "ours · 0.210", "theirs · 0.480"} <= set(texts(chart))
    assert "ours, 2: 0.210 (0.200 to 0.300)" in texts(chart, "title")


@pytest.mark.parametrize(
    "values", [[], [math.nan, math.inf], [7], [0, 0, 0], [1e300, -1e300, 1e308], [1e16, 1e16 + 2], [5e-324, 0]], ids=str
)
def test_any_numbers_make_a_picture(values: list[float]) -> None:
    for width in (340, 880):
        chart = line_chart([Series("data", values, low=values, high=values)], title="Any", width=width)
        assert all(abs(number) < 50_000 for number in numbers(chart))
        assert ("nothing to show yet" in texts(chart)) == (not any(map(math.isfinite, values)))


def test_series_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(UsageError, match="3 y values and 2 x values"):
        Series("s", [1, 2, 3], x=[1, 2])


def test_values_whose_order_means_nothing_are_points_that_no_line_joins() -> None:
    chart = line_chart([Series("each", [1, 2, 3], quiet=True, joined=False), Series("mean", [2, 2, 2])], title="t")

    assert not curves(chart, FAINT)
    assert len(curves(chart, SERIES[0])) == 1


def test_three_events_are_all_named() -> None:
    lanes = [
        Lane("user", [Span(0, 30)], [Mark(22, "ping", "interruption")]),
        Lane("agent", marks=[Mark(12, "hello", "intervention")]),
    ]
    chart = lanes_chart(lanes, title="Three", time_label="minutes")

    assert {"Three", "user", "agent", "ping", "hello", "work 1", "interruption 1"} <= set(texts(chart))
    assert "interruption “ping”, 22.0" in texts(chart, "title")


@pytest.mark.parametrize(
    "lanes",
    [
        [],
        [Lane("odd", [Span(math.nan, 1), Span(5, 2), Span(0, math.inf)], [Mark(math.nan), Mark(math.inf)])],
        [Lane("日本語 " * 30, marks=[Mark(0, "<b>&" * 40)])],
        [Lane(f"lane {index}", marks=[Mark(index)]) for index in range(60)],
    ],
    ids=len,
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
        ([math.nan, 1.0], ["–", "1"]),
        ([2e-7], ["2.00e−7"]),
    ],
)
def test_numbers_share_a_unit_and_decimals(values: list[float], expected: list[str]) -> None:
    assert number_labels(values) == expected


def test_the_terminal_shows_values_as_blocks_in_proportion_that_fit_its_width() -> None:
    assert bars([0.42, 0.21, 0.0, math.nan], width=4) == "0.42 ▇▇▇▇   0.21 ▇▇   0.00   –"
    assert bars([0.001, 1.0], width=4).startswith("0.00 ▇ ")
    assert sparkline([0, 1, math.nan, 2]) == "▁▅ █"
    assert sparkline([3, 3]) == "▄▄"
    assert len(sparkline(range(1000), width=40)) == 40
    assert sparkline([0.0] * 78 + [1.0], width=40)[-1] == "█", "the newest is there"
    assert sparkline([0, 4, 2, 2, 4, 4], width=3) == "▁▁█", "means"
    assert bars([]) == sparkline([]) == ""


@pytest.mark.parametrize("text", ["</text><script>alert(1)</script>", "\x00\x08 control, half \ud800"])
def test_any_text_is_escaped_and_the_file_stays_readable(text: str) -> None:
    canvas = Canvas(100, 20, label=text)
    with canvas.group(title=text):
        canvas.text(0, 10, text)
    svg = canvas.to_svg()

    root = ElementTree.fromstring(svg.encode())
    assert "<script>" not in svg
    if text.isprintable():
        assert root.find(f".//{NAMESPACE}text").text == text  # type: ignore[union-attr]


def luminance(colour: str) -> float:
    parts = [value / 255 for value in bytes.fromhex(colour[1:])]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [INK, MUTED, *SERIES])
def test_every_colour_that_text_has_can_be_read_on_its_card_in_light_and_dark(colour: str) -> None:
    for text, ground in ((colour, SURFACE), (DARK[colour], DARK[SURFACE])):
        darker, brighter = sorted((luminance(text), luminance(ground)))
        assert (brighter + 0.05) / (darker + 0.05) >= 4.5


# --- the page

HOSTILE = "</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\ud83d"


class Reader(HTMLParser):
    """What a browser would see: tags with their attributes, and text by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data


def full_page(text: str = "plain") -> str:
    page = Page(text, subtitle=text)
    page.facts([(text, text), ("seed", "7")])
    page.highlights([(text, text, text)])
    page.section(text, text)
    page.figure(line_chart([Series(text, [1, 2, 3])], title=text, x_label=text))
    page.figure(lanes_chart([Lane(text, marks=[Mark(1, text)])], title=text))
    page.table([text, "error"], [[text, 0.5], ["other", bootstrap([0.1, 0.2])], ["third", None]], text)
    page.details(text, text, note=text)
    return page.render()


def test_the_page_loads_nothing_and_names_no_address() -> None:
    page = full_page()

    assert not re.search(r"https?:|//[a-z]", page.replace("data:,", ""))
    for tag, attributes in Reader(page).tags:
        assert tag not in {"img", "iframe", "object", "embed", "form", "a", "base"}
        assert not attributes.keys() & {"src", "style", "srcset", "action"}
        assert attributes.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") for name in attributes)


def test_every_text_is_escaped_and_the_policy_allows_exactly_the_script_and_the_style_sheet_of_the_page() -> None:
    page = full_page(HOSTILE)

    page.encode("utf-8")
    reader = Reader(page)
    tags = [tag for tag, _ in reader.tags]
    assert (tags.count("script"), tags.count("style"), tags.count("img"), reader.open) == (1, 1, 0, [])
    assert "alert(1)" not in reader.text["script"]
    assert "<script>alert(1)</script>" in reader.text["pre"]
    (policy,) = [each["content"] for _, each in reader.tags if each.get("http-equiv") == "Content-Security-Policy"]
    allowed = {rule.split()[0]: rule.split()[1:] for rule in str(policy).split(";")}
    assert allowed["default-src"] == ["'none'"]
    for directive, tag in (("script-src", "script"), ("style-src", "style")):
        digest = b64encode(sha256(reader.text[tag].encode()).digest()).decode()
        assert allowed[directive] == [f"'sha256-{digest}'"]


def test_charts_are_recoloured_in_the_dark() -> None:
    page = full_page()
    dark = page[page.index("prefers-color-scheme:dark") : page.index("@media print")]
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', page[page.index("<body>") :]))

    assert SERIES[0] in used
    for colour in used:
        assert f'[fill="{colour}"]{{fill:{DARK[colour]}}}' in dark
        assert f'[stroke="{colour}"]{{stroke:{DARK[colour]}}}' in dark


def test_columns_of_numbers_are_on_the_right_with_common_decimals_and_keys_to_sort_by() -> None:
    page = Page("t")
    page.table(["policy", "error", "time"], [["a", 0.5, Number(38, "0:38")], ["b", 0.1234, None]])

    html = page.render()

    shown = re.findall(r'<td class="number"(?: data-value="(.*?)")?>(.*?)</td>', html)
    assert shown == [("0.5", "0.500"), ("38", "0:38"), ("0.1234", "0.123"), ("", "–")]
    assert html.count('class="number"><button') == 2
    page.table(["error"], [[Interval(0.75, 0.5, 1.0, 3)]])
    assert 'data-value="0.75"' in page.render(), "an interval is sorted by its estimate"
