"""What a statement says: subject, aspect and value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EVERY_ANSWER", "Fact"]

EVERY_ANSWER = "every answer"
"""The aspect of how a user wants to be answered. Unlike other facts, one may have several of these."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one statement says. All but the value is case-folded."""

    subject: str
    aspect: str
    value: str
    negated: bool = False
    """Whether the statement says that this no longer holds."""

    @property
    def name(self) -> str:
        """The name under which newer and older statements of the same thing are kept."""
        return f"{self.subject}: {self.aspect}"
