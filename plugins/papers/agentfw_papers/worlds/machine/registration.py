"""Registers the machine and the policy that looks after it."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "machine",
            "agentfw_papers.worlds.machine.environment:Machine",
            "A machine that breaks unseen, and noises that may tell of it",
            settings="agentfw_papers.worlds.machine.environment:MachineSettings",
        ),
    ],
    policies=[
        Component(
            "machine",
            "agentfw_papers.worlds.machine.rule_policy:MachineKeeper",
            "Looks after the machine by the best plan, or by a simple rule",
            settings="agentfw_papers.worlds.machine.rule_policy:MachineKeeperSettings",
        ),
    ],
)
