"""What merchants care about: four questions with two answers each, and which analysis can tell.

>>> [taste.name for taste in QUESTIONS["aim"]]
['margin', 'volume']
>>> TASTES["margin"].skill
'price_band'

A merchant's wishes are read from what a policy is shown: the lines that the memory recalls, and the profile.

>>> recalled_wishes("- s12: For products, prefer products at stable prices (tools: plan; for: products)")
{'steady': False}
>>> recalled_wishes("- s13: For products, avoid products at stable prices (tools: plan; for: products)")
{}
>>> stated_wishes("products: wants products at stable prices and with a high margin")
['margin', 'steady']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev

from .market import Category, Product


@dataclass(frozen=True, slots=True)
class Taste:
    """An answer to a question: what a product must have to please."""

    name: str
    skill: str
    """The analysis that ranks products by it."""
    words: str
    """How a merchant says it: "products ...". """
    figure: Callable[[Product], float]


def _recent(product: Product) -> float:
    return fmean(product.sales[-3:])


def _rise(product: Product) -> float:
    return _recent(product) / max(1.0, fmean(product.sales[-6:-3]))


def _buzz(product: Product) -> float:
    return fmean(product.searches[-3:]) / max(1.0, fmean(product.searches[-12:-9]))


def _approval(product: Product) -> float:
    good, bad = sum(product.praise.values()), sum(product.complaints.values())
    return good / max(1, good + bad)


def _swing(product: Product) -> float:
    year = product.sales[-12:]
    return (max(year) - min(year)) / max(1.0, fmean(year))


def _calm(product: Product) -> float:
    return -pstdev(product.prices) / fmean(product.prices)


def _margin(product: Product) -> float:
    return (product.prices[-1] - product.cost) / product.prices[-1]


QUESTIONS: Mapping[str, tuple[Taste, Taste]] = {
    "aim": (
        Taste("margin", "price_band", "with a high margin", _margin),
        Taste("volume", "sales_forecast", "that sell in large numbers", _recent),
    ),
    "risk": (
        Taste("careful", "risk_screen", "without legal trouble", lambda product: -product.hazard),
        Taste("bold", "rank_movement", "that climb the charts", _rise),
    ),
    "novelty": (
        Taste("novel", "keyword_trend", "everybody suddenly searches for", _buzz),
        Taste("proven", "review_aspects", "praised in reviews", _approval),
    ),
    "rhythm": (
        Taste("seasonal", "season_shape", "for the holidays", _swing),
        Taste("steady", "price_competition", "at stable prices", _calm),
    ),
}
TASTES: Mapping[str, Taste] = {taste.name: taste for pair in QUESTIONS.values() for taste in pair}


def percentiles(category: Category, figure: Callable[[Product], float]) -> dict[str, float]:
    """The place of each product in its category, from 0 for the lowest figure to 1 for the highest."""
    ordered = sorted(category.products.values(), key=lambda product: (figure(product), product.id))
    return {product.id: place / max(1, len(ordered) - 1) for place, product in enumerate(ordered)}


def fame_of(category: Category) -> dict[str, float]:
    """How famous each product is: its place among the bestsellers."""
    return percentiles(category, _recent)


_RECALLED = re.compile(r"^- (s\d+): (For \w+, (?:prefer|give|provide) [^(\n]*)(\(.*\))?$", re.MULTILINE)
_STATED = re.compile(r"^products: wants products (.*)$", re.MULTILINE)
_SHARED = "wish of several users"


def recalled_wishes(shown: str) -> dict[str, bool]:
    """The recalled tastes, the best match first, and whether each is a wish of several merchants."""
    return {
        taste.name: _SHARED in (found[3] or "")
        for found in _RECALLED.finditer(shown)
        for taste in TASTES.values()
        if taste.words in found[2]
    }


def stated_wishes(shown: str) -> list[str]:
    """The tastes that the profile names."""
    found = _STATED.search(shown)
    return [taste.name for taste in TASTES.values() if found and taste.words in found[1]]
