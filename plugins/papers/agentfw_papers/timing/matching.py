"""How well predicted actions agree with the reference's: the values of equations 1 and 2, one for each prediction.

The mean of these values over a turn is action consistency (AC), the highest is Max AC.

Points that the paper leaves open are decided here. Equation 1 calls C a fraction, but it has to be a count, or AC could
not reach 1. A reference without inputs gives 1 to every namesake. An input that the prediction doesn't list doesn't
match, even where the reference lists it as not provided. Inputs that the reference doesn't list are ignored. It makes
no difference whether a prediction lists an input as required or as optional: the catalog decides that. The status is no
part of AC.

    >>> name = Input("customer_name", provided=True, value="Joyce Wu")
    >>> reference = [Opportunity("pull-up-account", "triggered", required=(name, Input("account_id")))]
    >>> agreements([Opportunity("pull-up-account", "pending", (name,)), Opportunity("send-link", "pending")], reference)
    [0.5, 0.0]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

from agentfw_papers.timing.actions import Input, Opportunity

Canonical = Callable[[str, str, str], str]
"""From an action, one of its inputs and a value to the canonical value. `Catalog.canonical` is one."""

_SEPARATORS = re.compile(r"[\W_]+")


def agreements(
    predicted: Sequence[Opportunity], reference: Sequence[Opportunity], *, canonical: Canonical | None = None
) -> list[float]:
    """For each prediction the share of inputs on which it agrees with its best namesake; 0 without a namesake."""
    return [
        max((_agreement(one, other, canonical) for other in reference if other.name == one.name), default=0.0)
        for one in predicted
    ]


def same_value(first: str, second: str) -> bool:
    """Whether two values are the same apart from case, spaces and punctuation.

    >>> same_value("(977) 625-2661", "977-625-2661"), same_value("Bronze", "gold")
    (True, False)
    """
    return first == second or normalise(first) == normalise(second)


@lru_cache(maxsize=16_384)
def normalise(text: str) -> str:
    """The text case-folded, each run of spaces and punctuation as one space."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # A text of punctuation alone is still itself.
    return _SEPARATORS.sub(" ", folded).strip() or folded.strip()


def _agreement(predicted: Opportunity, reference: Opportunity, canonical: Canonical | None) -> float:
    expected = reference.inputs
    if not expected:
        return 1.0
    found = predicted.inputs
    matching = sum(
        name in found and _same_input(reference.name, found[name], one, canonical) for name, one in expected.items()
    )
    return matching / len(expected)


def _same_input(action: str, first: Input, second: Input, canonical: Canonical | None) -> bool:
    if first.provided != second.provided:
        return False
    if first.value is None or second.value is None:
        return first.value is second.value
    if same_value(first.value, second.value):
        return True
    return canonical is not None and same_value(
        canonical(action, first.name, first.value), canonical(action, second.name, second.value)
    )
