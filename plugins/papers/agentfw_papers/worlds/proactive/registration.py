"""Registers the proactive world, its rewards, its judge and its specs."""

from __future__ import annotations

from agentfw import Component
from agentfw_plugins.registration import Registration, components_of

_REWARDS = "agentfw_papers.worlds.proactive.rewards"

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "proactive",
            "worlds.proactive.environment:Proactive",
            "A conversation to follow: say in time which actions it will need",
            settings="worlds.proactive.settings:ProactiveSettings",
        ),
    ],
    policies=[
        component(
            "timing_judge",
            "worlds.proactive.judge:TimingJudge",
            "A program that marks predicted actions for their timing, for the reward rubric",
        ),
    ],
    rewards=[
        Component(name, f"{_REWARDS}:{factory}", summary, settings=f"{_REWARDS}:LevelSettings")
        for name, factory, summary in (
            ("proactive_ac", "Agreement", "Agreement of predicted actions with the reference (AC)"),
            ("proactive_max_ac", "BestAgreement", "Agreement of the best predicted action (Max AC)"),
            ("proactive_pt", "Timing", "Share of predicted actions that are ready in time (PT)"),
            ("proactive_ftr", "FalseTriggers", "Cost: share of ready actions that are never needed (FTR)"),
            ("proactive_format", "Format", "Whether a prediction could be read"),
        )
    ],
)
