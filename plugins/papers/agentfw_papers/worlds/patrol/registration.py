"""Registers the patrol and its rule-based policy."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "patrol",
            "worlds.patrol.environment:Patrol",
            "A round of checkpoints to handle, while alarms elsewhere expire",
            settings="worlds.patrol.patrol_settings:PatrolSettings",
        ),
    ],
    policies=[
        component(
            "patrol",
            "worlds.patrol.rule_policy:PatrolController",
            "Responds to a patrol's alarms by a hand-written rule",
            settings="ControllerSettings",
        ),
    ],
)
