"""Lists what the worlds offer: environments, policies and rewards of one world alone, and specs."""

from __future__ import annotations

from pathlib import Path

from agentfw.hookspecs import NamedSpec

from ..registration import Registration, components_of

_HERE = Path(__file__).parent

component = components_of("agentfw_plugins")

REGISTRATION = Registration(
    environments=[
        component(
            "calendar",
            "worlds.calendar.environment:CalendarConflicts",
            "A user's year of calendar conflicts, one decision each, with feedback",
            settings="CalendarSettings",
        ),
        component(
            "from_feedback",
            "worlds.from_feedback:FromFeedback",
            "Recorded conversations, and the answers that people rated",
        ),
        component(
            "gymnasium",
            "worlds.gymnasium:GymnasiumEnvironment",
            "Any Gymnasium environment, one step per tick",
            extra="gymnasium",
            needs=("gymnasium",),
        ),
        component(
            "inbox",
            "worlds.inbox.environment:Inbox",
            "Mails arrive while the agent is writing a document",
            settings="worlds.inbox.mails:InboxSettings",
        ),
        component(
            "program",
            "worlds.program:Program",
            "Any program that speaks to a model over HTTP, with tasks from a file",
            extra="web",
            needs=("starlette", "uvicorn"),
        ),
        component(
            "questions", "worlds.questions:Questions", "Prompts in a file, whose answers a reward function scores"
        ),
        component(
            "verifiers",
            "worlds.verifiers:Verifiers",
            "Any environment of the library verifiers, scored by its own rewards",
            extra="verifiers",
            needs=("verifiers", "starlette", "uvicorn"),
        ),
    ],
    policies=[
        component("rules", "worlds.calendar.policies:RulesPolicy", "Resolves calendar conflicts by one simple rule"),
        component(
            "linear",
            "worlds.calendar.policies:LinearPolicy",
            "Learns a calendar's user online, as weights of the visible attributes of events",
        ),
    ],
    rewards=[
        component(
            "calendar_format",
            "worlds.calendar.baselines:CalendarFormat",
            "Whether each conflict got a valid decision and a complete ranking",
            settings="",
        ),
        component(
            "calendar_decision",
            "worlds.calendar.baselines:CalendarDecision",
            "Whether the event was kept that the user keeps",
            settings="",
        ),
        component(
            "calendar_ranking",
            "worlds.calendar.baselines:CalendarRanking",
            "How high the user's event was ranked",
            settings="",
        ),
        component(
            "calendar_hub", "worlds.calendar.baselines:CalendarHub", "Whether the memory was used for a conflict"
        ),
        component(
            "feedback_preference",
            "worlds.from_feedback:FeedbackPreference",
            "What this user likes, by a preference model that is fitted on recorded feedback",
            extra="rewardmodels",
            needs=("torch", "safetensors"),
        ),
    ],
    specs=[
        NamedSpec(
            "default", str(_HERE / "calendar" / "specs" / "calendar-tiny.toml"), "What a bare `agentfw run` does"
        ),
        NamedSpec("jsonl", str(_HERE / "specs" / "questions.toml"), "`agentfw run TASKS.jsonl`: questions"),
        NamedSpec(
            "train-jsonl", str(_HERE / "specs" / "train-questions.toml"), "`agentfw train TASKS.jsonl`: the same"
        ),
    ],
)
