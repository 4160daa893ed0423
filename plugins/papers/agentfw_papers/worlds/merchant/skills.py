"""The eighteen analyses. Each is plain arithmetic on the market's tables.

>>> len(SKILLS), sorted({skill.family for skill in SKILLS.values()})
(18, ['audience', 'competition', 'fit', 'pricing', 'ranking', 'reviews', 'risk', 'trend'])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from .market import ASPECTS, SEGMENTS, Category, Product
from .tastes import TASTES, fame_of, percentiles


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an analysis found."""

    skill: str
    figures: Mapping[str, float]
    text: str
    ranking: Mapping[str, float] = field(default_factory=dict)
    """How well each product of the category does, from 0 to 1, where the analysis ranks products."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What an analysis reads."""

    category: Category
    months: int
    """Number of recent months to look at."""
    tier: tuple[float, float]
    """Range of the merchant's prices."""
    capacity: int
    """Pieces a month that the merchant can supply."""
    built_on: Mapping[str, Evidence]
    """Earlier evidence that it uses, by analysis."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One analysis."""

    name: str
    about: str
    topic: str
    """What it covers, in the words of a request. Empty for an analysis that ranks products by a taste."""
    family: str
    takes: float
    run: Callable[[Inputs], Evidence]
    needs: tuple[str, ...] = ()
    """Analyses that must have been done before."""
    uses: tuple[str, ...] = ()
    """Analyses that it uses if they have been done before."""
    arguments: tuple[str, ...] = ()
    """Arguments that a step of it may have, each a whole number."""
    of_merchant: bool = False
    """Whether the evidence differs between merchants."""


def _evidence(
    skill: str, figures: Mapping[str, float], text: str, ranking: Mapping[str, float] | None = None
) -> Evidence:
    return Evidence(skill, {name: round(value, 4) for name, value in figures.items()}, text, ranking or {})


def _ranked(skill: str, inputs: Inputs, name: str, figures: Mapping[str, float]) -> Evidence:
    """Evidence that ranks the products of the category."""
    (taste,) = (taste for taste in TASTES.values() if taste.skill == skill)
    places = percentiles(inputs.category, taste.figure)
    best = max(places, key=lambda product: places[product])
    return _evidence(skill, figures, f"{name}: {_shown(figures)}; ahead is {best}", places)


def _shown(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in figures.items())


def _products(inputs: Inputs) -> list[Product]:
    return list(inputs.category.products.values())


def _sold(inputs: Inputs, products: Sequence[Product]) -> tuple[float, float]:
    """Pieces a month in the newer and in the older half of the months looked at."""
    months = [sum(one.sales[-back] for one in products) for back in range(1, inputs.months + 1)]
    half = max(1, len(months) // 2)
    return fmean(months[:half]), fmean(months[half:] or months)


def _growth(inputs: Inputs, products: Sequence[Product]) -> float:
    new, old = _sold(inputs, products)
    return new / max(1.0, old) - 1


def _leaders(inputs: Inputs) -> list[Product]:
    fame = fame_of(inputs.category)
    return sorted(_products(inputs), key=lambda one: -fame[one.id])[:5]


# Trend


def _category_trend(inputs: Inputs) -> Evidence:
    figures = {"growth": _growth(inputs, _products(inputs)), "pieces": _sold(inputs, _products(inputs))[0]}
    return _evidence("category_trend", figures, f"demand for {inputs.category.name}: {_shown(figures)}")


def _season_shape(inputs: Inputs) -> Evidence:
    year = [inputs.category.sold(-back) for back in range(12, 0, -1)]
    figures = {"peak": max(year) / max(1.0, fmean(year)), "month": float(year.index(max(year)) + 1)}
    return _ranked("season_shape", inputs, "season", figures)


def _subcategory_growth(inputs: Inputs) -> Evidence:
    kinds = sorted({one.kind for one in _products(inputs)})
    growth = {kind: _growth(inputs, [one for one in _products(inputs) if one.kind == kind]) for kind in kinds}
    trend = inputs.built_on.get("category_trend")
    base = trend.figures["growth"] if trend else 0.0
    best = max(growth, key=lambda kind: growth[kind])
    figures = {"best": growth[best], "ahead_of_category": growth[best] - base}
    return _evidence("subcategory_growth", figures, f"{best} grows most: {_shown(figures)}")


def _keyword_trend(inputs: Inputs) -> Evidence:
    now, before = (
        sum(sum(one.searches[since:until]) for one in _products(inputs)) for since, until in ((-3, None), (-6, -3))
    )
    return _ranked("keyword_trend", inputs, "searches", {"rise": now / max(1, before) - 1})


# Ranking


def _bestseller_rank(inputs: Inputs) -> Evidence:
    top = _leaders(inputs)
    share = sum(one.sales[-1] for one in top) / max(1, inputs.category.sold(-1))
    names = ", ".join(one.id for one in top)
    return _evidence("bestseller_rank", {"share_of_five": share}, f"the five bestsellers have {share:.0%}: {names}")


def _rank_movement(inputs: Inputs) -> Evidence:
    before = percentiles(inputs.category, lambda one: float(one.sales[-6]))
    now = percentiles(inputs.category, lambda one: float(one.sales[-1]))
    return _ranked("rank_movement", inputs, "rise", {"largest": max(now[one] - before[one] for one in now)})


# Competition


def _seller_concentration(inputs: Inputs) -> Evidence:
    sold: Counter[str] = Counter()
    for one in _products(inputs):
        sold[one.seller] += sum(one.sales[-3:])
    total = max(1, sum(sold.values()))
    figures = {"herfindahl": sum((count / total) ** 2 for count in sold.values()), "sellers": float(len(sold))}
    return _evidence("seller_concentration", figures, f"sellers: {_shown(figures)}")


def _price_competition(inputs: Inputs) -> Evidence:
    changes = [
        abs(new / old - 1) for one in _products(inputs) for old, new in zip(one.prices, one.prices[1:], strict=False)
    ]
    return _ranked("price_competition", inputs, "price changes", {"mean": fmean(changes)})


def _newcomer_share(inputs: Inputs) -> Evidence:
    new = [one for one in _products(inputs) if one.launched > 0]
    share = sum(one.sales[-1] for one in new) / max(1, inputs.category.sold(-1))
    figures = {"share": share, "count": float(len(new))}
    sellers = inputs.built_on.get("seller_concentration")
    if sellers:
        figures["share_by_concentration"] = share / max(0.01, sellers.figures["herfindahl"])
    return _evidence("newcomer_share", figures, f"newcomers: {_shown(figures)}")


# Pricing


def _price_band(inputs: Inputs) -> Evidence:
    prices = sorted(one.prices[-1] for one in _products(inputs))
    quarter = len(prices) // 4
    return _ranked("price_band", inputs, "price and margin", {"low": prices[quarter], "high": prices[-1 - quarter]})


def _price_elasticity(inputs: Inputs) -> Evidence:
    """The slope of pieces over price, both relative, by least squares over all products and months."""
    pairs = [
        (price / fmean(one.prices) - 1, pieces / max(1.0, fmean(one.sales)) - 1)
        for one in _products(inputs)
        for price, pieces in zip(one.prices[-inputs.months :], one.sales[-inputs.months :], strict=True)
    ]
    slope = sum(x * y for x, y in pairs) / max(1e-9, sum(x * x for x, _ in pairs))
    figures = {"elasticity": slope}
    audience = inputs.built_on.get("audience_segments")
    if audience:
        figures["largest_segment"] = audience.figures["largest"]
    return _evidence("price_elasticity", figures, f"price and demand: {_shown(figures)}")


def _sales_forecast(inputs: Inputs) -> Evidence:
    growth = inputs.built_on["category_trend"].figures["growth"]
    new, _ = _sold(inputs, _products(inputs))
    return _ranked("sales_forecast", inputs, "forecast", {"next_quarter": 3 * new * (1 + growth / 4)})


# Fit


def _merchant_fit(inputs: Inputs) -> Evidence:
    low, high = inputs.tier
    fitting = [one for one in _products(inputs) if low <= one.prices[-1] <= high]
    figures = {"share": len(fitting) / len(_products(inputs))}
    trend = inputs.built_on.get("category_trend")
    if trend:
        figures["growing_share"] = figures["share"] * (1 + trend.figures["growth"])
    return _evidence("merchant_fit", figures, f"products in the merchant's price range: {_shown(figures)}")


def _capacity_fit(inputs: Inputs) -> Evidence:
    growth = inputs.built_on["category_trend"].figures["growth"]
    expected = [fmean(one.sales[-3:]) * (1 + growth) for one in _products(inputs)]
    share = sum(count <= inputs.capacity for count in expected) / len(expected)
    return _evidence("capacity_fit", {"share": share}, f"{share:.0%} of the products can be supplied")


# Reviews, audience, risk


def _review_aspects(inputs: Inputs) -> Evidence:
    praise = {aspect: sum(one.praise[aspect] for one in _products(inputs)) for aspect in ASPECTS}
    written = sum(sum(one.praise.values()) + sum(one.complaints.values()) for one in _products(inputs))
    return _ranked("review_aspects", inputs, "reviews", {"praise": sum(praise.values()) / max(1, written)})


def _review_complaints(inputs: Inputs) -> Evidence:
    leaders = "bestseller_rank" in inputs.built_on
    among = _leaders(inputs) if leaders else _products(inputs)
    complaints = {aspect: sum(one.complaints[aspect] for one in among) for aspect in ASPECTS}
    worst = max(complaints, key=lambda aspect: complaints[aspect])
    share = complaints[worst] / max(1, sum(complaints.values()))
    whose = "the bestsellers" if leaders else "all products"
    return _evidence("review_complaints", {"worst_share": share}, f"most complaints of {whose} are about {worst}")


def _audience_segments(inputs: Inputs) -> Evidence:
    among = _leaders(inputs) if "bestseller_rank" in inputs.built_on else _products(inputs)
    shares = {segment: fmean(one.buyers[segment] for one in among) for segment in SEGMENTS}
    most = max(shares, key=lambda segment: shares[segment])
    return _evidence("audience_segments", {"largest": shares[most]}, f"most buyers are {most}, {shares[most]:.0%}")


def _risk_screen(inputs: Inputs) -> Evidence:
    flagged = sum(bool(one.flags) for one in _products(inputs)) / len(_products(inputs))
    return _ranked("risk_screen", inputs, "risk", {"flagged": flagged})


_ALL = (
    Skill(
        "category_trend",
        "How demand for the category develops.",
        "demand",
        "trend",
        2,
        _category_trend,
        arguments=("months",),
    ),
    Skill("season_shape", "Which products sell in a season.", "", "trend", 2, _season_shape),
    Skill(
        "subcategory_growth",
        "Which subcategories grow.",
        "subcategories",
        "trend",
        2,
        _subcategory_growth,
        arguments=("months",),
        uses=("category_trend",),
    ),
    Skill("keyword_trend", "What buyers begin to search for.", "", "trend", 2, _keyword_trend),
    Skill("bestseller_rank", "Who leads the category.", "leaders", "ranking", 1, _bestseller_rank),
    Skill("rank_movement", "Which products climb.", "", "ranking", 1, _rank_movement, needs=("bestseller_rank",)),
    Skill(
        "seller_concentration", "How many sellers share it.", "concentration", "competition", 1, _seller_concentration
    ),
    Skill("price_competition", "Which prices are stable.", "", "competition", 2, _price_competition),
    Skill(
        "newcomer_share",
        "How newcomers do.",
        "newcomers",
        "competition",
        1,
        _newcomer_share,
        uses=("seller_concentration",),
    ),
    Skill("price_band", "Usual prices, and which products have a margin.", "", "pricing", 1, _price_band),
    Skill(
        "price_elasticity",
        "How demand reacts to prices.",
        "elasticity",
        "pricing",
        3,
        _price_elasticity,
        arguments=("months",),
        uses=("audience_segments",),
    ),
    Skill(
        "sales_forecast",
        "How much will be sold, and of what.",
        "",
        "pricing",
        4,
        _sales_forecast,
        arguments=("months",),
        needs=("category_trend",),
    ),
    Skill(
        "merchant_fit",
        "How many products fit the merchant.",
        "fit",
        "fit",
        1,
        _merchant_fit,
        uses=("category_trend",),
        of_merchant=True,
    ),
    Skill(
        "capacity_fit",
        "How many products the merchant can supply.",
        "capacity",
        "fit",
        1,
        _capacity_fit,
        needs=("category_trend",),
        of_merchant=True,
    ),
    Skill("review_aspects", "What buyers praise.", "", "reviews", 3, _review_aspects),
    Skill(
        "review_complaints",
        "What buyers complain about.",
        "complaints",
        "reviews",
        3,
        _review_complaints,
        uses=("bestseller_rank",),
    ),
    Skill("audience_segments", "Who buys.", "audience", "audience", 2, _audience_segments, uses=("bestseller_rank",)),
    Skill("risk_screen", "Which products risk a loss.", "", "risk", 3, _risk_screen),
)
SKILLS: Mapping[str, Skill] = {skill.name: skill for skill in _ALL}
