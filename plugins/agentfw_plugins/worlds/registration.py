"""Lists what the worlds offer: environments, policies and rewards of one world alone, and specs."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ..registration import Registration

_SPECS = Path(__file__).parent / "specs"
_CALENDAR = Path(__file__).parent / "calendar" / "specs"
_TINY = "A year of calendar conflicts for each of five users: the small language model with its StrategyHub"

_OF_CALENDAR = {
    "calendar-tiny": _TINY,
    "calendar": "A year of calendar conflicts for each of ten users: the linear learner",
    "calendar-zero-shot": "The calendar, by a language model that decides at once",
    "calendar-react": "The calendar, by a language model that reasons before it decides",
    "calendar-memory-react": "The calendar, by a language model that looks back and reasons before it decides",
    "calendar-strategyhub": "The calendar, by a language model that keeps strategies in a StrategyHub",
    "train-calendar": "agentfw train calendar: that of the PEARL paper, with four rewards and round-wise advantages",
}
_OF_OTHERS = {
    "train-from-feedback": "agentfw train --from RUN: learns from good answers and corrections",
    "train-from-feedback-kto": "agentfw train --from RUN --optimizer kto: learns from good and bad answers",
    "train-from-feedback-grpo": "agentfw train --from RUN --optimizer grpo: fresh answers, scored by recorded feedback",
    "train-from-feedback-empirical_bayes": "agentfw train --from RUN --optimizer empirical_bayes: that, for many users",
    "train-from-feedback-parpo": "agentfw train --from RUN --optimizer parpo: the same, by another optimizer",
    "gymnasium": "CartPole with random actions",
    "train-program": "agentfw train program: trains the model inside somebody else's agent",
    "train-verifiers": "agentfw train verifiers: trains on an environment of the library verifiers",
    "questions": "agentfw run questions: prompts in a file, whose answers a reward function scores",
    "train-questions": "agentfw train questions: learns from prompts and a reward function",
}

REGISTRATION = Registration(
    environments=[
        Component(
            "calendar",
            "agentfw_plugins.worlds.calendar.environment:CalendarConflicts",
            "A user's year of calendar conflicts, one decision each, with feedback",
            settings="agentfw_plugins.worlds.calendar.environment:CalendarSettings",
        ),
        Component(
            "from_feedback",
            "agentfw_plugins.worlds.from_feedback:FromFeedback",
            "Recorded conversations, and the answers that people rated",
            settings="agentfw_plugins.worlds.from_feedback:FromFeedbackSettings",
        ),
        Component(
            "gymnasium",
            "agentfw_plugins.worlds.gymnasium:GymnasiumEnvironment",
            "Any Gymnasium environment, one step per tick",
            settings="agentfw_plugins.worlds.gymnasium:GymnasiumSettings",
            extra="gymnasium",
            needs=("gymnasium",),
        ),
        Component(
            "inbox",
            "agentfw_plugins.worlds.inbox.environment:Inbox",
            "Mails arrive while the agent is writing a document",
            settings="agentfw_plugins.worlds.inbox.mails:InboxSettings",
        ),
        Component(
            "program",
            "agentfw_plugins.worlds.program:Program",
            "Any program that speaks to a model over HTTP, with tasks from a file",
            settings="agentfw_plugins.worlds.program:ProgramSettings",
            extra="web",
            needs=("starlette", "uvicorn"),
        ),
        Component(
            "questions",
            "agentfw_plugins.worlds.questions:Questions",
            "Prompts in a file, whose answers a reward function scores",
            settings="agentfw_plugins.worlds.questions:QuestionsSettings",
        ),
        Component(
            "verifiers",
            "agentfw_plugins.worlds.verifiers:Verifiers",
            "Any environment of the library verifiers, scored by its own rewards",
            settings="agentfw_plugins.worlds.verifiers:VerifiersSettings",
            extra="verifiers",
            needs=("verifiers", "starlette", "uvicorn"),
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
    ],
    rewards=[
        Component(
            "calendar_format",
            "agentfw_plugins.worlds.calendar.baselines:CalendarFormat",
            "Whether each conflict got a valid decision and a complete ranking",
        ),
        Component(
            "calendar_decision",
            "agentfw_plugins.worlds.calendar.baselines:CalendarDecision",
            "Whether the event was kept that the user keeps",
        ),
        Component(
            "calendar_ranking",
            "agentfw_plugins.worlds.calendar.baselines:CalendarRanking",
            "How high the user's event was ranked",
        ),
        Component(
            "calendar_hub",
            "agentfw_plugins.worlds.calendar.baselines:CalendarHub",
            "Whether the memory was used for a conflict",
            settings="agentfw_plugins.worlds.calendar.baselines:CalendarHubSettings",
        ),
        Component(
            "feedback_preference",
            "agentfw_plugins.worlds.from_feedback:FeedbackPreference",
            "What this user likes, by a preference model that is fitted on recorded feedback",
            settings="agentfw_plugins.worlds.from_feedback:FeedbackPreferenceSettings",
            extra="rewardmodels",
            needs=("torch", "safetensors"),
        ),
    ],
    specs=[
        NamedSpec("default", str(_CALENDAR / "calendar-tiny.toml"), _TINY),
        *(NamedSpec(name, str(_CALENDAR / f"{name}.toml"), summary) for name, summary in _OF_CALENDAR.items()),
        *(NamedSpec(name, str(_SPECS / f"{name}.toml"), summary) for name, summary in _OF_OTHERS.items()),
        NamedSpec("jsonl", str(_SPECS / "questions.toml"), "agentfw run TASKS.jsonl: the same, as a file is named"),
        NamedSpec(
            "train-jsonl",
            str(_SPECS / "train-questions.toml"),
            "agentfw train TASKS.jsonl: the same, as a file is named",
        ),
    ],
)
