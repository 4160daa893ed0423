"""The report is one file that nothing foreign can enter or leave."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from agentfw.report import Lane, Mark, Number, Page, Series, lanes_chart, line_chart
from agentfw.report.canvas import DARK, SERIES
from agentfw.report.statistics import bootstrap

HOSTILE = "</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00"


class Reader(HTMLParser):
    """What a browser would see: tags with their attributes, and text by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
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
            self.text.setdefault(self.open[-1], []).append(data)


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


def test_every_text_is_escaped_wherever_it_stands() -> None:
    page = full_page(HOSTILE)
    reader = Reader(page)
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("script") == 1
    assert tags.count("style") == 1
    assert "img" not in tags
    assert reader.open == []
    assert "alert(1)" not in "".join(reader.text["script"])
    assert any("<script>alert(1)</script>" in text for text in ["".join(reader.text["pre"])])


def test_the_policy_allows_exactly_the_script_and_the_style_sheet_of_the_page() -> None:
    reader = Reader(full_page(HOSTILE))
    policy = next(tag["content"] for _, tag in reader.tags if tag.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    allowed = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert allowed["default-src"] == ["'none'"]
    for directive, tag in (("script-src", "script"), ("style-src", "style")):
        content = "".join(reader.text[tag]).encode()
        assert allowed[directive] == [f"'sha256-{b64encode(sha256(content).digest()).decode()}'"]
    assert "unsafe" not in policy


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
    rows = [["a", 0.5, Number(38, "0:38")], ["b", 0.1234, Number(100, "1:40")], ["c", None, None]]
    page.table(["policy", "error", "time"], rows)
    html = page.render()
    assert '<td class="number" data-value="0.5">0.500</td>' in html
    assert '<td class="number" data-value="0.1234">0.123</td>' in html
    assert '<td class="number" data-value="100">1:40</td>' in html
    assert '<td class="number">–</td>' in html, "a missing number is a dash"
    assert "<td>a</td>" in html
    assert '<th scope="col"><button' in html
    assert '<th scope="col" class="number"><button' in html


def test_the_page_can_be_written_as_utf_8_whatever_a_model_said() -> None:
    page = Page("t")
    page.details("broken", "half a pair \ud83d and a bell \x07 and 日本語")
    assert "half a pair \ufffd and a bell \ufffd and 日本語" in page.render().encode("utf-8").decode("utf-8")
