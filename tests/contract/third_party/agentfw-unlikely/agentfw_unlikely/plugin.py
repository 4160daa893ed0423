"""Registers the optimizer. Its loss needs no registration: the optimizer names it."""

from __future__ import annotations

from agentfw import Component, hookimpl

AGENTFW_PLUGIN_API = 1


@hookimpl
def agentfw_optimizers() -> list[Component]:
    return [
        Component(
            "unlikely", "agentfw_unlikely.optimizer:Unlikely", "Likelihood of good answers, unlikelihood of bad ones"
        )
    ]
