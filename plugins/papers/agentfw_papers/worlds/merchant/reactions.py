"""What a merchant makes of a report: they take the product or not, and sometimes say what they would have liked.

Three sentences in ten are worded so that `said_wishes.py` doesn't understand them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from .merchants import Merchants, Order
from .tastes import TASTES

_MISSED = 0.3
_WRONG = ("I'd rather have products {words}.", "I prefer products {words}.", "I want products {words}.")
_RIGHT = ("I like products {words}.", "We really like products {words}.", "I love products {words}.")
_WRONG_MISSED = ("Was there nothing {words}?", "Hmm. I was hoping for something {words}.")
_RIGHT_MISSED = ("Something {words}, just right!", "How well you know me: {words}.")


@dataclass(frozen=True, slots=True)
class Reaction:
    """How a merchant takes it."""

    verdict: str
    """accepted or rejected."""
    said: str
    """Empty where the merchant says nothing."""


def react(order: Order, recommended: str, merchants: Merchants, draw: Random, *, speaks: float) -> Reaction:
    merchant, places = order.merchant, merchants.places[order.category]
    worth = {one: merchants.truth(merchant, order.category, one) for one in order.candidates}
    below = sum(value < worth[recommended] for value in worth.values())
    accepts = draw.random() < 1 / (1 + math.exp(-8 * (below / (len(worth) - 1) - 0.5)))
    said = ""
    if draw.random() < speaks:
        wrong = [
            question
            for question, name in merchant.tastes.items()
            if places[name][recommended] < max(places[name][one] for one in order.candidates)
        ]
        asked = wrong or list(merchant.tastes)
        (question,) = draw.choices(asked, [merchant.weights[one] for one in asked])
        missed = draw.random() < _MISSED
        wordings = (_WRONG_MISSED if missed else _WRONG) if wrong else (_RIGHT_MISSED if missed else _RIGHT)
        said = draw.choice(wordings).format(words=TASTES[merchant.tastes[question]].words)
    return Reaction("accepted" if accepts else "rejected", said)
