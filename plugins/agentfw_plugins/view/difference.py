"""Two episodes side by side, turn by turn, and two runs side by side, task by task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from statistics import fmean, median_low
from typing import NamedTuple

from .episode_view import EpisodeView, ShownTurn
from .search import Row

_LONGEST = 3000
"""Words of a text that are compared. Longer ones would take seconds."""


class Part(NamedTuple):
    """A part of a text, and whether the other text has it too."""

    text: str
    differs: bool


@dataclass(frozen=True)
class TurnPair:
    """The same turn of two episodes."""

    left: ShownTurn | None
    right: ShownTurn | None
    read: tuple[list[Part], list[Part]]
    said: tuple[list[Part], list[Part]]
    is_first: bool
    """Whether it is the first one that differs."""

    @property
    def recalled_the_same(self) -> bool:
        texts = [[one.get("text") for one in shown.recalled] if shown else [] for shown in (self.left, self.right)]
        return texts[0] == texts[1]

    @property
    def differs(self) -> bool:
        return any(part.differs for side in (*self.read, *self.said) for part in side)


@dataclass(frozen=True)
class Side:
    """What is compared: a run, or a stage of it."""

    name: str
    rows: Sequence[Row]

    def mean(self, figure: str) -> float | None:
        """The mean of a figure over the episodes that have it."""
        values = [row["figures"][figure] for row in self.rows if row["figures"].get(figure) is not None]
        return fmean(values) if values else None


@dataclass(frozen=True)
class Pair:
    """The episodes of one task."""

    left: Row
    right: Row

    @property
    def change(self) -> float | None:
        """None where one of the two has no reward."""
        if self.left["reward"] is None or self.right["reward"] is None:
            return None
        return float(self.right["reward"] - self.left["reward"])


def turn_pairs(left: EpisodeView, right: EpisodeView) -> list[TurnPair]:
    """The turns of two episodes, the first with the first."""
    found, differed = [], False
    for one, other in zip_longest(left.turns, right.turns):
        read = marked(_read(one), _read(other))
        said = marked(_done(one), _done(other))
        differs = any(part.differs for side in (*read, *said) for part in side)
        found.append(TurnPair(one, other, read, said, differs and not differed))
        differed = differed or differs
    return found


def marked(left: str, right: str) -> tuple[list[Part], list[Part]]:
    """Two texts in parts.

    >>> marked("keep A", "keep B")[1]
    [Part(text='keep ', differs=False), Part(text='B', differs=True)]
    """
    if left == right:
        return ([Part(left, False)] if left else []), ([Part(right, False)] if right else [])
    first, second = re.findall(r"\w+|\s+|[^\w\s]", left), re.findall(r"\w+|\s+|[^\w\s]", right)
    if len(first) + len(second) > _LONGEST:
        return [Part(left, True)], [Part(right, True)]
    sides: tuple[list[Part], list[Part]] = [], []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        for side, words in zip(sides, (first[a:b], second[c:d]), strict=True):
            if words:
                side.append(Part("".join(words), kind != "equal"))
    return sides


def pairs_of(left: Side, right: Side) -> list[Pair]:
    """The tasks that both have, the most changed first."""
    known = {_key(row): row for row in left.rows}
    found = [Pair(known[key], row) for row in right.rows if (key := _key(row)) in known and row["task"] is not None]
    return sorted(found, key=lambda pair: -abs(pair.change or 0.0))


def remarkable(pairs: Sequence[Pair]) -> list[tuple[str, Pair]]:
    """The pairs to look at first, by what the right side was rewarded with."""
    scored = [pair for pair in pairs if pair.right["reward"] is not None]
    if not scored:
        return []
    rewards = sorted(scored, key=lambda pair: pair.right["reward"])
    middle = median_low(range(len(rewards)))
    named = {"most changed": scored[0], "worst": rewards[0], "median": rewards[middle], "best": rewards[-1]}
    return list(named.items())


def _key(row: Row) -> tuple[object, ...]:
    return row["environment"], row["task"], row["sample"]


def _read(shown: ShownTurn | None) -> str:
    return "" if shown is None else "\n".join(one.content for _, one in shown.new if one.role != "assistant")


def _done(shown: ShownTurn | None) -> str:
    """What was said, and the calls with their arguments, one a line."""
    if shown is None:
        return ""
    calls = [f"{one.name}({', '.join(f'{each.name}={each.value}' for each in one.arguments)})" for one in shown.calls]
    return "\n".join([*([shown.said] if shown.said.strip() else []), *calls])
