"""Registers the memories."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
    memories=[
        Component(
            "strategyhub",
            "agentfw_plugins.memories.strategyhub:StrategyHubMemory",
            "A short list of strategies that the agent maintains itself",
            settings="agentfw_plugins.memories.strategyhub:StrategyHubSettings",
        ),
        Component(
            "skillgraph",
            "agentfw_plugins.memories.skillgraph:SkillGraphMemory",
            "Skills that match the query and the user, from a graph that learns",
            settings="agentfw_plugins.memories.skillgraph:SkillGraphSettings",
            extra="memory",
            # Communities need it once there are several users. Asking now refuses a run before its first episode.
            needs=("igraph",),
        ),
    ],
)
