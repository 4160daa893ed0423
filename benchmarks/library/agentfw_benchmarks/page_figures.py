"""Figures of the pages, which are those of kept results.

A comment directly above a table or a paragraph names the results that its figures come from:

    <!-- figures: inbox_interfaces -->
    <!-- figures: quota; given: 900 2,813 -->

What is `given` comes from elsewhere: a paper's figure, a target, a size. Every other number with a decimal point, or
above 12, has to be in one of the results, rounded as the page rounds it. A page may show a share as a percentage, and
seconds in thousandths or millionths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .kept import Kept
from .numbers import numbers, texts_of, value_of
from .places import ROOT

_BLOCK = re.compile(
    r"^<!-- figures: (?P<names>[\w ,-]+?)(?:; given: (?P<given>.*?))? -->\n+(?P<text>.+?)(?=\n\n|\Z)", re.M | re.S
)
_FACTORS = (1, 100, 1e3, 1e6)
_SMALL = 12


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A number on a page."""

    page: str
    line: int
    text: str
    names: tuple[str, ...]
    """The kept results that it may come from."""

    def shows(self, value: float) -> bool:
        """Whether a page that rounds this value as it rounded the figure has the same text."""
        decimals = len(self.text.partition(".")[2])
        half = 0.500001 * 10.0**-decimals
        return any(abs(abs(value) * factor - abs(value_of(self.text))) <= half for factor in _FACTORS)

    def is_in(self, kept: Kept) -> bool:
        return any(self.shows(one.value) for one in numbers([kept.result, kept.shown]).values())

    def holds(self, before: Kept, now: Kept) -> bool:
        """Whether it comes out again in a later result, or its estimate is within the interval it had."""
        old, new = (numbers([one.result, one.shown]) for one in (before, now))
        return any(
            (place in new and self.shows(new[place].value))
            or (one.judge in new and old[one.judge].holds(new[one.judge].value))
            for place, one in old.items()
            if self.shows(one.value)
        )


def pages() -> list[Path]:
    """The pages that are written by hand."""
    folders = (ROOT / "docs", ROOT / "plugins" / "papers" / "docs")
    every = sorted(page for folder in folders for page in folder.rglob("*.md"))
    return [page for page in every if not page.read_text("utf-8").startswith("<!-- Generated")]


def page_figures() -> list[PageFigure]:
    """Every figure that a comment says the result of."""
    return [
        figure for page in pages() for figure in figures_of(page.read_text("utf-8"), page.relative_to(ROOT).as_posix())
    ]


def figures_of(text: str, page: str) -> Iterator[PageFigure]:
    """The figures of one page."""
    for block in _BLOCK.finditer(text):
        given = set((block["given"] or "").split())
        names = tuple(re.findall(r"[\w-]+", block["names"]))
        for number in texts_of(block["text"]):
            if number[0] not in given and ("." in number[0] or abs(value_of(number[0])) > _SMALL):
                yield PageFigure(page, text.count("\n", 0, block.start("text") + number.start()) + 1, number[0], names)
