"""Registers the tracker. The command is found by an entry point of its own."""

from __future__ import annotations

from agentfw import Component, hookimpl

AGENTFW_PLUGIN_API = 1


@hookimpl
def agentfw_trackers() -> list[Component]:
    return [
        Component(
            "ledger",
            "agentfw_ledger.tracker:Ledger",
            "Results of all runs in one file",
            settings="agentfw_ledger.tracker:LedgerSettings",
        )
    ]
