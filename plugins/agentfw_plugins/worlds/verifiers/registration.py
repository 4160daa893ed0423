"""Registers the adapter for environments of the library verifiers, and the spec of its training."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ...registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "verifiers",
            "agentfw_plugins.worlds.verifiers.environment:Verifiers",
            "Any environment of the library verifiers, scored by its own rewards",
            settings="agentfw_plugins.worlds.verifiers.settings:VerifiersSettings",
            extra="verifiers",
            needs=("verifiers", "starlette", "uvicorn"),
        ),
    ],
    specs=[
        NamedSpec(
            "train-verifiers",
            str(_SPECS / "train-verifiers.toml"),
            "agentfw train verifiers: trains on an environment of the library verifiers",
        ),
    ],
)
