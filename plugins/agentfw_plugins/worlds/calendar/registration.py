"""Registers the calendar, its policies and rewards, and the specs of its runs and its training."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ...registration import Registration

_SPECS = Path(__file__).parent / "specs"
_TINY = "A year of calendar conflicts for each of five users: the small language model with its StrategyHub"

REGISTRATION = Registration(
    environments=[
        Component(
            "calendar",
            "agentfw_plugins.worlds.calendar.environment:CalendarConflicts",
            "A user's year of calendar conflicts, one decision each, with feedback",
            settings="agentfw_plugins.worlds.calendar.environment:CalendarSettings",
        ),
    ],
    policies=[
        Component(
            "rules",
            "agentfw_plugins.worlds.calendar.policies:RulesPolicy",
            "Resolves calendar conflicts by one simple rule",
            settings="agentfw_plugins.worlds.calendar.policies:RulesSettings",
        ),
        Component(
            "linear",
            "agentfw_plugins.worlds.calendar.policies:LinearPolicy",
            "Learns a calendar's user online, as weights of the visible attributes of events",
            settings="agentfw_plugins.worlds.calendar.policies:LinearSettings",
        ),
        Component(
            "teacher",
            "agentfw_plugins.worlds.calendar.teacher_policy:TeacherPolicy",
            "Keeps what it learns of a calendar's user in the StrategyHub, thinking aloud; no model",
            settings="agentfw_plugins.worlds.calendar.teacher_policy:TeacherSettings",
        ),
    ],
    rewards=[
        Component(
            "calendar_format",
            "agentfw_plugins.worlds.calendar.rewards:CalendarFormat",
            "Whether each conflict got a valid decision and a complete ranking",
        ),
        Component(
            "calendar_decision",
            "agentfw_plugins.worlds.calendar.rewards:CalendarDecision",
            "Whether the event was kept that the user keeps",
        ),
        Component(
            "calendar_ranking",
            "agentfw_plugins.worlds.calendar.rewards:CalendarRanking",
            "How high the user's event was ranked",
        ),
        Component(
            "calendar_hub",
            "agentfw_plugins.worlds.calendar.rewards:CalendarHub",
            "Whether the memory was used for a conflict",
            settings="agentfw_plugins.worlds.calendar.rewards:CalendarHubSettings",
        ),
        Component(
            "calendar_thought",
            "agentfw_plugins.worlds.calendar.thought_reward:CalendarThought",
            "Share of the written reasoning that follows from what was read",
        ),
    ],
    specs=[
        NamedSpec("default", str(_SPECS / "calendar-tiny.toml"), _TINY),
        NamedSpec("calendar-tiny", str(_SPECS / "calendar-tiny.toml"), _TINY),
        NamedSpec(
            "calendar",
            str(_SPECS / "calendar.toml"),
            "A year of calendar conflicts for each of ten users: the linear learner",
        ),
        NamedSpec(
            "calendar-zero-shot",
            str(_SPECS / "calendar-zero-shot.toml"),
            "The calendar, by a language model that decides at once",
        ),
        NamedSpec(
            "calendar-react",
            str(_SPECS / "calendar-react.toml"),
            "The calendar, by a language model that reasons before it decides",
        ),
        NamedSpec(
            "calendar-memory-react",
            str(_SPECS / "calendar-memory-react.toml"),
            "The calendar, by a language model that looks back and reasons before it decides",
        ),
        NamedSpec(
            "calendar-strategyhub",
            str(_SPECS / "calendar-strategyhub.toml"),
            "The calendar, by a language model that keeps strategies in a StrategyHub",
        ),
        NamedSpec(
            "train-calendar",
            str(_SPECS / "train-calendar.toml"),
            "agentfw train calendar: the training of the PEARL paper, with its four rewards and round-wise advantages",
        ),
        NamedSpec(
            "train-calendar-thought",
            str(_SPECS / "train-calendar-thought.toml"),
            "agentfw train calendar-thought: a model that learns from every second feedback learns better",
        ),
    ],
)
