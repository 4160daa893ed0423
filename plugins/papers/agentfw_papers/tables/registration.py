"""Registers what works with tables of values."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration

REGISTRATION = Registration(
    policies=[
        Component(
            "qtable",
            "agentfw_papers.tables.qtable:QTablePolicy",
            "Follows a table of the value of each choice in each state",
            settings="agentfw_papers.tables.qtable:QTableSettings",
        ),
    ],
    learners=[
        Component(
            "tabular",
            "agentfw_papers.tables.tabular:TabularLearner",
            "Q-learning of a value table from recorded episodes; no torch",
            settings="agentfw_papers.tables.tabular:TabularSettings",
        ),
    ],
)
