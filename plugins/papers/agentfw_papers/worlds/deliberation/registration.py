"""Registers the deliberation world."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "deliberation",
            "agentfw_papers.worlds.deliberation.environment:Deliberation",
            "Questions with deadlines: longer thinking is right more often but may be too late",
            settings="agentfw_papers.worlds.deliberation.environment:DeliberationSettings",
        ),
    ],
)
