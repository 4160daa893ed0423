"""The hooks that ship with agentfw."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

_HERE = "agentfw_plugins.hooks"

REGISTRATION = Registration(
    hooks=[
        Component(
            "approve",
            f"{_HERE}.approve:Approve",
            "Asks a person before the named tools are called",
            settings=f"{_HERE}.approve:ApproveSettings",
        ),
        Component(
            "budget",
            f"{_HERE}.budget:Budget",
            "Counts tokens and money of each user, key of a gateway and run, and limits them",
            settings=f"{_HERE}.budget:BudgetSettings",
        ),
        Component(
            "redact",
            f"{_HERE}.redact:Redact",
            "Strikes keys, passwords and card numbers out of what is recorded",
            settings=f"{_HERE}.redact:RedactSettings",
        ),
    ]
)
