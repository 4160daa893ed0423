"""What a day is worth, after table 19 of the engagement-process paper.

The one rule: a mail counts if it was handled when due at the latest, and a document as far as it is written.

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
"""What a whole document pays: four units of 0.4 each, in however many sections."""
FINISHED = 0.8
HANDLED = 0.4
MISSED = -0.5
SWITCH = -0.005
INTERRUPTION = -0.005

_WEIGHTS = {"high": 1.2, "medium": 0.5, "low": 0.1}
_SHARE, _GAP = 0.6, 0.5
"""How much the document counts beside the mails, and what their difference costs."""


def in_time(mails: Sequence[Mail]) -> float:
    """The share of mails that were handled in time, weighted by urgency; all of them where none has come."""
    weight = sum(_WEIGHTS[mail.urgency] for mail in mails)
    return sum(_WEIGHTS[mail.urgency] for mail in mails if mail.handled) / weight if weight else 1.0


def balanced(document: float, mails: float) -> float:
    """Both together, and less the further they are apart."""
    return _SHARE * document + (1 - _SHARE) * mails - _GAP * abs(document - mails)
