"""The table of a loop: each variant beside the first one, user by user.

The unit is a user: the mean of their requests over all seeds. Differences have a bootstrapped interval over users, and
p-values of the leading figure are corrected for the number of variants by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ..statistics import PairedDifference, paired_difference

__all__ = ["Row", "holm", "table"]


@dataclass(frozen=True, slots=True)
class Row:
    """One variant."""

    variant: str
    about: str
    means: Mapping[str, float]
    differences: Mapping[str, PairedDifference]
    """By figure: this variant less the first one. Empty for the first one."""
    corrected: float | None
    """The p-value of the leading figure, corrected for the number of variants."""

    def to_record(self) -> dict[str, Any]:
        differences = {
            name: {
                "difference": one.difference.estimate,
                "low": one.difference.low,
                "high": one.difference.high,
                "users": one.difference.count,
                "p": one.p_value,
            }
            for name, one in self.differences.items()
        }
        return {
            "variant": self.variant,
            "about": self.about,
            "means": dict(self.means),
            "differences": differences,
            "p_corrected": self.corrected,
        }


def table(
    exams: Mapping[str, Sequence[Mapping[str, Any]]], about: Mapping[str, str], figures: Sequence[str]
) -> list[Row]:
    """Compare variants by the metrics of their exams. The first variant of `about` is the reference."""
    users = {variant: {figure: _by_user(exams[variant], figure) for figure in figures} for variant in exams}
    first = next(iter(about))
    differences: dict[str, dict[str, PairedDifference]] = {}
    for variant, values in users.items():
        if variant != first and first in users:
            pairs = {figure: (values[figure], users[first][figure]) for figure in figures}
            differences[variant] = {
                figure: paired_difference(mine, theirs)
                for figure, (mine, theirs) in pairs.items()
                if mine.keys() & theirs.keys()
            }
    tested = [variant for variant, some in differences.items() if figures[0] in some]
    corrected = dict(zip(tested, holm([differences[one][figures[0]].p_value for one in tested]), strict=True))
    return [
        Row(
            variant,
            about[variant],
            {figure: fmean(values.values()) for figure, values in users[variant].items() if values},
            differences.get(variant, {}),
            corrected.get(variant),
        )
        for variant in about
        if variant in users
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, in the order in which they are given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    found, most = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[place]))
        found[place] = most
    return found


def _by_user(records: Sequence[Mapping[str, Any]], figure: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for record in records:
        if figure in record["outcome"]:
            values.setdefault(str(record["user"]), []).append(float(record["outcome"][figure]))
    return {user: fmean(some) for user, some in values.items()}
