"""Registers the environment `program` and the spec of its training."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ...registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "program",
            "agentfw_plugins.worlds.program.environment:Program",
            "Any program that speaks to a model over HTTP, with tasks from a file",
            settings="agentfw_plugins.worlds.program.settings:ProgramSettings",
            extra="web",
            needs=("starlette", "uvicorn"),
        ),
    ],
    specs=[
        NamedSpec(
            "train-program",
            str(_SPECS / "train-program.toml"),
            "agentfw train program: trains the model inside somebody else's agent",
        ),
    ],
)
