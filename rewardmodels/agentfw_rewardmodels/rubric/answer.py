"""What the judge's model answers: a text, and how many tokens it took.

>>> Usage(prompt=100, sampled=5) + Usage(prompt=20, cached=15, sampled=7)
Usage(prompt=120, cached=None, sampled=12, cost=0.0)
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

__all__ = ["Answer", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens, and what they cost. None means unknown, and a sum with an unknown number is unknown too."""

    prompt: int | None = None
    """Tokens that were read, including cached ones."""
    cached: int | None = None
    """Prompt tokens that the server had cached from earlier requests."""
    sampled: int | None = None
    """Tokens that were generated."""
    cost: float | None = 0.0
    """What they cost, in any currency."""

    def __add__(self, other: Usage) -> Usage:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*(None if one is None or more is None else one + more for one, more in pairs))


@dataclass(frozen=True, slots=True)
class Answer:
    """A text and its usage."""

    text: str
    usage: Usage = field(default_factory=Usage)
