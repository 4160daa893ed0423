"""Registers the kitchen, its rule-based policy and the spec that it starts from."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "kitchen",
            "worlds.kitchen.environment:Kitchen",
            "Cooking and tutoring at once: dishes give signals while a pupil is being taught",
            settings="worlds.kitchen.kitchen_settings:KitchenSettings",
        ),
    ],
    policies=[
        component(
            "kitchen",
            "worlds.kitchen.rule_policy:KitchenController",
            "Runs the kitchen by a simple rule, with actions written as a model writes them",
        ),
    ],
)
