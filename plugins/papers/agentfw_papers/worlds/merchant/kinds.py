"""The four kinds of task, and what a report of each kind must hold.

A part is a topic that the report has to cover by one analysis. A judgement is a conclusion that is worth something only
if the analysis that it is drawn from was built on certain others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judgement:
    """A conclusion of a report."""

    text: str
    skill: str
    """The analysis that it is drawn from."""
    supports: tuple[str, ...]
    """Analyses that this one must have been built on."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of task."""

    name: str
    asks: str
    """The request, with a place for the category."""
    parts: Mapping[str, str]
    """The topics to cover, and the analysis that covers each."""
    judgements: tuple[Judgement, ...]


KINDS = (
    Kind(
        "opportunity",
        "Is there an opening for me in {category}?",
        {
            "demand": "category_trend",
            "concentration": "seller_concentration",
            "newcomers": "newcomer_share",
            "fit": "merchant_fit",
        },
        (
            Judgement("demand supports an entry by this merchant", "merchant_fit", ("category_trend",)),
            Judgement("the field leaves room for newcomers", "newcomer_share", ("seller_concentration",)),
        ),
    ),
    Kind(
        "industry",
        "What is going on in {category}?",
        {
            "demand": "category_trend",
            "subcategories": "subcategory_growth",
            "audience": "audience_segments",
            "leaders": "bestseller_rank",
        },
        (
            Judgement("the growth comes from these subcategories", "subcategory_growth", ("category_trend",)),
            Judgement("the leaders serve the largest audience", "audience_segments", ("bestseller_rank",)),
        ),
    ),
    Kind(
        "competition",
        "Whom am I up against in {category}?",
        {
            "concentration": "seller_concentration",
            "leaders": "bestseller_rank",
            "complaints": "review_complaints",
            "newcomers": "newcomer_share",
        },
        (
            Judgement("the leaders can be attacked where buyers complain", "review_complaints", ("bestseller_rank",)),
            Judgement("newcomers find room beside the leaders", "newcomer_share", ("seller_concentration",)),
        ),
    ),
    Kind(
        "selection",
        "Which of these {category} should I take on?",
        {
            "fit": "merchant_fit",
            "capacity": "capacity_fit",
            "elasticity": "price_elasticity",
            "audience": "audience_segments",
        },
        (
            Judgement("the merchant can supply the demand", "capacity_fit", ("category_trend",)),
            Judgement("the price suits the buyers", "price_elasticity", ("audience_segments",)),
        ),
    ),
)
