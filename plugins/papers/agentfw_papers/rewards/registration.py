"""Registers the reward that several worlds use."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    rewards=[
        component(
            "keypoints",
            "rewards.keypoints:Keypoints",
            "Any policy as a judge that marks episodes on an absolute scale, by points that the environment names",
        ),
    ],
)
