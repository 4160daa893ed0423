"""Registers the budget world, its reward and the spec of its training."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "budget",
            "worlds.budget.environment:Budget",
            "Problems to solve within a budget of tokens: right, and in time",
            settings="worlds.budget.budget_settings:BudgetSettings",
        ),
    ],
    rewards=[
        component(
            "correct", "worlds.budget.environment:Correct", "Whether problems were solved, in time or not", settings=""
        ),
    ],
)
