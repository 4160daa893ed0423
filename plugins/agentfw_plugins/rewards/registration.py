"""Registers the reward models that serve any world."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
    rewards=[
        Component(
            "utility",
            "agentfw_plugins.rewards.utility:Utility",
            "What the environment itself paid",
        ),
        Component(
            "format",
            "agentfw_plugins.rewards.format:Format",
            "Whether each answer could be parsed and carried out",
        ),
        Component(
            "feedback",
            "agentfw_plugins.rewards.feedback:Feedback",
            "What the user said of the answers, good or bad",
        ),
        Component(
            "rubric",
            "agentfw_plugins.rewards.rubric:Rubric",
            "Any policy as a judge that compares samples of one task, by rules in words",
            settings="agentfw_plugins.rewards.rubric:RubricSettings",
        ),
        Component(
            "keypoints",
            "agentfw_plugins.rewards.keypoints:Keypoints",
            "Any policy as a judge that marks episodes on an absolute scale, by points that the environment names",
            settings="agentfw_plugins.rewards.keypoints:KeypointsSettings",
        ),
        Component(
            "preference",
            "agentfw_plugins.rewards.preference:Preference",
            "What this user likes, by a fitted preference model",
            settings="agentfw_plugins.rewards.preference:PreferenceSettings",
            extra="rewardmodels",
            needs=("safetensors",),
        ),
    ],
)
