"""Registers the assistant world, its rewards, its policy and its learner, and the specs of its runs."""

from __future__ import annotations

from agentfw_plugins.registration import Registration, components_of

component = components_of("agentfw_papers")

REGISTRATION = Registration(
    environments=[
        component(
            "assistant",
            "worlds.assistant.environment:Assistant",
            "A personal assistant whose users have hidden tastes and come back day after day",
            settings="worlds.assistant.assistant_settings:AssistantSettings",
        ),
    ],
    policies=[
        component(
            "assistant-linear",
            "worlds.assistant.linear_policy:LinearPolicy",
            "Serves the users of `assistant` by weighing what is stated, remembered and famous; trained in seconds",
        ),
        component(
            "assistant-teacher",
            "worlds.assistant.card_teacher:CardTeacher",
            "Serves the users of `assistant` from cards, thinking aloud, for models to learn from; no model",
        ),
    ],
    learners=[
        component(
            "assistant-linear",
            "linear:LinearLearner",
            "Trains the policy assistant-linear with exact gradients",
            settings="worlds.assistant.linear_policy:LinearLearnerSettings",
        ),
    ],
    rewards=[
        component(
            "assistant_base",
            "worlds.assistant.rewards:Base",
            "Procedure and proactive marks of the assistant, the same for every user",
            settings="",
        ),
        component(
            "assistant_personal",
            "worlds.assistant.rewards:Personal",
            "How well the assistant's choices meet what the user has stated",
            settings="",
        ),
        component(
            "assistant_preference",
            "worlds.assistant.rewards:AssistantPreference",
            "How much the user likes the choices, by a preference model of the world's log",
            settings="rewards.log_preference:LogPreferenceSettings",
        ),
        component(
            "assistant_stars",
            "worlds.assistant.rewards:Stars",
            "The stars that users give, where they give any",
            settings="",
        ),
        component(
            "assistant_satisfaction",
            "worlds.assistant.rewards:Satisfaction",
            "The true, hidden satisfaction: an upper bound for comparisons, which no real assistant has",
            settings="",
        ),
    ],
)
