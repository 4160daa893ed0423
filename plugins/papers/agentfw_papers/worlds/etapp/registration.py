"""Registers the environment `etapp`."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "etapp",
            "agentfw_papers.worlds.etapp.environment:Etapp",
            "The ETAPP benchmark of personal assistants, from a copy of your own",
            settings="agentfw_papers.worlds.etapp.etapp_settings:EtappSettings",
        ),
    ],
)
