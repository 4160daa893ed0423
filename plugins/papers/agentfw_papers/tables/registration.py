"""Registers what works with tables of values."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    policies=[
        component(
            "qtable", "tables.value_table:QTablePolicy", "Follows a table of the value of each choice in each state"
        ),
    ],
    learners=[
        component(
            "tabular",
            "tables.value_table:TabularLearner",
            "Q-learning of a value table from recorded episodes; no torch",
        ),
    ],
)
