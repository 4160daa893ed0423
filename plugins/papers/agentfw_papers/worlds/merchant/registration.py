"""Registers the merchant world, its rewards, its planner and its learner, and the specs of its runs."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec
from agentfw_plugins.registration import Registration

_SPECS = Path(__file__).parent / "specs"
_HERE = "agentfw_papers.worlds.merchant"

REGISTRATION = Registration(
    environments=[
        Component(
            "merchant",
            f"{_HERE}.environment:MerchantMarket",
            "A market analyst that plans analyses for merchants with hidden tastes",
            settings=f"{_HERE}.merchant_settings:MerchantSettings",
        ),
    ],
    policies=[
        Component(
            "merchant-linear",
            f"{_HERE}.linear_policy:PlannerPolicy",
            "Plans the analyses of `merchant` by eight weights; trained in seconds",
            settings=f"{_HERE}.linear_policy:PlannerSettings",
        ),
        Component(
            "merchant-team",
            f"{_HERE}.team_policy:TeamPolicy",
            "One policy plans for `merchant`, and another writes the report",
            settings=f"{_HERE}.team_policy:TeamSettings",
        ),
        Component(
            "merchant-teacher",
            f"{_HERE}.teacher:TeacherPolicy",
            "Teaches the model tiny-merchant: a planner that does everything right, half of the time",
            settings=f"{_HERE}.teacher:TeacherSettings",
        ),
    ],
    learners=[
        Component(
            "merchant-linear",
            "agentfw_papers.linear:LinearLearner",
            "Trains the policy merchant-linear with exact gradients",
            settings=f"{_HERE}.linear_policy:PlannerLearnerSettings",
        ),
    ],
    rewards=[
        Component(
            "merchant_base",
            f"{_HERE}.rewards:MerchantBase",
            "Authenticity, logic, completion and depth of a report, the same for every merchant",
        ),
        Component(
            "merchant_personal",
            f"{_HERE}.rewards:MerchantPersonal",
            "How well the recommended product meets what the merchant has stated",
        ),
        Component(
            "merchant_preference",
            f"{_HERE}.preference_reward:MerchantPreference",
            "How much the merchant likes the recommended product, by a preference model of the world's log",
            settings="agentfw_papers.rewards.log_preference:LogPreferenceSettings",
        ),
    ],
    specs=[
        NamedSpec("merchant", str(_SPECS / "merchant.toml"), "Five days of 24 merchants, with a skill graph"),
        NamedSpec(
            "loop-merchant", str(_SPECS / "loop-merchant.toml"), "agentfw loop merchant: memory and training, by parts"
        ),
        NamedSpec(
            "train-merchant", str(_SPECS / "train-merchant.toml"), "agentfw train merchant: PARPO on the linear planner"
        ),
        NamedSpec(
            "train-merchant-tiny",
            str(_SPECS / "train-merchant-tiny.toml"),
            "agentfw train merchant-tiny: PARPO on a small language model that writes plans",
        ),
    ],
)
