"""Registers the reward that several worlds use."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration

REGISTRATION = Registration(
    rewards=[
        Component(
            "keypoints",
            "agentfw_papers.rewards.keypoints:Keypoints",
            "Any policy as a judge that marks episodes on an absolute scale, by points that the environment names",
            settings="agentfw_papers.rewards.keypoints:KeypointsSettings",
        ),
    ],
)
