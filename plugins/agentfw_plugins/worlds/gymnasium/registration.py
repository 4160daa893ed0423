"""Registers the adapter for Gymnasium environments and the spec that it starts from."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ...registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "gymnasium",
            "agentfw_plugins.worlds.gymnasium.environment:GymnasiumEnvironment",
            "Any Gymnasium environment, one step per tick",
            settings="agentfw_plugins.worlds.gymnasium.environment:GymnasiumSettings",
            extra="gymnasium",
            needs=("gymnasium",),
        ),
    ],
    specs=[NamedSpec("gymnasium", str(_SPECS / "gymnasium.toml"), "CartPole with random actions")],
)
