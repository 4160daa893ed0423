"""Reports that are written by a policy: what it is asked, and what is read from its text.

A claim is a line with a topic, a figure and the step that it cites, and the recommendation is the last one:

    demand: 0.33 [category_trend]
    Recommended: tea-4 0.87 [price_band]

A claim is authentic if the cited step found that figure, to three digits. A topic without a claim counts as one without
evidence.

A report that is composed by rule from the evidence is the same for every planner. Where evidence is missing, it states
the usual assumption and doesn't say so, as language models do. The planner pays for that in data authenticity.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentfw.errors import InterventionRefused

from .engine import Results
from .kinds import Judgement
from .merchants import Order
from .skills import Evidence

_ASSUMED = 0.1
"""What is claimed without evidence: ten percent of whatever it is."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure that the report states."""

    topic: str
    value: float
    evidence: str = ""
    """Id of the step that it cites, or empty."""
    figure: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What the merchant gets."""

    claims: tuple[Claim, ...]
    judgements: tuple[Judgement, ...]
    recommended: str
    text: str


def make_report(order: Order, results: Results, fame: Mapping[str, float]) -> Report:
    """Compose the report. `fame` ranks the products where no evidence does."""
    by_skill = {evidence.skill: (id, evidence) for id, evidence in results.evidence.items()}
    claims = [_claim(topic, by_skill.get(skill)) for topic, skill in order.kind.parts.items()]
    rankings = [(id, one) for id, one in results.evidence.items() if one.ranking]
    recommended = max(
        order.candidates,
        key=lambda product: (
            fmean(one.ranking[product] for _, one in rankings) if rankings else fame[product],
            product,
        ),
    )
    reason = _reason(recommended, rankings[0] if rankings else None)
    lines = [f"{claim.topic}: {_stated(claim)}" for claim in claims]
    judgements = order.kind.judgements
    said = (judgement.text for judgement in judgements)
    why = f" {_stated(reason)}" if reason.evidence else ""
    return Report(
        (*claims, reason), judgements, recommended, "\n".join([*lines, *said, f"Recommended: {recommended}{why}"])
    )


def _stated(claim: Claim) -> str:
    return f"{claim.value:.3g}" + (f" [{claim.evidence}]" if claim.evidence else "")


def _claim(topic: str, found: tuple[str, Evidence] | None) -> Claim:
    if found is None:
        return Claim(topic, _ASSUMED)
    id, evidence = found
    figure, value = next(iter(evidence.figures.items()))
    return Claim(topic, value, id, figure)


def _reason(product: str, found: tuple[str, Evidence] | None) -> Claim:
    """Why this product: its place by the first analysis that ranks products."""
    if found is None:
        return Claim("recommendation", _ASSUMED)
    id, evidence = found
    return Claim("recommendation", evidence.ranking[product], id, f"ranking {product}")


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
