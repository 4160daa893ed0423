"""The plugin `builtin`: everything that ships with agentfw. What serves any agent is listed here, by kind.

Worlds and memories are listed in the registration.py of their folders.
"""

from __future__ import annotations

from agentfw import hookimpl
from agentfw.hookspecs import KnownPlugin

from .registration import FolderPlugin, Registration, components_of

component = components_of("agentfw_plugins")

REGISTRATION = Registration(
    environments=[
        component("chat", "gateway.environment:Sessions", "A person who talks with `agentfw chat`", settings=""),
        component("sessions", "gateway.environment:Sessions", "Whoever talks with `agentfw serve`", settings=""),
    ],
    hooks=[
        component("approve", "hooks.approve:Approve", "Asks a person before the named tools are called"),
        component(
            "budget",
            "hooks.budget:Budget",
            "Counts tokens and money of each user, key of a gateway and run, and limits them",
        ),
        component("redact", "hooks.redact:Redact", "Strikes keys, passwords and card numbers out of what is recorded"),
    ],
    policies=[
        component("scripted", "policies.scripted:ScriptedPolicy", "Follows a rule or a list of replies; no model"),
        component("random", "policies.scripted:RandomPolicy", "Draws a valid action at random"),
        component(
            "tiny",
            "policies.local.tiny_policy:TinyPolicy",
            "The small language model that ships with agentfw, for calendars",
        ),
        component(
            "openai",
            "policies.http.openai_policy:OpenAIPolicy",
            "Any OpenAI-compatible chat completions server, such as vLLM",
        ),
        component(
            "pool",
            "policies.pool.pool_policy:PoolPolicy",
            "Several copies of a model policy, each in a process of its own",
        ),
        component(
            "transformers",
            "policies.local.transformers_policy:TransformersPolicy",
            "A language model in this process, on the CPU or a GPU; can be trained",
            extra="train",
            needs=("torch", "transformers", "peft"),
        ),
        component(
            "vllm",
            "policies.vllm.vllm_policy:VLLMPolicy",
            "A language model in vLLM, started here or elsewhere; can be trained",
            extra="train",
            needs=("transformers",),
        ),
    ],
    tools=[
        component(
            "mcp",
            "tools.mcp:MCPToolbox",
            "The tools of any MCP server, started here or at a URL",
            settings="tools.mcp_link:MCPSettings",
            extra="web",
            needs=("mcp",),
        ),
        component(
            "skills",
            "tools.agent_skills:AgentSkills",
            "Folders of Agent Skills, and Agent Plugins with their MCP servers",
        ),
    ],
    rewards=[
        component("utility", "rewards.measured:Utility", "What the environment itself paid", settings=""),
        component(
            "format", "rewards.measured:Format", "Whether each answer could be parsed and carried out", settings=""
        ),
        component(
            "feedback", "rewards.measured:Feedback", "What the user said of the answers, good or bad", settings=""
        ),
        component(
            "rubric",
            "rewards.judges:Rubric",
            "Any policy as a judge that compares samples of one task, by rules in words",
        ),
        component(
            "preference",
            "rewards.preference:Preference",
            "What this user likes, by a fitted preference model",
            extra="rewardmodels",
            needs=("safetensors",),
        ),
    ],
    optimizers=[
        component(
            "grpo", "optimizers.grpo:GRPO", "Each sample relative to the mean and the standard deviation of its group"
        ),
        component(
            "dr_grpo",
            "optimizers.grpo:GRPO",
            "GRPO without the standard deviation, and with a constant length",
            settings="DrGRPOSettings",
        ),
        component(
            "dapo",
            "optimizers.grpo:DAPO",
            "GRPO with a wider upper clipping range, a token-level mean, and without groups of equal rewards",
        ),
        component("gspo", "optimizers.grpo:GRPO", "GRPO with one importance ratio per turn", settings="GSPOSettings"),
        component(
            "cispo",
            "optimizers.grpo:GRPO",
            "GRPO in which the importance ratio is a truncated weight, so that no token is clipped away",
            settings="CISPOSettings",
        ),
        component(
            "sapo",
            "optimizers.grpo:GRPO",
            "GRPO with a soft gate on the importance ratio instead of clipping",
            settings="SAPOSettings",
        ),
        component("gdpo", "optimizers.grpo:GDPO", "Each reward component normalised separately, then summed"),
        component("gigpo", "optimizers.grpo:GiGPO", "GRPO, and each turn relative to other turns in the same state"),
        component(
            "parpo",
            "optimizers.parpo:PARPO",
            "Separate advantages for shared and personal rewards, the latter relative to each user's history",
        ),
        component(
            "empirical_bayes",
            "optimizers.empirical_bayes:EmpiricalBayes",
            "Each reward relative to the best guess of it, from the group, the user's history and all users",
        ),
        component(
            "reinforce",
            "optimizers.grpo:Reinforce",
            "Each sample relative to the mean and the standard deviation of the batch",
        ),
        component(
            "roundwise", "optimizers.roundwise:Roundwise", "Each round relative to the same round of the other samples"
        ),
        component(
            "turnwise", "optimizers.roundwise:Turnwise", "Each turn relative to the same turn of the other samples"
        ),
        component(
            "imitation", "optimizers.imitation:Imitation", "The same advantage for every answer of a demonstration"
        ),
        component(
            "kto", "optimizers.imitation:KTO", "Good answers become likelier and bad ones less likely, without pairs"
        ),
        component(
            "dpo",
            "optimizers.imitation:DPO",
            "The better of two answers to the same request becomes likelier than the other",
        ),
        component(
            "distillation",
            "optimizers.distillation:Distillation",
            "A teacher says of each token of the policy's answers how likely it is",
        ),
        component(
            "hint",
            "optimizers.distillation:Hint",
            "What people said of answers, as a signal for each token: the model, shown the hint, is its own teacher",
        ),
    ],
    learners=[
        component(
            "lora",
            "learners.model_learner:LoraLearner",
            "Policy gradients on an adapter, each unique token computed once",
            settings="learners.settings:LoraSettings",
            extra="train",
            needs=("torch", "transformers", "peft", "safetensors"),
        ),
        component(
            "sft",
            "learners.model_learner:SftLearner",
            "Supervised fine-tuning on demonstrations",
            settings="learners.settings:SftSettings",
            extra="train",
            needs=("torch", "transformers", "peft", "safetensors"),
        ),
    ],
    trackers=[
        component(
            "mlflow",
            "trackers.metric_trackers:MLflowTracker",
            "Logs settings and metrics to MLflow, in a local store or on a server",
            extra="track",
            needs=("mlflow", "sqlalchemy", "alembic"),
        ),
        component(
            "wandb",
            "trackers.metric_trackers:WandbTracker",
            "Logs settings and metrics to Weights & Biases, offline by default",
            extra="track",
            needs=("wandb",),
        ),
        component(
            "mirror",
            "trackers.metric_trackers:MirrorTracker",
            "Keeps a copy of the run's folder in object storage, to resume and view it on other machines",
            extra="cloud",
            needs=("fsspec",),
        ),
        component(
            "otel",
            "trackers.otel:OtelTracker",
            "Sends OpenTelemetry spans of turns, tool calls, recalls and scores",
            extra="otel",
            needs=("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
        ),
    ],
)

# What our other distributions offer, so that an error about a missing name can say what to install. A test of each
# distribution compares this with what it registers.
CALENDAR = KnownPlugin("agentfw-calendar", {"command": ("calendar",)}, folder="plugins/calendar")

PAPERS = KnownPlugin(
    "agentfw-papers",
    {
        "environment": (
            *("assistant", "budget", "deliberation", "etapp"),
            *("kitchen", "machine", "merchant", "patrol", "proactive"),
        ),
        "policy": (
            *("assistant-linear", "assistant-teacher", "kitchen", "merchant-linear"),
            *("machine", "merchant-teacher", "merchant-team", "patrol", "qtable", "timing_judge"),
        ),
        "reward": (
            *("assistant_base", "assistant_personal", "assistant_preference", "assistant_satisfaction"),
            *("assistant_stars", "correct", "keypoints", "merchant_base", "merchant_personal", "merchant_preference"),
            *("proactive_ac", "proactive_format", "proactive_ftr", "proactive_max_ac", "proactive_pt"),
        ),
        "learner": ("assistant-linear", "merchant-linear", "tabular"),
        "spec": (
            *("assistant", "kitchen", "loop-assistant", "loop-merchant", "loop-tiny-assistant", "merchant"),
            *("proactive", "proactive-asg", "proactive-plain", "proactive-reasoning", "tiny-assistant"),
            *("train-assistant", "train-budget", "train-merchant", "train-merchant-tiny", "train-proactive"),
            *("train-proactive-llm", "train-tiny-assistant"),
        ),
        "command": ("forget", "loop", "proactive"),
    },
    folder="plugins/papers",
)


class _Builtin(FolderPlugin):
    @hookimpl
    def agentfw_known_plugins(self) -> list[KnownPlugin]:
        return [CALENDAR, PAPERS]


plugin = _Builtin("agentfw_plugins", REGISTRATION)
