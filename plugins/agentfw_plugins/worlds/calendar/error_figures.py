"""The figures of the protocol, as pure functions: error rates, rank distance, error reduction.

The one rule: they are the paper's definitions on plain numbers, nothing more, so that an environment, a benchmark and a
trainer can't come to differ in them.

    >>> rank_distance("B", ["C", "B", "A"], 3), error_reduction([1, 1, 0, 1, 0, 0, 0, 1])
    (0.5, 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "CHECKPOINTS",
    "average_errors",
    "episode_figures",
    "error_reduction",
    "quarters",
    "rank_distance",
]

CHECKPOINTS = (1, 25, 50, 75, 104)


def average_errors(errors: Sequence[float]) -> dict[str, float]:
    """The mean error over the first N rounds, for each N of the protocol that the episode reached, and over all."""
    found = {f"aer@{count}": sum(errors[:count]) / count for count in CHECKPOINTS if count <= len(errors)}
    return {**found, "aer": sum(errors) / len(errors)} if errors else found


def rank_distance(answer: str, ranking: Sequence[str], events: int) -> float:
    """ORD: 1 where the true answer is ranked first, 0 where it is last or isn't ranked at all."""
    if answer not in ranking or events < 2:
        return 0.0
    return max(0.0, 1.0 - list(ranking).index(answer) / (events - 1))


def quarters(errors: Sequence[float]) -> list[float]:
    """The mean error of each quarter; what four doesn't divide belongs to the quarters in the middle."""
    size = max(1, len(errors) // 4)
    middle = errors[size : len(errors) - size]
    half = len(middle) // 2
    parts = (errors[:size], middle[:half], middle[half:], errors[-size:])
    return [sum(part) / len(part) if len(part) else 0.0 for part in parts]


def error_reduction(errors: Sequence[float]) -> float:
    """(first - last) / first over the first and the last quarter.

    Where the first quarter has no error there is nothing to reduce: 0 if the last has none either, else -1.
    """
    if not errors:
        return 0.0
    parts = quarters(errors)
    first, last = parts[0], parts[-1]
    if first == 0:
        return 0.0 if last == 0 else -1.0
    return (first - last) / first


def episode_figures(errors: Sequence[float], distances: Sequence[float], invalid: int) -> dict[str, float]:
    """Everything that the protocol says of an episode; of one without a round, the worst."""
    played = max(1, len(errors))
    averages = average_errors(errors) if errors else {"aer": 1.0}
    return {
        "error": averages["aer"],
        **averages,
        "ord": sum(distances) / played,
        "error_reduction": error_reduction(errors),
        "invalid": invalid / played,
    }
