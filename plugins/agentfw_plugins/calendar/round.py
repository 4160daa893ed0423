"""One round of the calendar benchmark: a conflict between events, and its one true answer."""

from __future__ import annotations

from dataclasses import dataclass

from .attributes import LETTERS, Event

__all__ = ["Round"]


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
