"""Registers the environment and the reward of `agentfw train --from`, and the specs that it starts from."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ...registration import Registration

_SPECS = Path(__file__).parent / "specs"

REGISTRATION = Registration(
    environments=[
        Component(
            "from_feedback",
            "agentfw_plugins.worlds.from_feedback.environment:FromFeedback",
            "Recorded conversations, and the answers that people rated",
            settings="agentfw_plugins.worlds.from_feedback.environment:FromFeedbackSettings",
        ),
    ],
    rewards=[
        Component(
            "feedback_preference",
            "agentfw_plugins.worlds.from_feedback.preference_reward:FeedbackPreference",
            "What this user likes, by a preference model that is fitted on recorded feedback",
            settings="agentfw_plugins.worlds.from_feedback.preference_reward:FeedbackPreferenceSettings",
            extra="rewardmodels",
            needs=("torch", "safetensors"),
        ),
    ],
    specs=[
        NamedSpec(
            "train-from-feedback",
            str(_SPECS / "train-from-feedback.toml"),
            "agentfw train --from RUN: learns from good answers and corrections",
        ),
        NamedSpec(
            "train-from-feedback-kto",
            str(_SPECS / "train-from-feedback-kto.toml"),
            "agentfw train --from RUN --optimizer kto: learns from good and bad answers",
        ),
        NamedSpec(
            "train-from-feedback-grpo",
            str(_SPECS / "train-from-feedback-grpo.toml"),
            "agentfw train --from RUN --optimizer grpo: fresh answers, scored by recorded feedback",
        ),
        NamedSpec(
            "train-from-feedback-parpo",
            str(_SPECS / "train-from-feedback-parpo.toml"),
            "agentfw train --from RUN --optimizer parpo: fresh answers, scored by recorded feedback",
        ),
    ],
)
