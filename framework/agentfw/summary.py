"""A run in figures: the mean of everything measured, with its 95% interval.

The one rule: a figure without its interval is not told. The intervals are bootstrapped over episodes with a fixed seed, so the
same run gives the same summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .statistics import Interval, bootstrap

if TYPE_CHECKING:
    from .run_folder import RunFolder

__all__ = ["Summary", "columns", "figures_of", "summarize"]


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
    figures: Mapping[str, Interval] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        return {name: interval.estimate for name, interval in self.figures.items()}

    def to_record(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__slots__ if name != "figures"}
        record["figures"] = {
            name: {"mean": interval.estimate, "low": interval.low, "high": interval.high, "count": interval.count}
            for name, interval in self.figures.items()
        }
        return record


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The figures of many episodes, by name: the reward, the utility, and whatever the environment counts."""
    found: dict[str, list[float]] = {}
    for record in records:
        for name, value in figures_of(record).items():
            found.setdefault(name, []).append(value)
    return found


def figures_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The figures of one episode."""
    values = {"reward": record["reward"], "utility": record["utility"], **record["outcome"]}
    return {name: float(value) for name, value in values.items()}


def summarize(folder: RunFolder, seconds: float) -> Summary:
    """Sum up what is on disk."""
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
    )
