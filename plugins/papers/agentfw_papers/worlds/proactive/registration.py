"""Registers the proactive world, its rewards, its judge and its specs."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec
from agentfw_plugins.registration import Registration

_SPECS = Path(__file__).parent / "specs"
_REWARDS = "agentfw_papers.worlds.proactive.rewards"

REGISTRATION = Registration(
    environments=[
        Component(
            "proactive",
            "agentfw_papers.worlds.proactive.environment:Proactive",
            "A conversation to follow: say in time which actions it will need",
            settings="agentfw_papers.worlds.proactive.settings:ProactiveSettings",
        ),
    ],
    policies=[
        Component(
            "timing_judge",
            "agentfw_papers.worlds.proactive.judge:TimingJudge",
            "A program that marks predicted actions for their timing, for the reward rubric",
            settings="agentfw_papers.worlds.proactive.judge:TimingJudgeSettings",
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
    specs=[
        NamedSpec(
            "proactive", str(_SPECS / "proactive.toml"), "agentfw run proactive: a late oracle and simple players"
        ),
        NamedSpec(
            "proactive-plain",
            str(_SPECS / "proactive-plain.toml"),
            "The paper's baseline without reasoning, for any model",
        ),
        NamedSpec(
            "proactive-reasoning",
            str(_SPECS / "proactive-reasoning.toml"),
            "The paper's baseline that thinks before it answers",
        ),
        NamedSpec(
            "proactive-asg",
            str(_SPECS / "proactive-asg.toml"),
            "The paper's baseline that also reads the states of actions so far",
        ),
        NamedSpec(
            "train-proactive",
            str(_SPECS / "train-proactive.toml"),
            "agentfw train proactive: learns to be ready in time",
        ),
        NamedSpec(
            "train-proactive-llm",
            str(_SPECS / "train-proactive-llm.toml"),
            "The paper's training of a 14B model on four GPUs; never run here",
        ),
    ],
)
