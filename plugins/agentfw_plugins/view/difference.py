"""Two episodes side by side, turn by turn, and two runs side by side, task by task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from statistics import median_low
from typing import NamedTuple

from agentfw.runs import RunFolder

from .episode_view import EpisodeView, ShownTurn
from .search import Row

_LONGEST = 3000  # words of changed lines that are compared. More would take seconds
_WORD = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


class Part(NamedTuple):
    """A part of a text, and whether the other text has it too."""

    text: str
    differs: bool


class TurnPair(NamedTuple):
    """The same turn of two episodes."""

    left: ShownTurn | None
    right: ShownTurn | None
    read: tuple[list[Part], list[Part]]
    said: tuple[list[Part], list[Part]]

    @property
    def recalled_the_same(self) -> bool:
        texts = [[one.get("text") for one in shown.recalled] if shown else [] for shown in (self.left, self.right)]
        return texts[0] == texts[1]

    @property
    def differs(self) -> bool:
        return any(part.differs for side in (*self.read, *self.said) for part in side)


class Side(NamedTuple):
    """What is compared: a run, or an evaluation of it."""

    name: str
    folder: RunFolder
    evaluation: int | None
    rows: Sequence[Row]


class Pair(NamedTuple):
    """The episodes of one task, with their values of the figure that is compared. None where one wasn't measured."""

    left: Row
    right: Row
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


def turn_pairs(left: EpisodeView, right: EpisodeView) -> list[TurnPair]:
    """The turns of two episodes, the first with the first."""

    def read(shown: ShownTurn | None) -> str:
        return "" if shown is None else "\n".join(message.content for message in shown.read)

    def done(shown: ShownTurn | None) -> str:
        if shown is None:
            return ""
        return "\n".join([*([shown.said] if shown.said.strip() else []), *map(str, shown.calls)])

    return [
        TurnPair(one, other, marked(read(one), read(other)), marked(done(one), done(other)))
        for one, other in zip_longest(left.turns, right.turns)
    ]


def marked(left: str, right: str) -> tuple[list[Part], list[Part]]:
    """Two texts in parts.

    >>> marked("keep A", "keep B")[1]
    [Part(text='keep ', differs=False), Part(text='B', differs=True)]
    """
    sides: tuple[list[Part], list[Part]] = [], []
    for line in _differing(left.splitlines(keepends=True), right.splitlines(keepends=True)):
        first, second = map(_WORD.findall, line[1:])
        words = line[0] and len(first) + len(second) <= _LONGEST
        for part_differs, *texts in _differing(first, second) if words else (line,):
            for side, text in zip(sides, texts, strict=True):
                if text:
                    side.append(Part(text, part_differs))
    return sides


def _differing(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[bool, str, str]]:
    """The parts of two sequences in their order, and whether they differ."""
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        yield kind != "equal", "".join(first[a:b]), "".join(second[c:d])


def pairs_of(left: Side, right: Side, figure: str) -> list[Pair]:
    """The tasks that both have, the most changed first."""
    known = {(row["environment"], row["task"], row["sample"]): row for row in left.rows}
    found = []
    for row in right.rows:
        same = known.get((row["environment"], row["task"], row["sample"]))
        if same is not None and row["task"] is not None:
            found.append(Pair(same, row, same["figures"].get(figure), row["figures"].get(figure)))
    return sorted(found, key=lambda pair: -abs(pair.change or 0.0))


def remarkable(pairs: Sequence[Pair], better: str) -> list[tuple[str, Pair]]:
    """The pairs to look at first, by the figure of the right side. `better` is as in a row of the comparison."""
    measured = [pair for pair in pairs if pair.after is not None]
    if not measured:
        return []
    in_order = sorted(measured, key=lambda pair: pair.after or 0.0, reverse=better == "lower")
    lowest, highest = ("worst", "best") if better else ("lowest", "highest")
    middle = in_order[median_low(range(len(in_order)))]
    return [("most changed", measured[0]), (lowest, in_order[0]), ("median", middle), (highest, in_order[-1])]
