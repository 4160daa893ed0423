"""Registers the assistant world, its rewards, its policy and its learner, and the specs of its runs."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec
from agentfw_plugins.registration import Registration

_SPECS = Path(__file__).parent / "specs"
_HERE = "agentfw_papers.worlds.assistant"

REGISTRATION = Registration(
    environments=[
        Component(
            "assistant",
            f"{_HERE}.environment:Assistant",
            "A personal assistant whose users have hidden tastes and come back day after day",
            settings=f"{_HERE}.assistant_settings:AssistantSettings",
        ),
    ],
    policies=[
        Component(
            "assistant-linear",
            f"{_HERE}.linear_policy:LinearPolicy",
            "Serves the users of `assistant` by weighing what is stated, remembered and famous; trained in seconds",
            settings=f"{_HERE}.linear_policy:LinearSettings",
        ),
        Component(
            "assistant-teacher",
            f"{_HERE}.card_teacher:CardTeacher",
            "Serves the users of `assistant` from cards, thinking aloud, for models to learn from; no model",
            settings=f"{_HERE}.card_teacher:CardTeacherSettings",
        ),
    ],
    learners=[
        Component(
            "assistant-linear",
            "agentfw_papers.linear:LinearLearner",
            "Trains the policy assistant-linear with exact gradients",
            settings=f"{_HERE}.linear_policy:LinearLearnerSettings",
        ),
    ],
    rewards=[
        Component(
            "assistant_base",
            f"{_HERE}.rewards:Base",
            "Procedure and proactive marks of the assistant, the same for every user",
        ),
        Component(
            "assistant_personal",
            f"{_HERE}.rewards:Personal",
            "How well the assistant's choices meet what the user has stated",
        ),
        Component(
            "assistant_preference",
            f"{_HERE}.preference_reward:AssistantPreference",
            "How much the user likes the choices, by a preference model of the world's log",
            settings="agentfw_papers.rewards.log_preference:LogPreferenceSettings",
        ),
        Component("assistant_stars", f"{_HERE}.rewards:Stars", "The stars that users give, where they give any"),
        Component(
            "assistant_satisfaction",
            f"{_HERE}.rewards:Satisfaction",
            "The true, hidden satisfaction: an upper bound for comparisons, which no real assistant has",
        ),
    ],
    specs=[
        NamedSpec(
            "loop-assistant",
            str(_SPECS / "loop-assistant.toml"),
            "agentfw loop assistant: memory and training, by parts",
        ),
        NamedSpec("assistant", str(_SPECS / "assistant.toml"), "Five days of 96 users, with a skill graph"),
        NamedSpec(
            "train-assistant",
            str(_SPECS / "train-assistant.toml"),
            "agentfw train assistant: empirical Bayes on the linear policy",
        ),
        NamedSpec(
            "tiny-assistant",
            str(_SPECS / "tiny-assistant.toml"),
            "Five days of 96 users, served by a small language model",
        ),
        NamedSpec(
            "train-tiny-assistant",
            str(_SPECS / "train-tiny-assistant.toml"),
            "agentfw train tiny-assistant: PARPO on a small language model",
        ),
        NamedSpec(
            "loop-tiny-assistant",
            str(_SPECS / "loop-tiny-assistant.toml"),
            "agentfw loop tiny-assistant: the loop of the assistant with a small language model",
        ),
    ],
)
