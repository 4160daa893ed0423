"""What a model with a short memory reads: everything that a turn needs, in one short message.

    request: opportunity
    topics: demand, concentration, newcomers, fit
    about: sells in the south, low prices, medium capacity, among outfitters
    products: wants products at stable prices
    analyses: category_trend, season_shape, ...

The world is the same, and so are the plans. Left out are the category, the candidates and the figures of the evidence,
which no plan depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .kinds import Kind
from .skills import SKILLS


def request_card(kind: Kind, profile: Mapping[str, str]) -> str:
    """The card of a request."""
    lines = [
        f"request: {kind.name}",
        f"topics: {', '.join(kind.parts)}",
        *(f"{view}: {text}" for view, text in profile.items()),
        f"analyses: {', '.join(SKILLS)}",
    ]
    return "\n".join(lines)


def evidence_card(done: Iterable[str], failed: Iterable[str], plans_left: int) -> str:
    """The card of a plan that is done: the ids of all steps so far."""
    return f"done: {_listed(done)}\nfailed: {_listed(failed)}\nplans left: {plans_left}"


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(ids) or "nothing"
