"""Self-contained HTML pages with figures, tables and transcripts that open from disk without a network.

Nothing in a page can run or load foreign content, whatever a model's output contains. All text is escaped, there are no
links, and a Content-Security-Policy allows only the page's own style sheet and script, by their hashes.

    >>> page = Page("Calendar", subtitle="104 rounds, seed 7")
    >>> page.facts([("policy", "tiny"), ("memory", "strategyhub")])
    >>> page.section("Results")
    >>> page.table(["", "error"], [["tiny + strategyhub", 0.213], ["random", 0.5]])
    >>> page.details("episode 1", "<script>alert(1)</script>")
    >>> "<script>alert" in page.render()
    False
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from agentfw.errors import UsageError
from agentfw.report.axis import number_labels, rounded
from agentfw.report.canvas import Canvas, printable
from agentfw.report.statistics import Interval
from agentfw.report.web_page import web_page

__all__ = ["Cell", "Number", "Page", "short"]


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

    def figure(self, picture: Canvas, caption: str = "", *, narrow: Canvas | None = None) -> None:
        """A picture on a card. Phones show `narrow` if it is given; otherwise they scroll sideways."""
        drawn = picture.to_svg(standalone=False)
        if narrow is None:
            body = f'<div class="scroll" tabindex="0">{drawn}</div>'
        else:
            body = f'<div class="wide">{drawn}</div><div class="narrow">{narrow.to_svg(standalone=False)}</div>'
        self._blocks.append(_framed(body, caption))

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
                row += f"<td{side}{value}>{_text(text)}</td>"
            body.append(f"<tr>{row}</tr>\n")
        drawn = f"<table><thead><tr>{''.join(head)}</tr></thead>\n<tbody>{''.join(body)}</tbody></table>"
        self._blocks.append(_framed(f'<div class="scroll" tabindex="0">{drawn}</div>', caption))

    def details(self, summary: str, text: str, *, note: str = "", opened: bool = False) -> None:
        """Preformatted text in a collapsible block, such as a transcript, a log or a settings file."""
        aside = f"<small>{_text(note)}</small>" if note else ""
        self._blocks.append(
            f"<details{' open' if opened else ''}><summary><span>{_text(summary)}</span>{aside}</summary>"
            f'<pre tabindex="0">{_text(text)}</pre></details>'
        )

    def render(self) -> str:
        below = f'<p class="subtitle">{_text(self.subtitle)}</p>' if self.subtitle else ""
        style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("report.css", "report.js"))
        return web_page(
            f"<title>{_text(self.title)}</title>\n<style>{style}</style>\n<body>\n<main>\n"
            f"<header><h1>{_text(self.title)}</h1>{below}</header>\n"
            + "\n".join([*self._blocks, "</main>", f"<script>{script}</script>", "</body>"])
        ).html


def _framed(body: str, caption: str) -> str:
    """A card with a picture or a table. The caption stays where it is when the body scrolls sideways."""
    below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
    return f"<figure>{body}{below}</figure>"


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
