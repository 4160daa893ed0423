"""An analysis: what it is called, what it reads, and the evidence that it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .market import Category


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an analysis found."""

    skill: str
    figures: Mapping[str, float]
    text: str
    ranking: Mapping[str, float] = field(default_factory=dict)
    """How well each product of the category does, from 0 to 1, where the analysis ranks products."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What an analysis reads."""

    category: Category
    months: int
    """Number of recent months to look at."""
    tier: tuple[float, float]
    """Range of the merchant's prices."""
    capacity: int
    """Pieces a month that the merchant can supply."""
    built_on: Mapping[str, Evidence]
    """Earlier evidence that it uses, by analysis."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One analysis."""

    name: str
    about: str
    topic: str
    """What it covers, in the words of a request. Empty for an analysis that ranks products by a taste."""
    family: str
    takes: float
    run: Callable[[Inputs], Evidence]
    needs: tuple[str, ...] = ()
    """Analyses that must have been done before."""
    uses: tuple[str, ...] = ()
    """Analyses that it uses if they have been done before."""
    arguments: tuple[str, ...] = ()
    """Arguments that a step of it may have, each a whole number."""
    of_merchant: bool = False
    """Whether the evidence differs between merchants."""
