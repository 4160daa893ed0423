"""What comes with agentfw, by name. Light descriptions only: a component's module is imported when it is selected."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component, NamedSpec, hookimpl

AGENTFW_PLUGIN_API = 1


@hookimpl
def agentfw_environments() -> list[Component]:
    return [
        Component(
            "inbox",
            "agentfw_plugins.environments.inbox:Inbox",
            "Mails arrive while the agent is writing a document",
            settings="agentfw_plugins.environments.inbox:InboxSettings",
        ),
        Component(
            "calendar",
            "agentfw_plugins.calendar.environment:CalendarConflicts",
            "A user's year of calendar conflicts, one decision each, with feedback",
            settings="agentfw_plugins.calendar.environment:CalendarSettings",
        ),
        Component(
            "deliberation",
            "agentfw_plugins.environments.deliberation:Deliberation",
            "Questions with deadlines: thinking longer is right more often, and may be too late",
            settings="agentfw_plugins.environments.deliberation:DeliberationSettings",
        ),
        Component(
            "patrol",
            "agentfw_plugins.environments.patrol:Patrol",
            "A round of checkpoints to handle, and alarms elsewhere that don't wait",
            settings="agentfw_plugins.environments.patrol_settings:PatrolSettings",
        ),
        Component(
            "kitchen",
            "agentfw_plugins.environments.kitchen.world:Kitchen",
            "Cook and tutor at once: dishes give signals while a pupil is being taught",
            settings="agentfw_plugins.environments.kitchen.settings:KitchenSettings",
        ),
        Component(
            "budget",
            "agentfw_plugins.environments.budget.environment:Budget",
            "Problems to solve within a budget of tokens: right, and in time",
            settings="agentfw_plugins.environments.budget.settings:BudgetSettings",
        ),
        Component(
            "gymnasium",
            "agentfw_plugins.environments.gymnasium:GymnasiumEnvironment",
            "Any Gymnasium environment, one tick a step",
            settings="agentfw_plugins.environments.gymnasium:GymnasiumSettings",
            extra="gymnasium",
            needs=("gymnasium",),
        ),
    ]


@hookimpl
def agentfw_policies() -> list[Component]:
    return [
        Component(
            "scripted",
            "agentfw_plugins.policies.scripted:ScriptedPolicy",
            "Follows a rule or a list of replies; no model",
            settings="agentfw_plugins.policies.scripted:ScriptedSettings",
        ),
        Component(
            "openai",
            "agentfw_plugins.policies.openai:OpenAIPolicy",
            "Any server that speaks OpenAI's chat completions, such as vLLM",
            settings="agentfw_plugins.policies.openai:OpenAISettings",
        ),
        Component(
            "transformers",
            "agentfw_plugins.policies.transformers:TransformersPolicy",
            "A language model in this process, on the CPU or on a GPU; can be trained",
            settings="agentfw_plugins.policies.transformers:TransformersSettings",
            extra="train",
            needs=("torch", "transformers", "peft"),
        ),
        Component(
            "vllm",
            "agentfw_plugins.policies.vllm:VLLMPolicy",
            "A language model behind vLLM, started here or elsewhere; can be trained",
            settings="agentfw_plugins.policies.vllm:VLLMSettings",
            extra="train",
            needs=("transformers",),
        ),
        Component(
            "random",
            "agentfw_plugins.policies.random:RandomPolicy",
            "Draws a valid action at random",
            settings="agentfw_plugins.policies.random:RandomSettings",
        ),
        Component(
            "rules",
            "agentfw_plugins.calendar.policies:RulesPolicy",
            "Resolves calendar conflicts by one simple rule",
            settings="agentfw_plugins.calendar.policies:RulesSettings",
        ),
        Component(
            "linear",
            "agentfw_plugins.calendar.policies:LinearPolicy",
            "Learns a calendar's user online, as weights of what can be seen of events",
            settings="agentfw_plugins.calendar.policies:LinearSettings",
        ),
        Component(
            "qtable",
            "agentfw_plugins.engagement.qtable:QTablePolicy",
            "Follows a table of what each choice is worth in each state",
            settings="agentfw_plugins.engagement.qtable:QTableSettings",
        ),
        Component(
            "patrol",
            "agentfw_plugins.engagement.controllers:PatrolController",
            "Responds to a patrol's alarms by a hand-written rule",
            settings="agentfw_plugins.engagement.controllers:ControllerSettings",
        ),
        Component(
            "kitchen",
            "agentfw_plugins.environments.kitchen.controller:KitchenController",
            "Keeps the kitchen by a simple rule, written in the words of a model",
            settings="agentfw_plugins.environments.kitchen.controller:KitchenControllerSettings",
        ),
        Component(
            "teacher",
            "agentfw_plugins.calendar.teacher:TeacherPolicy",
            "Keeps a calendar's user in the StrategyHub, thinking aloud; no model",
            settings="agentfw_plugins.calendar.teacher:TeacherSettings",
        ),
        Component(
            "tiny",
            "agentfw_plugins.policies.tiny:TinyPolicy",
            "The small language model that comes with agentfw, for calendars",
            settings="agentfw_plugins.policies.tiny:TinySettings",
        ),
    ]


@hookimpl
def agentfw_tools() -> list[Component]:
    return [
        Component(
            "mcp",
            "agentfw_plugins.tools.mcp:MCPToolbox",
            "The tools of any MCP server, started here or at a URL",
            settings="agentfw_plugins.tools.mcp_settings:MCPSettings",
            extra="web",
            needs=("mcp",),
        )
    ]


@hookimpl
def agentfw_memories() -> list[Component]:
    return [
        Component(
            "strategyhub",
            "agentfw_plugins.memories.strategyhub:StrategyHubMemory",
            "A short list of strategies that the agent keeps itself",
            settings="agentfw_plugins.memories.strategyhub:StrategyHubSettings",
        ),
        Component(
            "skillgraph",
            "agentfw_plugins.memories.skillgraph:SkillGraphMemory",
            "Skills that fit the query and the user, from a graph that learns",
            settings="agentfw_plugins.memories.skillgraph:SkillGraphSettings",
            extra="memory",
        ),
    ]


@hookimpl
def agentfw_reward_models() -> list[Component]:
    return [
        Component(
            "utility",
            "agentfw_plugins.rewards.utility:Utility",
            "What the environment itself paid",
        ),
        Component(
            "format",
            "agentfw_plugins.rewards.format:Format",
            "Whether each answer could be understood and carried out",
        ),
        Component(
            "correct",
            "agentfw_plugins.rewards.budget:Correct",
            "Whether problems were solved, in time or not",
        ),
        Component(
            "calendar_format",
            "agentfw_plugins.rewards.calendar:CalendarFormat",
            "Whether each conflict got a valid decision and a whole ranking",
        ),
        Component(
            "calendar_decision",
            "agentfw_plugins.rewards.calendar:CalendarDecision",
            "Whether the event was kept that the user keeps",
        ),
        Component(
            "calendar_ranking",
            "agentfw_plugins.rewards.calendar:CalendarRanking",
            "How far up the user's event was ranked",
        ),
        Component(
            "calendar_hub",
            "agentfw_plugins.rewards.calendar:CalendarHub",
            "Whether the memory was used for a conflict",
            settings="agentfw_plugins.rewards.calendar:CalendarHubSettings",
        ),
        Component(
            "calendar_thought",
            "agentfw_plugins.rewards.calendar_thought:CalendarThought",
            "Which share of what was thought aloud follows from what was read",
        ),
        Component(
            "rubric",
            "agentfw_plugins.rewards.rubric:Rubric",
            "Any policy as the judge of a group, by rules in words",
            settings="agentfw_plugins.rewards.rubric:RubricSettings",
        ),
        Component(
            "preference",
            "agentfw_plugins.rewards.preference:Preference",
            "What this user likes, by a fitted preference model",
            settings="agentfw_plugins.rewards.preference:PreferenceSettings",
            extra="rewardmodels",
            needs=("safetensors",),
        ),
    ]


@hookimpl
def agentfw_optimizers() -> list[Component]:
    return [
        Component(
            "grpo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "Each sample against the mean of its group, by the group's spread",
            settings="agentfw_plugins.optimizers.grpo:GRPOSettings",
        ),
        Component(
            "dr_grpo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO without the spread, and with a constant length",
            settings="agentfw_plugins.optimizers.grpo:DrGRPOSettings",
        ),
        Component(
            "dapo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO with more room above, all tokens alike, and no groups that say nothing",
            settings="agentfw_plugins.optimizers.grpo:DAPOSettings",
        ),
        Component(
            "gspo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO with one ratio for a whole turn",
            settings="agentfw_plugins.optimizers.grpo:GSPOSettings",
        ),
        Component(
            "gdpo",
            "agentfw_plugins.optimizers.gdpo:GDPO",
            "Each reward component normalised by itself, then added up",
            settings="agentfw_plugins.optimizers.gdpo:GDPOSettings",
        ),
        Component(
            "gigpo",
            "agentfw_plugins.optimizers.gigpo:GiGPO",
            "Besides episodes, turns that were taken in the same state",
            settings="agentfw_plugins.optimizers.gigpo:GiGPOSettings",
        ),
        Component(
            "parpo",
            "agentfw_plugins.optimizers.parpo:PARPO",
            "General and personal rewards apart, the personal ones against the user's own history",
            settings="agentfw_plugins.optimizers.parpo:PARPOSettings",
        ),
        Component(
            "roundwise",
            "agentfw_plugins.optimizers.roundwise:Roundwise",
            "Each round against the same round of the other samples",
            settings="agentfw_plugins.optimizers.roundwise:RoundwiseSettings",
        ),
        Component(
            "turnwise",
            "agentfw_plugins.optimizers.turnwise:Turnwise",
            "Each turn against the same turn of the other samples",
            settings="agentfw_plugins.optimizers.turnwise:TurnwiseSettings",
        ),
        Component(
            "imitation",
            "agentfw_plugins.optimizers.imitation:Imitation",
            "Every answer of a demonstration alike",
            settings="agentfw_plugins.optimizers.imitation:ImitationSettings",
        ),
    ]


@hookimpl
def agentfw_learners() -> list[Component]:
    needs = ("torch", "transformers", "peft", "safetensors")
    return [
        Component(
            "lora",
            "agentfw_plugins.learners.lora:LoraLearner",
            "Policy gradients on an adapter, each unique token computed once",
            settings="agentfw_plugins.learners.settings:LoraSettings",
            extra="train",
            needs=needs,
        ),
        Component(
            "sft",
            "agentfw_plugins.learners.sft:SftLearner",
            "Learns to answer as was answered: demonstrations",
            settings="agentfw_plugins.learners.settings:SftSettings",
            extra="train",
            needs=needs,
        ),
        Component(
            "tabular",
            "agentfw_plugins.engagement.qtable:TabularLearner",
            "Q-learning of a table from what is on record; no torch",
            settings="agentfw_plugins.engagement.qtable:TabularSettings",
        ),
    ]


@hookimpl
def agentfw_trackers() -> list[Component]:
    return [
        Component(
            "tensorboard",
            "agentfw_plugins.trackers.tensorboard:TensorBoardTracker",
            "Event files that TensorBoard shows",
            settings="agentfw_plugins.trackers.tensorboard:TensorBoardSettings",
            extra="track",
            needs=("tensorboard",),
        ),
        Component(
            "mlflow",
            "agentfw_plugins.trackers.mlflow:MLflowTracker",
            "Settings and figures in MLflow, in a local store or on a server",
            settings="agentfw_plugins.trackers.mlflow:MLflowSettings",
            extra="track",
            needs=("mlflow", "sqlalchemy", "alembic"),
        ),
        Component(
            "wandb",
            "agentfw_plugins.trackers.wandb:WandbTracker",
            "Settings and figures in Weights & Biases, offline unless told otherwise",
            settings="agentfw_plugins.trackers.wandb:WandbSettings",
            extra="track",
            needs=("wandb",),
        ),
    ]


_STYLES = {
    "zero-shot": "The calendar, by a language model that is asked at once",
    "react": "The calendar, by a language model that reasons before it decides",
    "memory-react": "The calendar, by a language model that looks back and reasons before it decides",
    "strategyhub": "The calendar, by a language model that keeps strategies in a StrategyHub",
}


@hookimpl
def agentfw_specs() -> list[NamedSpec]:
    specs = Path(__file__).parent / "specs"
    tiny = "A year of calendar conflicts for each of six users; the small language model decides, with its StrategyHub"
    year = "A year of calendar conflicts for each of ten users; the linear learner decides"
    return [
        NamedSpec("default", str(specs / "calendar_tiny.toml"), tiny),
        NamedSpec("calendar-tiny", str(specs / "calendar_tiny.toml"), tiny),
        NamedSpec("calendar", str(specs / "calendar.toml"), year),
        *(
            NamedSpec(f"calendar-{name}", str(specs / f"calendar-{name}.toml"), words)
            for name, words in _STYLES.items()
        ),
        NamedSpec("gymnasium", str(specs / "gymnasium.toml"), "CartPole, by chance"),
        NamedSpec("kitchen", str(specs / "kitchen.toml"), "Tutoring with cooking, by a simple rule"),
        NamedSpec("any", str(specs / "any.toml"), "Any other environment, by its own demonstration"),
        NamedSpec(
            "train-calendar",
            str(specs / "train_calendar.toml"),
            "agentfw train calendar: a small model that learns from every second feedback learns better",
        ),
        NamedSpec("train-budget", str(specs / "train_budget.toml"), "agentfw train budget: to be right in time"),
        NamedSpec("train-any", str(specs / "train_any.toml"), "agentfw train: the small model, by GRPO on an adapter"),
    ]
