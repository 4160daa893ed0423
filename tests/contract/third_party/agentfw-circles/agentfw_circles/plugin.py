"""Registers the reward model, and says which extra it needs."""

from __future__ import annotations

from agentfw import Component, hookimpl

AGENTFW_PLUGIN_API = 1


@hookimpl
def agentfw_reward_models() -> list[Component]:
    return [
        Component(
            "circles",
            "agentfw_circles.circles:Circles",
            "The share of actions that lead on instead of back",
            extra="graphs",
            needs=("networkx",),
        )
    ]
