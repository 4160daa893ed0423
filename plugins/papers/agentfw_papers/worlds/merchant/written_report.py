"""Reports that are written by a policy: what it is asked, and what is read from its text.

A claim is a line with a topic, a figure and the step that it cites, and the recommendation is the last one:

    demand: 0.33 [category_trend]
    Recommended: tea-4 0.87 [price_band]

A claim is authentic if the cited step found that figure, to three digits. A topic without a claim counts as one without
evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from agentfw.errors import InterventionRefused

from .engine import Results
from .merchants import Order
from .ruled_report import Claim, Report
from .skill import Evidence

ASKED = (
    "Write the report from this evidence and nothing else. One line for each topic: `TOPIC: FIGURE [STEP]`, where the "
    "step is the one that the figure is from. Leave the brackets out where you have no evidence. Then one line on what "
    "follows from it, and last `Recommended: PRODUCT PLACE [STEP]`, with one of the candidates and its place by a step "
    "that ranks products."
)
_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_CITED = r"(?:[ \t]*\[(?P<step>[^\]\n]*)\])?"
_CLAIM = re.compile(
    rf"^[-* \t]*(?P<topic>[a-z][\w ]*):[ \t]*(?P<value>{_NUMBER})(?P<percent>[ \t]*%)?{_CITED}", re.M | re.I
)
_RECOMMENDED = re.compile(
    rf"^[-* \t]*recommended:[ \t]*(?P<product>[\w-]+)(?:[ \t,]+(?P<value>{_NUMBER}))?{_CITED}", re.M | re.I
)
_LONGEST = 20_000


def writing_task(order: Order, results: Results) -> str:
    """What whoever writes the report is told: everything that it needs, in one message."""
    lines = [
        ASKED,
        order.kind.asks.format(category=order.category),
        f"topics: {', '.join(order.kind.parts)}",
        f"candidates: {', '.join(order.candidates)}",
        *(f"{view}: {text}" for view, text in order.merchant.profile.items()),
        "evidence:",
        *(_evidence(results, order.candidates) or ["none"]),
    ]
    return "\n".join(lines)


def _evidence(results: Results, candidates: Sequence[str]) -> list[str]:
    """The figures of each step, and the places of the candidates where it ranks products."""
    return [f"- {id}: {', '.join(_figures(one, candidates))}" for id, one in results.evidence.items()]


def read_report(text: str, order: Order, results: Results) -> Report:
    """Read a report. Raises InterventionRefused where it recommends none of the candidates."""
    text = text[:_LONGEST]
    found = _RECOMMENDED.search(text)
    product = next((one for one in order.candidates if found and one == found["product"].lower()), None)
    if found is None or product is None:
        raise InterventionRefused(
            f"the report must end with `Recommended: PRODUCT PLACE [STEP]`, and one of {', '.join(order.candidates)}"
        )
    claims = {claim.topic: claim for claim in _claims(text, results)}
    missing = [Claim(topic, math.nan) for topic in order.kind.parts if topic not in claims]
    place = _number(found["value"] or "nan")
    reason = _cited("recommendation", place, found["step"] or "", {f"ranking {product}"}, results)
    return Report((*claims.values(), *missing, reason), order.kind.judgements, product, text)


def _claims(text: str, results: Results) -> Iterator[Claim]:
    for found in _CLAIM.finditer(text):
        value = _number(found["value"]) / (100 if found["percent"] else 1)
        step = found["step"] or ""
        known = results.evidence.get(step)
        yield _cited(found["topic"].strip().lower(), value, step, set(known.figures) if known else set(), results)


def _cited(topic: str, value: float, step: str, figures: set[str], results: Results) -> Claim:
    """A claim. Its value is that of the evidence where they are equal to three digits."""
    evidence = results.evidence.get(step)
    for name in sorted(figures) if evidence else ():
        exact = _value(evidence, name)
        if exact is not None and f"{exact:.3g}" == f"{value:.3g}":
            return Claim(topic, exact, step, name)
    return Claim(topic, value, step)


def _value(evidence: Evidence | None, figure: str) -> float | None:
    if evidence is None:
        return None
    if figure.startswith("ranking "):
        return evidence.ranking.get(figure.removeprefix("ranking "))
    return evidence.figures.get(figure)


def _figures(evidence: Evidence, candidates: Sequence[str]) -> Iterator[str]:
    places: Mapping[str, float] = evidence.ranking
    yield from (f"{name} {value:.3g}" for name, value in evidence.figures.items())
    yield from (f"{product} at {places[product]:.3g}" for product in candidates if product in places)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
