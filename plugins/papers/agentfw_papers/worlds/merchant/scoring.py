"""The five scores of a report, from 0 to 4, in two views of the merchant's wishes.

The visible view knows what the merchant has stated; rewards may read it. The true view knows their hidden tastes; it is
for figures only. The other four scores are the same for every merchant.

After the five scores of the parpo-psgm paper. There a language model gives them; here they are rules.

Simple planners are measured too, so that a figure can be placed:

- nothing planned: a report without any evidence
- all analyses: every one, in two plans
- fixed plan: the parts of the kind of task, and nothing of this merchant
- stated profile: the parts, and an analysis for each wish that was stated
- knows the truth: the parts, and an analysis for each true taste
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from .engine import Analyses, Results, carry_out
from .merchants import Merchants, Order
from .plan import MOST_STEPS, plan_of
from .skills import SKILLS
from .tastes import QUESTIONS, TASTES
from .written_report import Claim, Report, make_report

SCALE = 4.0
_FAMILIES = 5
"""Number of families of analyses with which a report is as deep as it can be."""
_NEW_FAMILY = 0.6
_NEEDLESS = 0.15


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one report."""

    authenticity: float = 0.0
    logic: float = 0.0
    profile_match: float = 0.0
    visible_profile_match: float = 0.0
    completion: float = 0.0
    depth: float = 0.0
    satisfaction: float = 0.0
    """The true worth of the recommendation among the candidates, from 0 to 1."""

    @property
    def base(self) -> float:
        """The sum of the scores that are the same for every merchant, from 0 to 16."""
        return self.authenticity + self.logic + self.completion + self.depth

    @property
    def score(self) -> float:
        return (self.base + self.profile_match) / 20

    @property
    def visible_score(self) -> float:
        return (self.base + self.visible_profile_match) / 20

    def figures(self) -> dict[str, float]:
        """All of them as the figures of an outcome."""
        return {"score": self.score, "visible_score": self.visible_score, **asdict(self)}


def score_report(report: Report, results: Results, order: Order, merchants: Merchants, steps: int) -> Scores:
    """Score a report. `steps` is the number of steps of all plans."""
    merchant = order.merchant

    def true(product: str) -> float:
        return merchants.truth(merchant, order.category, product)

    def visible(product: str) -> float:
        return merchants.wanted(merchant.stated, order.category, product)

    satisfaction = _place(report.recommended, order, true)
    authentic = sum(_cites(claim, results) for claim in report.claims) / len(report.claims)
    logical = sum(
        any(
            evidence.skill == judgement.skill and set(judgement.supports) <= results.upstream(id)
            for id, evidence in results.evidence.items()
        )
        for judgement in report.judgements
    ) / len(report.judgements)
    done = {evidence.skill for evidence in results.evidence.values()}
    finished = [skill in done for skill in order.kind.parts.values()]
    complete = (sum(finished) + (steps <= MOST_STEPS)) / (len(finished) + 1)
    return Scores(
        SCALE * authentic,
        SCALE * logical,
        SCALE * satisfaction,
        SCALE * _place(report.recommended, order, visible),
        SCALE * complete if any(finished) else 0.0,
        SCALE * _depth(done, len(needless_steps(results, order))),
        satisfaction,
    )


def needless_steps(results: Results, order: Order) -> list[str]:
    """The finished steps that add nothing: repeated ones, and those that cover no part, support none and rank nothing.

    Of two analyses that rank products by opposite tastes, the later one is needless.
    """
    kept: dict[str, str] = {}
    """The useful step of each analysis."""
    for id, evidence in results.evidence.items():
        opposite = _opposite(evidence.skill)
        ranks = bool(opposite) and opposite not in kept
        if evidence.skill not in kept and (ranks or evidence.skill in order.kind.parts.values()):
            kept[evidence.skill] = id
    built_on = set().union(*(results.upstream(id) for id in kept.values()))
    for id, evidence in results.evidence.items():
        if evidence.skill in built_on:
            kept.setdefault(evidence.skill, id)
    return [id for id in results.evidence if id not in kept.values()]


def _opposite(skill: str) -> str:
    """The analysis that ranks products by the other answer to the same question."""
    for one, other in QUESTIONS.values():
        if skill in (one.skill, other.skill):
            return other.skill if skill == one.skill else one.skill
    return ""


def _cites(claim: Claim, results: Results) -> bool:
    """Whether the figure of a claim is that of the evidence that it cites."""
    evidence = results.evidence.get(claim.evidence)
    if evidence is None:
        return False
    if claim.figure.startswith("ranking "):
        return evidence.ranking.get(claim.figure.removeprefix("ranking ")) == claim.value
    return evidence.figures.get(claim.figure) == claim.value


def _place(product: str, order: Order, worth: Callable[[str], float]) -> float:
    """What a product is worth among the candidates, from 0 for the least to 1 for the most."""
    values = [worth(one) for one in order.candidates]
    spread = max(values) - min(values)
    return (worth(product) - min(values)) / spread if spread else 0.5


def _depth(done: set[str], needless: int) -> float:
    families = len({SKILLS[skill].family for skill in done})
    deep = (1 - _NEW_FAMILY**families) / (1 - _NEW_FAMILY**_FAMILIES)
    return max(0.0, min(1.0, deep) - _NEEDLESS * needless)


def figures_of_planners(order: Order, merchants: Merchants, analyses: Analyses) -> Mapping[str, Mapping[str, float]]:
    """The figures of each planner in one task."""
    parts = list(order.kind.parts.values())
    planners: dict[str, Iterable[str]] = {
        "nothing planned": (),
        "all analyses": SKILLS,
        "fixed plan": parts,
        "stated profile": [*parts, *(TASTES[one].skill for one in order.merchant.stated.values())],
        "knows the truth": [*parts, *(TASTES[one].skill for one in order.merchant.tastes.values())],
    }
    return {name: _figures(skills, order, merchants, analyses) for name, skills in planners.items()}


def _figures(skills: Iterable[str], order: Order, merchants: Merchants, analyses: Analyses) -> Mapping[str, float]:
    results, plan = Results(), plan_of(skills)
    carry_out(plan, results, analyses, order.category, order.merchant)
    report = make_report(order, results, merchants.fame[order.category])
    scores = score_report(report, results, order, merchants, len(plan))
    return scores.figures() | {"steps": float(len(plan)), "needless": float(len(needless_steps(results, order)))}
