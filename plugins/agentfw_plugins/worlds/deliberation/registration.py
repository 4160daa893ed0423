"""Registers the deliberation world."""

from __future__ import annotations

from agentfw import Component

from ...registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "deliberation",
            "agentfw_plugins.worlds.deliberation.environment:Deliberation",
            "Questions with deadlines: longer thinking is right more often but may be too late",
            settings="agentfw_plugins.worlds.deliberation.environment:DeliberationSettings",
        ),
    ],
)
