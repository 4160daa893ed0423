"""The market: categories, their products, and what was sold, searched and reviewed month by month.

All figures are generated, and analyses compute from nothing else. The same settings give the same market.

    >>> market = market_of(MerchantSettings())
    >>> len(market.categories), len(market.categories["tea"].products)
    (12, 40)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from agentfw.seeds import Seeds

from .merchant_settings import MerchantSettings

_NAMES = ("tea", "lamps", "shoes", "toys", "tents", "soap", "bags", "mugs", "plants", "cables", "snacks", "scarves")
_KINDS = ("classic", "travel", "gift", "premium")
ASPECTS = ("material", "size", "delivery", "packing", "smell")
SEGMENTS = ("students", "families", "offices", "pensioners")
_FLAGS = ("certificate missing", "brand dispute", "returns", "single supplier")


@dataclass(frozen=True, slots=True)
class Product:
    """One product and its history, the oldest month first."""

    id: str
    kind: str
    """Subcategory."""
    seller: str
    cost: float
    prices: tuple[float, ...]
    sales: tuple[int, ...]
    searches: tuple[int, ...]
    launched: int
    """Month in which it was first sold."""
    praise: Mapping[str, int]
    complaints: Mapping[str, int]
    """Number of reviews, by aspect."""
    buyers: Mapping[str, float]
    """Share of each segment."""
    flags: tuple[str, ...]
    hazard: float
    """Estimated probability of a loss within a year."""


@dataclass(frozen=True, slots=True)
class Category:
    """A category with its products."""

    name: str
    products: Mapping[str, Product]

    def sold(self, month: int) -> int:
        return sum(product.sales[month] for product in self.products.values())


@dataclass(frozen=True, slots=True)
class Market:
    """All categories."""

    categories: Mapping[str, Category]
    months: int


def market_of(settings: MerchantSettings) -> Market:
    return _market(settings.world, settings.categories, settings.products, settings.months)


@lru_cache(maxsize=4)
def _market(world: int, categories: int, products: int, months: int) -> Market:
    seeds = Seeds(world).child("market")
    made = {name: _category(name, products, months, seeds.random(name)) for name in _NAMES[:categories]}
    return Market(made, months)


def _category(name: str, count: int, months: int, generator: Random) -> Category:
    growth, peak, swing = generator.uniform(-0.01, 0.03), generator.randrange(12), generator.uniform(0.1, 0.4)
    ranks = list(range(count))
    generator.shuffle(ranks)
    products = {}
    for number in range(count):
        one = _product(f"{name}-{number}", ranks[number], growth, peak, swing, months, generator)
        products[one.id] = one
    return Category(name, products)


def _product(id: str, rank: int, growth: float, peak: int, swing: float, months: int, generator: Random) -> Product:
    level = 3000 / (1 + rank) ** 0.5
    own, seasonal = growth + generator.gauss(0, 0.03), swing * generator.uniform(0, 2)
    buzz, unrest = generator.gauss(0, 0.05), generator.uniform(0, 0.12)
    launched = generator.randrange(months // 2) if generator.random() < 0.4 else 0
    price = generator.uniform(5, 80)
    cost = price * generator.uniform(0.3, 0.9)
    prices, sales, searches = [], [], []
    for month in range(months):
        season = 1 + min(0.9, seasonal) * math.cos(2 * math.pi * (month - peak) / 12)
        prices.append(round(price * (1 + generator.uniform(-unrest, unrest)), 2))
        expected = level * (1 + own) ** (month - months) * season * generator.uniform(0.9, 1.1)
        sales.append(round(expected) if month >= launched else 0)
        searches.append(round(20 * level * (1 + own + buzz) ** (month - months) * generator.uniform(0.9, 1.1)))
    quality = generator.uniform(0.3, 0.95)
    praise, complaints = {}, {}
    for aspect in ASPECTS:
        written = generator.randint(5, 60)
        praise[aspect] = sum(generator.random() < quality for _ in range(written))
        complaints[aspect] = written - praise[aspect]
    shares = [generator.random() for _ in SEGMENTS]
    flags = tuple(flag for flag in _FLAGS if generator.random() < 0.25)
    return Product(
        id,
        generator.choice(_KINDS),
        f"seller {generator.randrange(8)}",
        round(cost, 2),
        tuple(prices),
        tuple(sales),
        tuple(searches),
        launched,
        praise,
        complaints,
        {segment: share / sum(shares) for segment, share in zip(SEGMENTS, shares, strict=True)},
        flags,
        min(1.0, 0.05 + 0.2 * len(flags) + generator.uniform(0, 0.1)),
    )
