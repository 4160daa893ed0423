"""Registers the deliberation world."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "deliberation",
            "worlds.deliberation.environment:Deliberation",
            "Questions with deadlines: longer thinking is right more often but may be too late",
        ),
    ],
)
