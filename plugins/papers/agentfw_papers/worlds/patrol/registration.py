"""Registers the patrol and its rule-based policy."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "patrol",
            "agentfw_papers.worlds.patrol.environment:Patrol",
            "A round of checkpoints to handle, while alarms elsewhere expire",
            settings="agentfw_papers.worlds.patrol.patrol_settings:PatrolSettings",
        ),
    ],
    policies=[
        Component(
            "patrol",
            "agentfw_papers.worlds.patrol.rule_policy:PatrolController",
            "Responds to a patrol's alarms by a hand-written rule",
            settings="agentfw_papers.worlds.patrol.rule_policy:ControllerSettings",
        ),
    ],
)
