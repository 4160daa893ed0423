"""Registers the kitchen, its rule-based policy and the spec that it starts from."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec
from agentfw_plugins.registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "kitchen",
            "agentfw_papers.worlds.kitchen.environment:Kitchen",
            "Cooking and tutoring at once: dishes give signals while a pupil is being taught",
            settings="agentfw_papers.worlds.kitchen.kitchen_settings:KitchenSettings",
        ),
    ],
    policies=[
        Component(
            "kitchen",
            "agentfw_papers.worlds.kitchen.rule_policy:KitchenController",
            "Runs the kitchen by a simple rule, with actions written as a model writes them",
            settings="agentfw_papers.worlds.kitchen.rule_policy:KitchenControllerSettings",
        ),
    ],
    specs=[NamedSpec("kitchen", str(_SPECS / "kitchen.toml"), "Tutoring while cooking, by a simple rule")],
)
