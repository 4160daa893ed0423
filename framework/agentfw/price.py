"""What the tokens of a server cost.

Prices are per million tokens, as servers state them. agentfw knows no currency: prices, costs and limits on money are
all in the same one, whichever that is.

    >>> Price(prompt=2.0, cached=0.5, sampled=8.0).cost(Usage(prompt=1_000_000, cached=400_000, sampled=100_000))
    2.2
"""

from __future__ import annotations

from pydantic import Field

from .episode import Usage
from .settings import Settings

__all__ = ["FREE", "Price"]


class Price(Settings):
    """Prices per million tokens."""

    prompt: float = Field(ge=0, allow_inf_nan=False, description="Price of a million prompt tokens.")
    cached: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Price of a million prompt tokens that the server had cached. Default: that of the others.",
    )
    sampled: float = Field(ge=0, allow_inf_nan=False, description="Price of a million generated tokens.")

    def cost(self, usage: Usage) -> float | None:
        """What an answer cost. None if the server didn't report its tokens."""
        if not (self.prompt or self.cached or self.sampled):
            return 0.0
        if usage.prompt is None or usage.sampled is None:
            return None
        # A server that reports no cached tokens charges all of them as new ones.
        cached = 0 if self.cached is None else usage.cached or 0
        whole = (usage.prompt - cached) * self.prompt + cached * (self.cached or 0.0) + usage.sampled * self.sampled
        return whole / 1_000_000


FREE = Price(prompt=0.0, sampled=0.0)
"""The price of a model of one's own."""
