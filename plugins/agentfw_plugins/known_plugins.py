"""What our other distributions offer, so that an error about a missing name can say what to install.

A test of each distribution compares this with what it registers.
"""

from __future__ import annotations

from agentfw.hookspecs import KnownPlugin

__all__ = ["CALENDAR", "PAPERS"]

CALENDAR = KnownPlugin("agentfw-calendar", {"command": ("calendar",)}, folder="plugins/calendar")

PAPERS = KnownPlugin(
    "agentfw-papers",
    {
        "environment": (
            *("assistant", "budget", "deliberation", "etapp"),
            *("kitchen", "machine", "merchant", "patrol", "proactive"),
        ),
        "policy": (
            *("assistant-linear", "assistant-teacher", "kitchen", "merchant-linear"),
            *("machine", "merchant-teacher", "merchant-team", "patrol", "qtable", "timing_judge"),
        ),
        "reward": (
            *("assistant_base", "assistant_personal", "assistant_preference", "assistant_satisfaction"),
            *("assistant_stars", "correct", "merchant_base", "merchant_personal", "merchant_preference"),
            *("proactive_ac", "proactive_format", "proactive_ftr", "proactive_max_ac", "proactive_pt"),
        ),
        "learner": ("assistant-linear", "merchant-linear", "tabular"),
        "spec": (
            *("assistant", "kitchen", "loop-assistant", "loop-merchant", "loop-tiny-assistant", "merchant"),
            *("proactive", "proactive-asg", "proactive-plain", "proactive-reasoning", "tiny-assistant"),
            *("train-assistant", "train-budget", "train-merchant", "train-merchant-tiny", "train-proactive"),
            *("train-proactive-llm", "train-tiny-assistant"),
        ),
        "command": ("proactive",),
    },
    folder="plugins/papers",
)
