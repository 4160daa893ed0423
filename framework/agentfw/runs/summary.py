"""A run in figures: the mean of everything measured, with its 95% interval.

The one rule: a figure without its interval is not told. The intervals are bootstrapped over episodes with a fixed seed,
so the same run gives the same summary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..statistics import Interval, bootstrap

if TYPE_CHECKING:
    from .folder import RunFolder

__all__ = ["Summary", "beside", "columns", "course", "figures_of", "in_order", "summarize"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to."""

    run: str
    environment: str
    episodes: int
    turns: int
    tokens: int
    failures: int
    seconds: float
    """How long the last execution took; what an interrupted one took before is not in it."""
    figures: Mapping[str, Interval] = field(default_factory=dict)
    references: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    """The same figures of simple players that the environment knows, by their names."""

    def means(self) -> dict[str, float]:
        return {name: interval.estimate for name, interval in self.figures.items()}

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; a bound that isn't known (one episode has no spread) is null."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        record["figures"] = _to_rows(self.figures)
        record["references"] = {name: _to_rows(figures) for name, figures in self.references.items()}
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Summary:
        references = {name: _from_rows(rows) for name, rows in record.get("references", {}).items()}
        return cls(**{**record, "figures": _from_rows(record["figures"]), "references": references})


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The figures of many episodes, by name: the reward, the utility, and whatever the environment counts.

    An episode that has not measured a figure has NaN there; a figure that none of them has measured is left out.
    """
    rows = [figures_of(record) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: [row.get(name, math.nan) for row in rows] for name in names}
    return {name: values for name, values in found.items() if not all(map(math.isnan, values))}


def figures_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The figures of one episode."""
    values = {"reward": record["reward"], "utility": record["utility"], **record["outcome"]}
    return {name: float(value) for name, value in values.items()}


def course(records: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """The headline figure of each round, over all episodes; empty where the environment has no rounds."""
    found: dict[int, list[float]] = {}
    for record in records:
        for number, value in record["course"]:
            if not math.isnan(value):
                found.setdefault(int(number), []).append(float(value))
    return dict(sorted(found.items()))


def in_order(names: Iterable[str], headline: str) -> list[str]:
    """Figures as a table shows them: the headline, then the reward and the utility, then the others."""
    return sorted(names, key=lambda name: (name != headline, name not in ("reward", "utility")))


def beside(summary: Summary, folder: RunFolder) -> list[tuple[str, Mapping[str, Interval]]]:
    """The run under the names of what it was played with, and then the simple players, the best of them first."""
    spec: Mapping[str, Any] = folder.about["spec"]
    own = " + ".join(choice["name"] for choice in (spec["policy"], *spec["memories"]))
    sign = 1 if folder.about.get("lower_is_better") else -1
    others = sorted(summary.references.items(), key=lambda item: sign * item[1][folder.headline].estimate)
    return [(own, summary.figures), *others]


def summarize(
    folder: RunFolder, seconds: float, references: Mapping[str, Sequence[Mapping[str, float]]] | None = None
) -> Summary:
    """Sum up what is on disk, beside what simple players reach."""
    records = folder.metrics()
    return Summary(
        run=folder.id,
        environment=str(folder.about["spec"]["environment"]["name"]),
        episodes=len(records),
        turns=sum(int(record["turns"]) for record in records),
        tokens=sum(int(record["tokens"]) for record in records),
        failures=sum(int(record["failures"]) for record in records),
        seconds=round(seconds, 3),
        figures={name: bootstrap(values) for name, values in columns(records).items()},
        references={
            player: {name: bootstrap([row[name] for row in rows if name in row]) for row in rows[:1] for name in row}
            for player, rows in (references or {}).items()
        },
    )


def _to_rows(figures: Mapping[str, Interval]) -> dict[str, Any]:
    return {
        name: {
            "mean": interval.estimate,
            "low": _or_none(interval.low),
            "high": _or_none(interval.high),
            "count": interval.count,
            "missing": interval.missing,
        }
        for name, interval in figures.items()
    }


def _from_rows(rows: Mapping[str, Any]) -> dict[str, Interval]:
    return {
        name: Interval(row["mean"], _or_nan(row["low"]), _or_nan(row["high"]), row["count"], row["missing"])
        for name, row in rows.items()
    }


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
