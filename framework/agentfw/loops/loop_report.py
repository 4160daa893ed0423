"""Writes the report of a loop: report.html, one self-contained page with the tables and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..report import Number, Page, short
from ..report.html import Cell
from ..report.statistics import probability
from ..runs.records.journal import write_whole
from .spec import LoopSpec
from .table import Group, Row

__all__ = ["write_report"]


def write_report(
    path: Path, spec: LoopSpec, rows: Sequence[Row], contrasts: Sequence[Row], groups: Sequence[Group]
) -> None:
    leading = spec.figures[0]
    page = Page("What each part is worth", subtitle=_subtitle(rows, leading))
    names = (*spec.figures, *spec.details)
    page.section("Variants", "Means over the users of the exam.")
    page.table(
        ["variant", *names],
        [[row.variant, *_means(row, names)] for row in rows],
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
            [_least(some) for some in _by_figure(groups)],
        )
        first = [one for one in groups if one.variant == rows[0].variant]
        page.table(
            ["by", "group", "users", leading],
            [[one.figure, _span(one), one.users, short(one.mean)] for one in first],
            f"All groups of {rows[0].variant}",
        )
    write_whole(path, page.render())


def _subtitle(rows: Sequence[Row], leading: str) -> str:
    users = max((one.difference.count for row in rows[1:] if (one := row.differences.get(leading))), default=0)
    return f"{len(rows)} variants" + (f", {users} users of the exam" if users else "")


def _named(row: Row) -> str:
    return f"{row.variant}: {row.about}" if row.about else row.variant


def _heads(names: Sequence[str], leading: str) -> list[str]:
    return ["variant", leading, f"p ({leading})", *(name for name in names if name != leading)]


def _means(row: Row, names: Sequence[str]) -> list[Cell]:
    return [short(row.means[name]) if name in row.means else None for name in names]


def _compared(row: Row, names: Sequence[str]) -> list[Cell]:
    """A row of differences, the leading figure first."""
    corrected = None if row.corrected is None else Number(row.corrected, probability(row.corrected))
    first, *rest = (None if one is None else one.difference for one in map(row.differences.get, names))
    return [row.variant, first, corrected, *rest]


def _by_figure(groups: Sequence[Group]) -> list[list[Group]]:
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
