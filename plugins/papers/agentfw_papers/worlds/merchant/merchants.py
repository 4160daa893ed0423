"""The merchants: what is known of each, their hidden tastes, and what they ask for.

Merchants of one circle have similar tastes. A taste is an answer to each question of `tastes`, with a weight. Besides,
bestsellers are worth something to everyone, to some more than to others.

    >>> merchants = Merchants(MerchantSettings())
    >>> ana = merchants.merchant("test 0")
    >>> ana == merchants.merchant("test 0"), sorted(ana.tastes) == sorted(QUESTIONS)
    (True, True)

What a merchant makes of a report: they take the product or not, and sometimes say what they would have liked.

Three sentences in ten are worded so that `said_wishes.py` doesn't understand them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from agentfw.seeds import Seeds

from .kinds import KINDS, Kind
from .market import market_of
from .merchant_settings import MerchantSettings
from .tastes import QUESTIONS, TASTES, fame_of, percentiles

TIERS: Mapping[str, tuple[float, float]] = {"low": (0, 30), "middle": (20, 60), "high": (45, math.inf)}
"""Range of prices."""
CAPACITIES: Mapping[str, int] = {"small": 400, "medium": 1200, "large": 4000}
"""Pieces a month."""
_HAS = 0.7
"""Place in the category from which on a product has what a taste asks for."""
_REGIONS = ("north", "south", "coast", "capital")


@dataclass(frozen=True, slots=True)
class Merchant:
    """One merchant. Tastes and conformity are hidden from the agent."""

    name: str
    circle: int
    tastes: Mapping[str, str]
    """The answer to each question."""
    weights: Mapping[str, float]
    conformity: float
    stated: Mapping[str, str]
    """What the merchant once said that they want. Some of it no longer holds."""
    tier: str
    capacity: str
    profile: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Order:
    """What one merchant asks for on one day."""

    merchant: Merchant
    day: int
    kind: Kind
    category: str
    candidates: tuple[str, ...]


class Merchants:
    """All merchants of one world and what their products are worth to them. A name is a split and a number."""

    def __init__(self, settings: MerchantSettings) -> None:
        self.settings, self.market = settings, market_of(settings)
        self._seeds = Seeds(settings.world).child("merchants")
        self._known: dict[str, Merchant] = {}
        self._circles = [
            {
                question: self._seeds.random("circle", number, question).choice(pair).name
                for question, pair in QUESTIONS.items()
            }
            for number in range(settings.circles)
        ]
        self.fame = {name: fame_of(category) for name, category in self.market.categories.items()}
        self.places = {
            name: {taste.name: percentiles(category, taste.figure) for taste in TASTES.values()}
            for name, category in self.market.categories.items()
        }
        """How well each product of a category meets each taste, from 0 to 1."""

    def merchant(self, name: str) -> Merchant:
        if name not in self._known:
            self._known[name] = self._make(name)
        return self._known[name]

    def turn(self, split: str, index: int) -> tuple[str, int]:
        """Who asks in the task of this number, and on which day."""
        day, number = divmod(index, self.settings.merchants(split))
        return f"{split} {number}", day + 1

    def query(self, name: str, day: int) -> str:
        """What is asked for. Merchants of one split who ask on one day can have the same query."""
        kind, category = self._subject(name, day)
        return f"{name.split()[0]} {day} {kind.name} {category}"

    def order(self, name: str, day: int) -> Order:
        kind, category = self._subject(name, day)
        products = sorted(self.market.categories[category].products)
        # By the query, so that all merchants with one query are asked about the same products.
        draw = self._seeds.random("candidates", self.query(name, day))
        candidates = tuple(draw.sample(products, self.settings.candidates))
        return Order(self.merchant(name), day, kind, category, candidates)

    def truth(self, merchant: Merchant, category: str, product: str) -> float:
        """What a product is really worth to a merchant, from 0 to 1."""
        wanted = self.wanted(merchant.tastes, category, product, merchant.weights)
        return (1 - merchant.conformity) * wanted + merchant.conformity * self.fame[category][product]

    def wanted(
        self, tastes: Mapping[str, str], category: str, product: str, weights: Mapping[str, float] | None = None
    ) -> float:
        """How well a product meets tastes: their weighted mean, from 0 to 1. One half where there are none."""
        if not tastes:
            return 0.5
        weigh = {question: weights[question] if weights else 1.0 for question in tastes}
        met = math.fsum(weigh[question] * self.places[category][name][product] for question, name in tastes.items())
        return met / math.fsum(weigh.values())

    def in_words(self, category: str, product: str) -> str:
        """What a product has, for programs that learn from what merchants take."""
        has = [taste.words for taste in TASTES.values() if self.places[category][taste.name][product] >= _HAS]
        return f"{product}: {', '.join(has)}"

    # Helpers

    def _subject(self, name: str, day: int) -> tuple[Kind, str]:
        draw = self._seeds.random("subject", name, day)
        return draw.choice(KINDS), draw.choice(list(self.market.categories))

    def _make(self, name: str) -> Merchant:
        settings, draw = self.settings, self._seeds.random("merchant", name)
        circle = draw.randrange(settings.circles)
        tastes, stated, weights = {}, {}, {}
        for question, pair in QUESTIONS.items():
            any_answer = draw.choice(pair).name
            agrees = draw.random() < settings.agreement
            tastes[question] = self._circles[circle][question] if agrees else any_answer
            weights[question] = draw.uniform(0.5, 1.5)
            known, old = draw.random() < settings.stated, draw.random() < settings.outdated
            if known:
                other = next(one.name for one in pair if one.name != tastes[question])
                stated[question] = other if old else tastes[question]
        tier, capacity, region = draw.choice(list(TIERS)), draw.choice(list(CAPACITIES)), draw.choice(_REGIONS)
        about = f"sells in the {region}, {tier} prices, {capacity} capacity, among {_company(circle, draw.random())}"
        profile = {"about": about}
        if stated:
            profile["products"] = "wants products " + " and ".join(TASTES[one].words for one in stated.values())
        return Merchant(
            name, circle, tastes, weights, draw.uniform(0, settings.conformity), stated, tier, capacity, profile
        )


_COMPANIES = ("gift shops", "outlets", "outfitters", "kiosks", "boutiques", "wholesalers")


def _company(circle: int, chance: float) -> str:
    """The trade of a merchant, which fits the circle four times in five."""
    return _COMPANIES[circle % len(_COMPANIES) if chance < 0.8 else int((chance - 0.8) * 5 * len(_COMPANIES))]


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
