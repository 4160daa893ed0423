"""What correctness alone is worth: the usual reward of a solved problem, which says nothing of time.

The one rule: it doesn't look at the clock. Being right in time is what the environment `budget` pays itself, so
that is the reward `utility`.

    agentfw train budget                              # utility: right, and within the budget
    agentfw train budget --reward correct             # right
"""

from __future__ import annotations

from ...rewards.round_measure import Measured

__all__ = ["Correct"]


class Correct(Measured):
    """1 for a problem that was solved."""

    component = measure = "correct"
