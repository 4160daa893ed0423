"""Figures of the pages, which are those of kept results.

A comment directly above a table or a paragraph names the results that its figures come from:

    <!-- figures: inbox_interfaces -->
    <!-- figures: quota; given: 900 2,813 -->

What is `given` comes from elsewhere: a paper's figure, a target, a size. Every other number with a decimal point, or
above 12, has to be in one of the results, rounded as the page rounds it. The numbers of a table's row have to be in one
record of a result, or in one line that its program prints. A page may show a share as a percentage, and seconds in
thousandths or millionths.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .numbers import texts_of, value_of

_BLOCK = re.compile(
    r"^<!-- figures: (?P<names>[\w ,-]+?)(?:; given: (?P<given>.*?))? -->\n+(?P<text>.+?)(?=\n\n|\Z)", re.M | re.S
)
_FACTORS = (1, 100, 1e3, 1e6)
_SMALL = 12
_RECORD = 100
"""A record of a result with more numbers than this is not one row."""


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A number on a page."""

    page: str
    line: int
    text: str
    names: tuple[str, ...]
    """The kept results that it may come from."""
    in_table: bool

    def shown_for(self, values: Iterable[float]) -> list[bool]:
        """Of which values a page that rounds them as it rounded this figure has the same text."""
        half = 0.500001 * 10.0 ** -len(self.text.partition(".")[2])
        sought = abs(value_of(self.text))
        return [any(abs(abs(value) * factor - sought) <= half for factor in _FACTORS) for value in values]


def figures_of(text: str, page: str) -> Iterator[PageFigure]:
    """The figures of one page, line by line."""
    for block in _BLOCK.finditer(text):
        given = set((block["given"] or "").split())
        names = tuple(re.findall(r"[\w-]+", block["names"]))
        first = text.count("\n", 0, block.start("text")) + 1
        for line, content in enumerate(block["text"].splitlines(), first):
            for number in texts_of(content):
                if number[0] not in given and ("." in number[0] or abs(value_of(number[0])) > _SMALL):
                    yield PageFigure(page, line, number[0], names, content.startswith("|"))


Origins = dict[PageFigure, list[str]]
"""Where in a result each figure may come from: the places of numbers."""


def origins(figures: Iterable[PageFigure], results: Mapping[str, Mapping[str, float]]) -> dict[str, Origins]:
    """Where the figures of a page come from, for each result that they name."""
    found: dict[str, Origins] = {}
    sizes: dict[str, Counter[str]] = {}
    for _, same in itertools.groupby(figures, key=lambda one: one.line):
        row = list(same)
        for name in row[0].names:
            result = results.get(name, {})
            if name not in sizes:
                sizes[name] = Counter(record for place in result for record in _records_of(place))
            found.setdefault(name, {}).update(_in_result(row, result, sizes[name]))
    return found


def _in_result(row: Sequence[PageFigure], result: Mapping[str, float], sizes: Mapping[str, int]) -> Origins:
    places = {one: list(itertools.compress(result, one.shown_for(result.values()))) for one in row}
    if not row[0].in_table:
        return places
    record = _record_with_most(places, sizes)
    return {one: [place for place in every if record in _records_of(place)] for one, every in places.items()}


def _record_with_most(places: Origins, sizes: Mapping[str, int]) -> str:
    """The record that has most figures of a row, without those that are too large to be one."""
    counts = Counter(
        record for every in places.values() for record in {one for each in every for one in _records_of(each)}
    )
    return max((one for one in counts if sizes[one] <= _RECORD), key=lambda one: counts[one], default="")


def _records_of(place: str) -> list[str]:
    """The records that a number is in, from the smallest on: "[0].rows[2].share" is in "[0].rows[2]" and two others."""
    return [place, *(place[: end.start()] for end in list(re.finditer(r"[.\[#]", place))[:0:-1])]
