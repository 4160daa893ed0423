"""What simple planners reach, so that a figure can be placed.

- nothing planned: a report without any evidence
- all analyses: every one, in two plans
- fixed plan: the parts of the kind of task, and nothing of this merchant
- stated profile: the parts, and an analysis for each wish that was stated
- knows the truth: the parts, and an analysis for each true taste
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .analyses import Analyses
from .engine import Results, carry_out
from .merchants import Merchants, Order
from .plans import plan_of
from .ruled_report import make_report
from .scoring import needless_steps, score_report
from .skills import SKILLS
from .tastes import TASTES


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
