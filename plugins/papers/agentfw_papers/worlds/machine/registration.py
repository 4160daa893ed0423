"""Registers the machine and the policy that looks after it."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "machine",
            "worlds.machine.environment:Machine",
            "A machine that breaks unseen, and noises that may tell of it",
        ),
    ],
    policies=[
        component(
            "machine",
            "worlds.machine.rule_policy:MachineKeeper",
            "Looks after the machine by the best plan, or by a simple rule",
        ),
    ],
)
