"""Conflict rounds: events that compete for the same hour, and how hard it is to choose between them."""

from __future__ import annotations

from dataclasses import dataclass

from .event_attributes import LETTERS, Event
from .regular_year import WEEKS

__all__ = ["PER_WEEK", "ROUNDS", "Difficulty", "Round"]

PER_WEEK = 2
ROUNDS = WEEKS * PER_WEEK
"""104. The paper's text samples one round a week and also says 104; two a week is what makes both a year and 104."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How rounds are drawn. The defaults are what the benchmark is published with."""

    margin: int = 1
    """By how much the accepted event must be ahead of every other."""
    pool: int = 3
    """How many competitors are drawn at most for each that is wanted, before the round is drawn anew."""
    regular: float = 0.35
    """How often a competitor is another regular meeting of the user, moved here."""
    second: float = 0.6
    """How often a second conflict reason applies, and again a third: multi-factor conflicts."""
    touched: float = 0.4
    """How often something comes up about the anchor itself."""


@dataclass(frozen=True, slots=True)
class Round:
    """One conflict and its one true answer."""

    number: int
    """From 1."""
    week: int
    day: int
    events: tuple[Event, ...]
    """In the order in which they are shown: A, B, C ..."""
    tags: tuple[dict[str, str], ...]
    accepted: int
    """Which of the events the user keeps."""
    anchor: int
    """Which of them is the regular one."""
    case: str
    """A or B."""
    margin: int
    """How far the accepted event is ahead of the next."""

    @property
    def letters(self) -> str:
        return LETTERS[: len(self.events)]

    @property
    def answer(self) -> str:
        return LETTERS[self.accepted]
