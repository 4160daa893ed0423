"""Registers the budget world, its reward and the spec of its training."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec
from agentfw_plugins.registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "budget",
            "agentfw_papers.worlds.budget.environment:Budget",
            "Problems to solve within a budget of tokens: right, and in time",
            settings="agentfw_papers.worlds.budget.budget_settings:BudgetSettings",
        ),
    ],
    rewards=[
        Component(
            "correct",
            "agentfw_papers.worlds.budget.rewards:Correct",
            "Whether problems were solved, in time or not",
        ),
    ],
    specs=[
        NamedSpec(
            "train-budget", str(_SPECS / "train-budget.toml"), "agentfw train budget: learns to be right in time"
        ),
    ],
)
