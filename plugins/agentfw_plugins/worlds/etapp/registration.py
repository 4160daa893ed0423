"""Registers the environment `etapp`."""

from __future__ import annotations

from agentfw import Component

from ...registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "etapp",
            "agentfw_plugins.worlds.etapp.environment:Etapp",
            "The ETAPP benchmark of personal assistants, from a copy of your own",
            settings="agentfw_plugins.worlds.etapp.etapp_settings:EtappSettings",
        ),
    ],
)
