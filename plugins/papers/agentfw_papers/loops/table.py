"""The table of a loop, and its report: each variant beside the first one, and contrasts of variants, user by user.

The unit is a user: the mean of their requests. A user who has the same name with several seeds is one user, unless each
seed has users of its own. Differences have a bootstrapped interval over users. p-values of the leading figure are
corrected by Holm's method, for the number of variants and for the number of contrasts.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw.report import Number, Page, short
from agentfw.report.statistics import PairedDifference, paired_difference, probability
from agentfw.runs import write_whole

from .spec import Contrast, LoopSpec

Cell = Any
"""What a table of a page shows: a text, a number, an interval."""
Exams = Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]]
"""The metrics of each variant's exams, each with the seed of its cell."""
Values = Mapping[str, float]
"""A figure by user."""


@dataclass(frozen=True, slots=True)
class Row:
    """One variant, or one contrast."""

    variant: str
    about: str
    means: Mapping[str, float]
    """Empty for a contrast."""
    differences: Mapping[str, PairedDifference]
    """By figure: this variant less the first one. Empty for the first one."""
    corrected: float | None
    """The p-value of the leading figure, corrected for the number of variants or contrasts."""

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


@dataclass(frozen=True, slots=True)
class Group:
    """One group of users in the exams of a variant."""

    variant: str
    figure: str
    """The figure that says which group a user belongs to."""
    low: float
    high: float
    """The range of that figure in this group."""
    users: int
    mean: float
    """The leading figure, as a mean over the users of the group."""

    def to_record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("variant", "figure", "low", "high", "users", "mean")}


def table(exams: Exams, about: Mapping[str, str], figures: Sequence[str], *, own_users: bool = False) -> list[Row]:
    """Compare variants by the metrics of their exams. The first variant of `about` is the reference."""
    users = {variant: _by_figure(records, figures, own_users) for variant, records in exams.items()}
    first = next(iter(about))
    differences = {
        variant: _differences(values, users[first], figures)
        for variant, values in users.items()
        if variant != first and first in users
    }
    corrected = _corrected(differences, figures[0])
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


def contrasts(
    exams: Exams, wanted: Mapping[str, Contrast], figures: Sequence[str], *, own_users: bool = False
) -> list[Row]:
    """The contrasts whose variants all have exams."""
    users = {variant: _by_figure(records, figures, own_users) for variant, records in exams.items()}
    there = {name: one for name, one in wanted.items() if {*one.plus, *one.minus} <= users.keys()}
    differences = {
        name: _differences(_sum(users, one.plus, figures), _sum(users, one.minus, figures), figures)
        for name, one in there.items()
    }
    corrected = _corrected(differences, figures[0])
    return [Row(name, one.about, {}, differences[name], corrected.get(name)) for name, one in there.items()]


def by_group(exams: Exams, figures: Sequence[str], leading: str, *, own_users: bool = False) -> list[Group]:
    """The leading figure by group of users. A figure with many values is cut into thirds of the users."""
    found = []
    for variant, records in exams.items():
        values = _by_figure(records, (leading, *figures), own_users)
        for figure in figures:
            for members in _groups(values[figure]):
                means = [values[leading][user] for user in members if user in values[leading]]
                if means:
                    ranks = [values[figure][user] for user in members]
                    found.append(Group(variant, figure, min(ranks), max(ranks), len(means), fmean(means)))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, in the order in which they are given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    found, most = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[place]))
        found[place] = most
    return found


_MOST_GROUPS = 8
"""Number of different values up to which each is a group of its own."""


def _groups(values: Values) -> list[list[str]]:
    known = sorted(values, key=lambda user: (values[user], user))
    levels = sorted(set(values.values()))
    if len(levels) <= _MOST_GROUPS:
        return [[user for user in known if values[user] == level] for level in levels]
    return [known[len(known) * part // 3 : len(known) * (part + 1) // 3] for part in range(3)]


def _by_figure(
    records: Iterable[tuple[int, Mapping[str, Any]]], figures: Sequence[str], own_users: bool
) -> dict[str, Values]:
    values: dict[str, dict[str, list[float]]] = {figure: {} for figure in figures}
    for seed, record in records:
        user = f"{seed} {record['user']}" if own_users else str(record["user"])
        for figure in figures:
            if figure in record["outcome"]:
                values[figure].setdefault(user, []).append(float(record["outcome"][figure]))
    return {figure: {user: fmean(some) for user, some in users.items()} for figure, users in values.items()}


def _sum(
    users: Mapping[str, Mapping[str, Values]], variants: Sequence[str], figures: Sequence[str]
) -> dict[str, Values]:
    """The sum over variants, of the users that all of them have."""
    found: dict[str, Values] = {}
    for figure in figures:
        every = [users[variant][figure] for variant in variants]
        found[figure] = {
            user: sum(one[user] for one in every) for user in every[0] if all(user in one for one in every)
        }
    return found


def _differences(
    mine: Mapping[str, Values], theirs: Mapping[str, Values], figures: Sequence[str]
) -> dict[str, PairedDifference]:
    return {
        figure: paired_difference(mine[figure], theirs[figure])
        for figure in figures
        if mine[figure].keys() & theirs[figure].keys()
    }


def _corrected(differences: Mapping[str, Mapping[str, PairedDifference]], leading: str) -> dict[str, float]:
    tested = [name for name, some in differences.items() if leading in some]
    return dict(zip(tested, holm([differences[name][leading].p_value for name in tested]), strict=True))


def write_report(
    path: Path, spec: LoopSpec, rows: Sequence[Row], contrasts: Sequence[Row], groups: Sequence[Group]
) -> None:
    leading = spec.figures[0]
    users = max(
        (compared.difference.count for row in rows[1:] if (compared := row.differences.get(leading))), default=0
    )
    page = Page(
        "What each part is worth",
        subtitle=(f"{len(rows)} variants" + (f", {users} users of the exam" if users else "")),
    )
    names = (*spec.figures, *spec.details)
    page.section("Variants", "Means over the users of the exam.")
    page.table(
        ["variant", *names],
        [[row.variant, *[short(row.means[name]) if name in row.means else None for name in names]] for row in rows],
        "; ".join(map(_named, rows)),
    )
    page.section(f"Beside {rows[0].variant}", "Differences, user by user. p is corrected for the number of variants.")
    page.table(_heads(names, leading), [_compared(row, names) for row in rows[1:]])
    if contrasts:
        page.section("Contrasts", "Sums of some variants less sums of others. p is corrected for their number.")
        page.table(
            _heads(names, leading), [_compared(row, names) for row in contrasts], "; ".join(map(_named, contrasts))
        )
    if groups:
        page.section(
            "Audit", f"{leading} by group of users. A figure with many values is cut into thirds of the users."
        )
        page.table(
            ["variant", "by", "groups", "least group", "its mean", "all"],
            [_least(some) for some in _groups_by_figure(groups)],
        )
        first = [one for one in groups if one.variant == rows[0].variant]
        page.table(
            ["by", "group", "users", leading],
            [[one.figure, _span(one), one.users, short(one.mean)] for one in first],
            f"All groups of {rows[0].variant}",
        )
    write_whole(path, page.render())


def _named(row: Row) -> str:
    return f"{row.variant}: {row.about}" if row.about else row.variant


def _heads(names: Sequence[str], leading: str) -> list[str]:
    return ["variant", leading, f"p ({leading})", *(name for name in names if name != leading)]


def _compared(row: Row, names: Sequence[str]) -> list[Cell]:
    """A row of differences, the leading figure first."""
    corrected = None if row.corrected is None else Number(row.corrected, probability(row.corrected))
    first, *rest = (None if one is None else one.difference for one in map(row.differences.get, names))
    return [row.variant, first, corrected, *rest]


def _groups_by_figure(groups: Sequence[Group]) -> list[list[Group]]:
    found: dict[tuple[str, str], list[Group]] = {}
    for one in groups:
        found.setdefault((one.variant, one.figure), []).append(one)
    return list(found.values())


def _least(groups: Sequence[Group]) -> list[Cell]:
    least = min(groups, key=lambda one: one.mean)
    users = sum(one.users for one in groups)
    mean = sum(one.mean * one.users for one in groups) / users
    return [least.variant, least.figure, len(groups), _span(least), short(least.mean), short(mean)]


def _span(one: Group) -> str:
    return f"{one.low:g}" if one.low == one.high else f"{one.low:.3g} to {one.high:.3g}"
