"""Registers the environment `etapp`."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "etapp",
            "worlds.etapp.environment:Etapp",
            "The ETAPP benchmark of personal assistants, from a copy of your own",
            settings="worlds.etapp.etapp_settings:EtappSettings",
        ),
    ],
)
