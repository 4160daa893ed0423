"""Registers the environment of `agentfw serve` and the spec that it starts from."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ..registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "sessions",
            "agentfw_plugins.gateway.environment:Sessions",
            "Whoever talks with `agentfw serve`",
        ),
    ],
    specs=[
        NamedSpec("serve", str(Path(__file__).parent / "specs" / "serve.toml"), "agentfw serve: a policy behind HTTP"),
    ],
)
