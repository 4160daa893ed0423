"""How the demonstration solves sums: in one of four manners, from very thorough to answering at once.

The manner is drawn independently of the budget. A model that learns from demonstrations therefore learns to solve sums,
but nothing about time.

    >>> write((3, 5, 6), "plain")
    'so 3 5 8 6 14 <answer> 14</answer>'
    >>> write((3, 5, 6), "thorough")
    'add 3 + 5 = 8, 8 + 6 = 14; check back 6 + 5 = 11, 11 + 3 = 14 <answer> 14</answer>'

With five numbers they take the model `tiny-sums` 80 tokens, 54, 14 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Literal

Manner = Literal["very thorough", "thorough", "plain", "at once"]

MANNERS: dict[Manner, float] = {"very thorough": 0.2, "thorough": 0.6, "plain": 0.14, "at once": 0.06}
"""Probability of each: mostly thorough, like models that were trained to be right."""


def draw_manner(draw: Random) -> Manner:
    return draw.choices(list(MANNERS), list(MANNERS.values()))[0]


def write(terms: Sequence[int], manner: Manner) -> str:
    """A sum solved in this manner, with its answer."""
    parts: list[str] = []
    if manner == "plain":
        later = zip(terms[1:], list(accumulate(terms))[1:], strict=True)
        parts = ["so", str(terms[0]), *(f"{term} {after}" for term, after in later)]
    elif manner != "at once":
        parts = ["add " + _steps(terms) + "; check back " + _steps(terms[::-1])]
        if manner == "very thorough":
            parts[0] += "; check again " + _steps(terms)
    return " ".join([*parts, f"<answer> {sum(terms)}</answer>"])


def _steps(terms: Sequence[int]) -> str:
    sums = pairwise(accumulate(terms))
    return ", ".join(f"{before} + {term} = {after}" for (before, after), term in zip(sums, terms[1:], strict=True))
