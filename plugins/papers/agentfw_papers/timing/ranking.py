"""The Proactiveness Ranking Index (PRI): consistency and timing of several systems as one figure (appendix K.4).

PRI is relative: each metric is normalised between the lowest and the highest value in the group, so a PRI is only
meaningful together with the names of the group, and another group gives other values.

    >>> careful = Figures(ac=0.8, max_ac=0.9, difference=0.125, pt=0.1, ftr=0.0, rar=0.1)
    >>> eager = Figures(ac=0.3, max_ac=0.6, difference=1.0, pt=0.6, ftr=0.2, rar=1.0)
    >>> balanced = Figures(ac=0.7, max_ac=0.85, difference=0.214, pt=0.4, ftr=0.05, rar=0.6)
    >>> [(row.name, round(row.pri, 3)) for row in rank({"careful": careful, "eager": eager, "balanced": balanced}).rows]
    [('balanced', 0.725), ('careful', 0.5), ('eager', 0.002)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from agentfw_rewardmodels import BadInputError

SMALLEST_INDEX = 0.001
SMALLEST_GROUP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a system is ranked by."""

    ac: float
    max_ac: float
    difference: float
    pt: float
    ftr: float
    rar: float


@dataclass(frozen=True, slots=True)
class Rank:
    """One member of a ranked group, with the figures that its rank comes from."""

    name: str
    pri: float
    consistency: float
    """Consistency index (CI)."""
    timing: float
    """Timing index (TI)."""
    figures: Figures


@dataclass(frozen=True, slots=True)
class Ranking:
    """A group, best member first."""

    rows: tuple[Rank, ...]
    warning: str = ""

    @property
    def group(self) -> tuple[str, ...]:
        """The names of all members. Show them beside every PRI."""
        return tuple(row.name for row in self.rows)


def rank(group: Mapping[str, Figures]) -> Ranking:
    """Rank a group of systems that were measured on the same dialogues."""
    if not group:
        raise BadInputError("there is nothing to rank", fix="give the figures of at least one system")
    for name, figures in group.items():
        for metric, value in asdict(figures).items():
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise BadInputError(
                    f'"{name}" has no {metric} ({value!r}), so it can\'t be ranked',
                    fix="leave it out; metrics are undefined for a system that predicts nothing, or nothing ready",
                )
    normalised = {}
    for field in fields(Figures):
        values = {name: float(getattr(figures, field.name)) for name, figures in group.items()}
        low, high = min(values.values()), max(values.values())
        normalised[field.name] = {
            name: (value - low) / (high - low) if high > low else 0.5 for name, value in values.items()
        }
    rows = []
    for name, figures in group.items():
        ac, max_ac, relative, pt, ftr, rar = (normalised[field.name][name] for field in fields(Figures))
        consistency = max(SMALLEST_INDEX, (ac + max_ac + 1 - relative) / 3)
        timing = max(SMALLEST_INDEX, (pt + 1 - ftr + rar) / 3)
        rows.append(Rank(name, harmonic_mean(consistency, timing), consistency, timing, figures))
    warning = ""
    if len(rows) < SMALLEST_GROUP:
        warning = f"the group has only {len(rows)} of the {SMALLEST_GROUP} members that a meaningful PRI needs"
    return Ranking(tuple(sorted(rows, key=lambda row: -row.pri)), warning)


def harmonic_mean(first: float, second: float) -> float:
    """
    >>> round(harmonic_mean(1.0, 0.6), 2)
    0.75
    """
    return 2 * first * second / (first + second)


def difference(ac: float, max_ac: float, ac_sd: float = 0.0, max_ac_sd: float = 0.0) -> tuple[float, float] | None:
    """Consistency Difference with its error: the relative gap between AC and Max AC (equation 3). None for an AC of 0.

    >>> mean, error = difference(0.417, 0.834, 0.004, 0.001)
    >>> round(mean, 3), round(error, 3)
    (1.0, 0.019)
    """
    if ac == 0:
        return None
    return (max_ac - ac) / ac, math.hypot(max_ac_sd / ac, max_ac * ac_sd / ac**2)
