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
from typing import TYPE_CHECKING

from agentfw.errors import UsageError
from agentfw.report.axis import number_labels
from agentfw.report.shapes import printable
from agentfw.report.statistics import Interval

if TYPE_CHECKING:
    from agentfw.report.canvas import Canvas

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
    return Number(value, f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}")


class Page:
    """Collects blocks in order and renders them. All arguments are plain text, and markup in them is escaped."""

    def __init__(self, title: str, *, subtitle: str = "", language: str = "en") -> None:
        self.title, self.subtitle, self.language = title, subtitle, language
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
        numeric = [
            any(row[index] is not None for row in rows)
            and all(row[index] is None or _value(row[index]) is not None for row in rows)
            for index in range(len(columns))
        ]
        shown = [_column([row[index] for row in rows]) for index in range(len(columns))]
        head = "".join(
            f'<th scope="col"{_side(number)}><button type="button">{_text(name)}</button></th>'
            if name
            else f'<th scope="col"{_side(number)}></th>'
            for name, number in zip(columns, numeric, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{_side(numeric[column])}{_key(cell)}>{_text(shown[column][line])}</td>"
                for column, cell in enumerate(row)
            )
            + "</tr>\n"
            for line, row in enumerate(rows)
        )
        drawn = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
        self._blocks.append(_framed(f'<div class="scroll" tabindex="0">{drawn}</div>', caption))

    def details(self, summary: str, text: str, *, note: str = "", opened: bool = False) -> None:
        """Preformatted text in a collapsible block, such as a transcript, a log or a settings file."""
        aside = f"<small>{_text(note)}</small>" if note else ""
        self._blocks.append(
            f"<details{' open' if opened else ''}><summary><span>{_text(summary)}</span>{aside}</summary>"
            f'<pre tabindex="0">{_text(text)}</pre></details>'
        )

    def render(self) -> str:
        from agentfw.report.report_style import SCRIPT, STYLE
        from agentfw.report.web_page import page_policy

        below = f'<p class="subtitle">{_text(self.subtitle)}</p>' if self.subtitle else ""
        blocks = "\n".join(self._blocks)
        return f"""<!doctype html>
<html lang="{_text(self.language)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{page_policy(STYLE, SCRIPT)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{_text(self.title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<main>
<header><h1>{_text(self.title)}</h1>{below}</header>
{blocks}
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _framed(body: str, caption: str) -> str:
    """A card with a picture or a table. The caption stays where it is when the body scrolls sideways."""
    below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
    return f"<figure>{body}{below}</figure>"


def _text(text: str) -> str:
    return escape(printable(text), quote=True)


def _value(cell: Cell) -> float | None:
    """The value that a cell is sorted by, if it is a number."""
    match cell:
        case bool():
            return None
        case int() | float():
            return float(cell)
        case Number(value=value):
            return value
        case Interval(estimate=estimate):
            return estimate
    return None


def _column(cells: Sequence[Cell]) -> list[str]:
    """The cells as text. Plain numbers of one column get the same unit and decimals."""
    plain = [cell for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
    labels = iter(number_labels([float(number) for number in plain]))
    shown = []
    for cell in cells:
        match cell:
            case None:
                shown.append("–")
            case bool():
                shown.append("yes" if cell else "no")
            case int() | float():
                shown.append(next(labels))
            case Number(text=text):
                shown.append(text)
            case _:
                shown.append(str(cell))
    return shown


def _side(number: bool) -> str:
    return ' class="number"' if number else ""


def _key(cell: Cell) -> str:
    value = _value(cell)
    return "" if value is None else f' data-value="{value!r}"'
