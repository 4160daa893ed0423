"""How a day is scored, after table 19 of the engagement-process paper.

A mail counts if it was handled by its due time. A document counts by the share that is written.

    >>> round(balanced(document=1.0, mails=0.5), 3)
    0.55
    >>> round(balanced(document=0.8, mails=0.8), 3)
    0.8
"""

from __future__ import annotations

from collections.abc import Sequence

from .mails import Mail

__all__ = ["DOCUMENT", "FINISHED", "HANDLED", "INTERRUPTION", "MISSED", "SWITCH", "balanced", "in_time"]

DOCUMENT = 4 * 0.4
"""Value of a complete document: four units of 0.4, for any number of sections."""
FINISHED = 0.8
HANDLED = 0.4
MISSED = -0.5
SWITCH = -0.005
INTERRUPTION = -0.005

_WEIGHTS = {"high": 1.2, "medium": 0.5, "low": 0.1}
_SHARE, _GAP = 0.6, 0.5
"""Weight of the document relative to the mails, and cost of their difference."""


def in_time(mails: Sequence[Mail]) -> float:
    """Share of mails handled in time, weighted by urgency; 1 if none arrived."""
    weight = sum(_WEIGHTS[mail.urgency] for mail in mails)
    return sum(_WEIGHTS[mail.urgency] for mail in mails if mail.handled) / weight if weight else 1.0


def balanced(document: float, mails: float) -> float:
    """Combine both; the further they are apart, the lower the result."""
    return _SHARE * document + (1 - _SHARE) * mails - _GAP * abs(document - mails)
