"""Registers the memories."""

from __future__ import annotations

from ..registration import Registration, components_of

component = components_of("agentfw_plugins")

REGISTRATION = Registration(
    memories=[
        component(
            "strategyhub",
            "memories.strategyhub:StrategyHubMemory",
            "A short list of strategies that the agent maintains itself",
        ),
        component(
            "skillgraph",
            "memories.skillgraph:SkillGraphMemory",
            "Skills that match the query and the user, from a graph that learns",
            extra="memory",
            needs=("igraph",),
        ),
    ]
)
