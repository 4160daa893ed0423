"""What agentfw is told of this plugin. Every command imports this module, so it imports nothing but agentfw."""

from __future__ import annotations

from agentfw import Component, hookimpl

AGENTFW_PLUGIN_API = 1


@hookimpl
def agentfw_memories() -> list[Component]:
    return [
        Component(
            "postcards",
            "agentfw_postcards.postcards:Postcards",
            "One postcard an episode, as plain files",
            settings="agentfw_postcards.postcards:PostcardsSettings",
        )
    ]
