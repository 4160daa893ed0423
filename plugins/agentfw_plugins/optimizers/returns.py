"""Returns of a sequence of rewards.

>>> returns_to_go([1.0, 0.0, 2.0], gamma=0.5)
[1.5, 1.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["returns_to_go"]


def returns_to_go(rewards: Sequence[float], gamma: float) -> list[float]:
    """G_t = r_t + gamma G_(t+1), for each reward of one rollout."""
    found = list(rewards)
    for place in range(len(found) - 2, -1, -1):
        found[place] += gamma * found[place + 1]
    return found
