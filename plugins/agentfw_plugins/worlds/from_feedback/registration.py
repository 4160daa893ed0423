"""Registers the environment of `agentfw train --from` and the spec that it starts from."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component, NamedSpec

from ...registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "from_feedback",
            "agentfw_plugins.worlds.from_feedback.environment:FromFeedback",
            "Recorded conversations, and the answers that people wanted",
            settings="agentfw_plugins.worlds.from_feedback.environment:FromFeedbackSettings",
        ),
    ],
    specs=[
        NamedSpec(
            "train-from-feedback",
            str(_SPECS / "train-from-feedback.toml"),
            "agentfw train --from RUN: learns from good answers and corrections",
        ),
    ],
)
