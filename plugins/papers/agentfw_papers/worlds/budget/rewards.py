"""The reward `correct`: whether problems were solved, in time or not.

It ignores the clock. The environment `budget` itself pays for being right in time, which is the reward `utility`.

    agentfw train budget                              # utility: right, and within the budget
    agentfw train budget --reward correct             # right
"""

from __future__ import annotations

from agentfw_plugins.rewards.measured import Measured


class Correct(Measured):
    """1 for a problem that was solved."""

    component = measure = "correct"
