"""The report that is composed by rule from the evidence, and is the same for every planner.

Where evidence is missing, it states the usual assumption and doesn't say so, as language models do. The planner pays
for that in data authenticity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from .engine import Results
from .kinds import Judgement
from .merchants import Order
from .skill import Evidence

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
