"""Registers a reward model that needs an extra. Nobody here has it, so the reward model is never made."""

from __future__ import annotations

from agentfw import Component, hookimpl


@hookimpl
def agentfw_reward_models() -> list[Component]:
    summary = "The share of actions that lead on instead of back"
    return [Component("circles", "agentfw_circles.circles:Circles", summary, extra="graphs", needs=("networkx",))]
