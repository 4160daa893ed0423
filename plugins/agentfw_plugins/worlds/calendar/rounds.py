"""Conflict rounds: events that compete for the same hour, and how hard it is to choose between them."""

from __future__ import annotations

from dataclasses import dataclass

from .event_attributes import LETTERS, Event
from .regular_year import WEEKS

__all__ = ["PER_WEEK", "ROUNDS", "Difficulty", "Round"]

PER_WEEK = 2
ROUNDS = WEEKS * PER_WEEK
"""104. The paper samples one round a week but also says 104; two a week give a year of 104 rounds."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How rounds are generated. The defaults are those of the published benchmark."""

    margin: int = 1
    """Minimum lead of the accepted event over every other."""
    pool: int = 3
    """Maximum number of competitors drawn per one needed, before the round is drawn again."""
    regular: float = 0.35
    """Probability that a competitor is another regular meeting of the user."""
    second: float = 0.6
    """Probability of a second conflict reason, and again of a third."""
    touched: float = 0.4
    """Probability that a conflict reason applies to the anchor itself."""


@dataclass(frozen=True, slots=True)
class Round:
    """One conflict and its right answer."""

    number: int
    """From 1."""
    week: int
    day: int
    events: tuple[Event, ...]
    """In the order shown: A, B, C ..."""
    tags: tuple[dict[str, str], ...]
    accepted: int
    """Index of the event that the user keeps."""
    anchor: int
    """Index of the regular event."""
    case: str
    """A or B."""
    margin: int
    """Lead of the accepted event over the next."""

    @property
    def letters(self) -> str:
        return LETTERS[: len(self.events)]

    @property
    def answer(self) -> str:
        return LETTERS[self.accepted]
