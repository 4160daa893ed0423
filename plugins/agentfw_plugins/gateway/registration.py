"""Registers the environment of `agentfw serve` and the spec that it starts from."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "sessions",
            "agentfw_plugins.gateway.environment:Sessions",
            "Whoever talks with `agentfw serve`",
        ),
    ],
)
