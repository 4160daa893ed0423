"""Registers the specs that serve any environment."""

from __future__ import annotations

from pathlib import Path

from agentfw.hookspecs import NamedSpec

from ..registration import Registration

_HERE = Path(__file__).parent

REGISTRATION = Registration(
    specs=[
        NamedSpec("any", str(_HERE / "any.toml"), "Any other environment, by its own demonstration"),
        NamedSpec(
            "train-any", str(_HERE / "train-any.toml"), "agentfw train: the small model, with GRPO on an adapter"
        ),
    ],
)
