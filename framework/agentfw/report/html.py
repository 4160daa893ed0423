"""Self-contained HTML pages with figures, tables and transcripts that open from disk without a network.

Nothing in a page can run or load foreign content, whatever a model's output contains. All text is escaped, there are no
links, and a Content-Security-Policy allows only the page's own style sheet and script, by their hashes. Inline styles
are forbidden too: the page's style sheet replaces the colours of charts in dark mode by their `fill` and `stroke`.

    >>> page = Page("Calendar", subtitle="104 rounds, seed 7")
    >>> page.table(["", "error"], [["tiny + strategyhub", 0.213], ["random", 0.5]])
    >>> page.details("episode 1", "<script>alert(1)</script>")
    >>> "<script>alert" in page.render()
    False
    >>> page = web_page("<title>Tea</title>\\n<style>p{margin:0}</style>\\n<body><script>let tea;</script></body>")
    >>> page.html.startswith("<!doctype html>"), "p{margin:0}" in page.html
    (True, True)
    >>> page.policy.startswith("default-src 'none'; script-src 'sha256-")
    True
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import NamedTuple

from agentfw.errors import UsageError
from agentfw.report.axis import number_labels, rounded
from agentfw.report.canvas import AXIS, DARK, FAINT, FONTS, GRID, INK, MUTED, SERIES, SURFACE, Canvas, printable
from agentfw.report.statistics import Interval

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
"""
_SHARED = f"""
:root{{--good:#137a4b;--bad:#b3261e;--mine:#ebf2fb;--note:#fdf3d8;--badback:#fbe9e7}}
@media screen and (prefers-color-scheme:dark){{
:root{{--good:#4fc98d;--bad:#ff8a80;--mine:#1c2b42;--note:#33290f;--badback:#3a1f1d}}
}}
*{{box-sizing:border-box}}
[hidden]{{display:none!important}}
html{{-webkit-text-size-adjust:100%;color-scheme:light dark}}
body{{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 {FONTS}}}
a{{color:var(--accent);text-decoration:none}}
a:hover{{text-decoration:underline;text-underline-offset:3px}}
small,.quiet{{color:var(--muted);font-size:13px;font-weight:400}}
:focus-visible{{outline:2px solid var(--accent);outline-offset:1px;border-radius:4px}}
"""
_NAMES = {"ink": INK, "muted": MUTED, "faint": FAINT, "axis": AXIS, "grid": GRID, "card": SURFACE, "accent": SERIES[0]}


class WebPage(NamedTuple):
    """A page, and its content security policy, which it also has in its head."""

    html: str
    policy: str


def page_style() -> str:
    """The style that all pages begin with. A page's own style sheet comes after it."""
    light = "".join(f"--{name}:{colour};" for name, colour in _NAMES.items())
    dark = "".join(f"--{name}:{DARK[colour]};" for name, colour in _NAMES.items())
    charts = "\n".join(
        f'svg [{attribute}="{colour}"]{{{attribute}:{replaced}}}'
        for colour, replaced in DARK.items()
        for attribute in ("fill", "stroke")
    )
    return f"""
:root{{--back:#f5f6f8;{light}}}
@media screen and (prefers-color-scheme:dark){{
:root{{--back:#0f1317;{dark}}}
{charts}
}}
{_SHARED}"""


def page_policy(style: str, script: str, *, forms: str = "'none'") -> str:
    """The policy of a page with this style sheet and this script, which may ask its own server."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src 'self'; base-uri 'none'; form-action {forms}"
    )


def web_page(source: str) -> WebPage:
    """A page of its title, its own style sheet, its body and its script, each of them once."""
    style = page_style() + _inside(source, "style")
    policy = page_policy(style, _inside(source, "script"))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    whole = source.replace(f"<style>{_inside(source, 'style')}</style>", f"<style>{style}</style>\n</head>", 1)
    return WebPage(f"{_HEAD}{meta}{whole}\n</html>\n", policy)


def _inside(source: str, element: str) -> str:
    found = re.search(rf"<{element}>(.*?)</{element}>", source, re.DOTALL)
    assert found is not None
    return found[1]


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its own formatting ("0:00:38", "12 %") that is sorted by its value."""

    value: float
    text: str


Cell = str | int | float | Number | Interval | None


def short(value: float) -> Number | int | None:
    """A number with three significant digits of its own, for columns of numbers of different magnitude."""
    if isinstance(value, int):
        return value
    if math.isnan(value):
        return None
    return Number(value, rounded(value))


class Page:
    """Collects blocks in order and renders them. All arguments are plain text, and markup in them is escaped."""

    def __init__(self, title: str, *, subtitle: str = "") -> None:
        self.title, self.subtitle = title, subtitle
        self._blocks: list[str] = []

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """A row of key-value pairs, such as the settings of a run."""
        items = "".join(f"<div><dt>{_text(key)}</dt><dd>{_text(value)}</dd></div>" for key, value in pairs)
        self._blocks.append(f'<dl class="facts">{items}</dl>')

    def highlights(self, items: Sequence[tuple[str, str, str]]) -> None:
        """The two to four most important figures, in large type: (name, figure, note)."""
        cards = "".join(
            f"<div><dt>{_text(what)}</dt><dd><b>{_text(figure)}</b><small>{_text(note)}</small></dd></div>"
            for what, figure, note in items
        )
        self._blocks.append(f'<dl class="highlights">{cards}</dl>')

    def section(self, title: str, intro: str = "") -> None:
        self._blocks.append(f"<h2>{_text(title)}</h2>")
        if intro:
            self.paragraph(intro)

    def paragraph(self, text: str) -> None:
        self._blocks.append(f"<p>{_text(text)}</p>")

    def figure(self, picture: Canvas) -> None:
        """A picture on a card. On a phone, it scrolls sideways."""
        drawn = picture.to_svg(standalone=False)
        self._blocks.append(f'<figure><div class="scroll" tabindex="0">{drawn}</div></figure>')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str = "") -> None:
        """A table that is sorted by clicking a heading. Number columns are right-aligned with common decimals."""
        for row in rows:
            if len(row) != len(columns):
                raise UsageError(f"a row has {len(row)} cells, but the table has {len(columns)} columns: {list(row)}")
        shown = [_column([row[place] for row in rows]) for place in range(len(columns))]
        # A column of numbers is on the right, also where some of them are missing.
        numeric = [{key is not None for text, key in cells if text != "–"} == {True} for cells in shown]
        sides = [' class="number"' if number else "" for number in numeric]
        head, body = [], []
        for name, side in zip(columns, sides, strict=True):
            label = f'<button type="button">{_text(name)}</button>' if name else ""
            head.append(f'<th scope="col"{side}>{label}</th>')
        for line in zip(*shown, strict=True):
            row = ""
            for side, (text, key) in zip(sides, line, strict=True):
                value = "" if key is None else f' data-value="{key!r}"'
                # An id that breaks at its hyphen is two to the eye.
                kind = side or (' class="id"' if "-" in text and " " not in text and len(text) <= 24 else "")
                row += f"<td{kind}{value}>{_text(text)}</td>"
            body.append(f"<tr>{row}</tr>\n")
        drawn = f"<table><thead><tr>{''.join(head)}</tr></thead>\n<tbody>{''.join(body)}</tbody></table>"
        # The caption stays where it is when the table scrolls sideways.
        below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
        self._blocks.append(f'<figure><div class="scroll" tabindex="0">{drawn}</div>{below}</figure>')

    def details(self, summary: str, text: str, *, note: str = "") -> None:
        """Preformatted text in a collapsible block, such as a transcript, a log or a settings file."""
        aside = f"<small>{_text(note)}</small>" if note else ""
        self._blocks.append(
            f"<details><summary><span>{_text(summary)}</span>{aside}</summary>"
            f'<pre tabindex="0">{_text(text)}</pre></details>'
        )

    @property
    def body(self) -> str:
        """What is below the title, for a page that has a style sheet and a title of its own."""
        return "\n".join(self._blocks)

    def render(self) -> str:
        below = f'<p class="subtitle">{_text(self.subtitle)}</p>' if self.subtitle else ""
        style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("report.css", "report.js"))
        return web_page(
            f"<title>{_text(self.title)}</title>\n<style>{style}</style>\n<body>\n<main>\n"
            f"<header><h1>{_text(self.title)}</h1>{below}</header>\n"
            + "\n".join([self.body, "</main>", f"<script>{script}</script>", "</body>"])
        ).html


def _text(text: str) -> str:
    return escape(printable(text), quote=True)


def _column(cells: Sequence[Cell]) -> list[tuple[str, float | None]]:
    """The cells as text, and what they are sorted by. Plain numbers of one column get the same unit and decimals."""
    plain = [float(cell) for cell in cells if isinstance(cell, int | float)]
    labels = iter(number_labels(plain))
    shown: list[tuple[str, float | None]] = []
    for cell in cells:
        match cell:
            case int() | float():
                shown.append((next(labels), float(cell)))
            case Number(value=value, text=text):
                shown.append((text, value))
            case Interval(estimate=estimate):
                shown.append((str(cell), estimate))
            case _:
                shown.append(("–" if cell is None else cell, None))
    return shown
