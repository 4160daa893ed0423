"""Registers the merchant world, its rewards, its planner and its learner, and the specs of its runs."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "merchant",
            "worlds.merchant.environment:MerchantMarket",
            "A market analyst that plans analyses for merchants with hidden tastes",
            settings="worlds.merchant.merchant_settings:MerchantSettings",
        ),
    ],
    policies=[
        component(
            "merchant-linear",
            "worlds.merchant.linear_policy:PlannerPolicy",
            "Plans the analyses of `merchant` by eight weights; trained in seconds",
        ),
        component(
            "merchant-team",
            "worlds.merchant.team_policy:TeamPolicy",
            "One policy plans for `merchant`, and another writes the report",
        ),
        component(
            "merchant-teacher",
            "worlds.merchant.teacher:TeacherPolicy",
            "Teaches the model tiny-merchant: a planner that does everything right, half of the time",
        ),
    ],
    learners=[
        component(
            "merchant-linear",
            "linear:LinearLearner",
            "Trains the policy merchant-linear with exact gradients",
            settings="worlds.merchant.linear_policy:PlannerLearnerSettings",
        ),
    ],
    rewards=[
        component(
            "merchant_base",
            "worlds.merchant.rewards:MerchantBase",
            "Authenticity, logic, completion and depth of a report, the same for every merchant",
            settings="",
        ),
        component(
            "merchant_personal",
            "worlds.merchant.rewards:MerchantPersonal",
            "How well the recommended product meets what the merchant has stated",
            settings="",
        ),
        component(
            "merchant_preference",
            "worlds.merchant.rewards:MerchantPreference",
            "How much the merchant likes the recommended product, by a preference model of the world's log",
            settings="rewards.log_preference:LogPreferenceSettings",
        ),
    ],
)
