"""The plugin `builtin`: everything that ships with agentfw. What serves any agent is listed here, by kind.

Worlds are listed in worlds/registration.py, memories and the gateway in the registration.py of their folders.
"""

from __future__ import annotations

from pathlib import Path

from agentfw import Component, hookimpl
from agentfw.hookspecs import KnownPlugin, NamedSpec

from .registration import FolderPlugin, Registration

_HERE = Path(__file__).parent

REGISTRATION = Registration(
    environments=[
        Component("chat", "agentfw_plugins.gateway.environment:Sessions", "A person who talks with `agentfw chat`"),
    ],
    policies=[
        Component(
            "scripted",
            "agentfw_plugins.policies.scripted:ScriptedPolicy",
            "Follows a rule or a list of replies; no model",
            settings="agentfw_plugins.policies.scripted:ScriptedSettings",
        ),
        Component(
            "random",
            "agentfw_plugins.policies.scripted:RandomPolicy",
            "Draws a valid action at random",
            settings="agentfw_plugins.policies.scripted:RandomSettings",
        ),
        Component(
            "tiny",
            "agentfw_plugins.policies.local.tiny_policy:TinyPolicy",
            "The small language model that ships with agentfw, for calendars",
            settings="agentfw_plugins.policies.local.tiny_policy:TinySettings",
        ),
        Component(
            "openai",
            "agentfw_plugins.policies.http.openai_policy:OpenAIPolicy",
            "Any OpenAI-compatible chat completions server, such as vLLM",
            settings="agentfw_plugins.policies.http.openai_policy:OpenAISettings",
        ),
        Component(
            "pool",
            "agentfw_plugins.policies.pool.pool_policy:PoolPolicy",
            "Several copies of a model policy, each in a process of its own",
            settings="agentfw_plugins.policies.pool.pool_policy:PoolSettings",
        ),
        Component(
            "transformers",
            "agentfw_plugins.policies.local.transformers_policy:TransformersPolicy",
            "A language model in this process, on the CPU or a GPU; can be trained",
            settings="agentfw_plugins.policies.local.transformers_policy:TransformersSettings",
            extra="train",
            needs=("torch", "transformers", "peft"),
        ),
        Component(
            "vllm",
            "agentfw_plugins.policies.vllm.vllm_policy:VLLMPolicy",
            "A language model in vLLM, started here or elsewhere; can be trained",
            settings="agentfw_plugins.policies.vllm.vllm_policy:VLLMSettings",
            extra="train",
            needs=("transformers",),
        ),
    ],
    tools=[
        Component(
            "mcp",
            "agentfw_plugins.tools.mcp:MCPToolbox",
            "The tools of any MCP server, started here or at a URL",
            settings="agentfw_plugins.tools.mcp_link:MCPSettings",
            extra="web",
            needs=("mcp",),
        ),
        Component(
            "skills",
            "agentfw_plugins.tools.agent_skills:AgentSkills",
            "Folders of Agent Skills, and Agent Plugins with their MCP servers",
            settings="agentfw_plugins.tools.agent_skills:AgentSkillsSettings",
        ),
        Component(
            "tape",
            "agentfw_plugins.tools.tape:Tape",
            "Records the answers of any toolbox, and gives them again to the same calls",
            settings="agentfw_plugins.tools.tape:TapeSettings",
        ),
    ],
    rewards=[
        Component(
            "utility",
            "agentfw_plugins.rewards.measured:Utility",
            "What the environment itself paid",
        ),
        Component(
            "format",
            "agentfw_plugins.rewards.measured:Format",
            "Whether each answer could be parsed and carried out",
        ),
        Component(
            "feedback",
            "agentfw_plugins.rewards.measured:Feedback",
            "What the user said of the answers, good or bad",
        ),
        Component(
            "rubric",
            "agentfw_plugins.rewards.judges:Rubric",
            "Any policy as a judge that compares samples of one task, by rules in words",
            settings="agentfw_plugins.rewards.judges:RubricSettings",
        ),
        Component(
            "preference",
            "agentfw_plugins.rewards.preference:Preference",
            "What this user likes, by a fitted preference model",
            settings="agentfw_plugins.rewards.preference:PreferenceSettings",
            extra="rewardmodels",
            needs=("safetensors",),
        ),
    ],
    optimizers=[
        Component(
            "grpo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "Each sample relative to the mean and the standard deviation of its group",
            settings="agentfw_plugins.optimizers.grpo:GRPOSettings",
        ),
        Component(
            "dr_grpo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO without the standard deviation, and with a constant length",
            settings="agentfw_plugins.optimizers.grpo:DrGRPOSettings",
        ),
        Component(
            "dapo",
            "agentfw_plugins.optimizers.grpo:DAPO",
            "GRPO with a wider upper clipping range, a token-level mean, and without groups of equal rewards",
            settings="agentfw_plugins.optimizers.grpo:DAPOSettings",
        ),
        Component(
            "gspo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO with one importance ratio per turn",
            settings="agentfw_plugins.optimizers.grpo:GSPOSettings",
        ),
        Component(
            "cispo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO in which the importance ratio is a truncated weight, so that no token is clipped away",
            settings="agentfw_plugins.optimizers.grpo:CISPOSettings",
        ),
        Component(
            "sapo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO with a soft gate on the importance ratio instead of clipping",
            settings="agentfw_plugins.optimizers.grpo:SAPOSettings",
        ),
        Component(
            "gdpo",
            "agentfw_plugins.optimizers.grpo:GDPO",
            "Each reward component normalised separately, then summed",
            settings="agentfw_plugins.optimizers.grpo:GDPOSettings",
        ),
        Component(
            "gigpo",
            "agentfw_plugins.optimizers.grpo:GiGPO",
            "GRPO, and each turn relative to other turns in the same state",
            settings="agentfw_plugins.optimizers.grpo:GiGPOSettings",
        ),
        Component(
            "parpo",
            "agentfw_plugins.optimizers.parpo:PARPO",
            "Separate advantages for shared and personal rewards, the latter relative to each user's history",
            settings="agentfw_plugins.optimizers.parpo:PARPOSettings",
        ),
        Component(
            "empirical_bayes",
            "agentfw_plugins.optimizers.empirical_bayes:EmpiricalBayes",
            "Each reward relative to the best guess of it, from the group, the user's history and all users",
            settings="agentfw_plugins.optimizers.empirical_bayes:EmpiricalBayesSettings",
        ),
        Component(
            "reinforce",
            "agentfw_plugins.optimizers.grpo:Reinforce",
            "Each sample relative to the mean and the standard deviation of the batch",
            settings="agentfw_plugins.optimizers.grpo:ReinforceSettings",
        ),
        Component(
            "roundwise",
            "agentfw_plugins.optimizers.roundwise:Roundwise",
            "Each round relative to the same round of the other samples",
            settings="agentfw_plugins.optimizers.roundwise:RoundwiseSettings",
        ),
        Component(
            "turnwise",
            "agentfw_plugins.optimizers.roundwise:Turnwise",
            "Each turn relative to the same turn of the other samples",
            settings="agentfw_plugins.optimizers.roundwise:TurnwiseSettings",
        ),
        Component(
            "imitation",
            "agentfw_plugins.optimizers.imitation:Imitation",
            "The same advantage for every answer of a demonstration",
            settings="agentfw_plugins.optimizers.imitation:ImitationSettings",
        ),
        Component(
            "kto",
            "agentfw_plugins.optimizers.imitation:KTO",
            "Good answers become likelier and bad ones less likely, without pairs",
            settings="agentfw_plugins.optimizers.imitation:KTOSettings",
        ),
    ],
    learners=[
        Component(
            "lora",
            "agentfw_plugins.learners.model_learner:LoraLearner",
            "Policy gradients on an adapter, each unique token computed once",
            settings="agentfw_plugins.learners.settings:LoraSettings",
            extra="train",
            needs=("torch", "transformers", "peft", "safetensors"),
        ),
        Component(
            "sft",
            "agentfw_plugins.learners.model_learner:SftLearner",
            "Supervised fine-tuning on demonstrations",
            settings="agentfw_plugins.learners.settings:SftSettings",
            extra="train",
            needs=("torch", "transformers", "peft", "safetensors"),
        ),
    ],
    trackers=[
        Component(
            "tensorboard",
            "agentfw_plugins.trackers.metric_trackers:TensorBoardTracker",
            "Writes event files for TensorBoard",
            settings="agentfw_plugins.trackers.metric_trackers:TensorBoardSettings",
            extra="track",
            needs=("tensorboard",),
        ),
        Component(
            "mlflow",
            "agentfw_plugins.trackers.metric_trackers:MLflowTracker",
            "Logs settings and metrics to MLflow, in a local store or on a server",
            settings="agentfw_plugins.trackers.metric_trackers:MLflowSettings",
            extra="track",
            needs=("mlflow", "sqlalchemy", "alembic"),
        ),
        Component(
            "wandb",
            "agentfw_plugins.trackers.metric_trackers:WandbTracker",
            "Logs settings and metrics to Weights & Biases, offline by default",
            settings="agentfw_plugins.trackers.metric_trackers:WandbSettings",
            extra="track",
            needs=("wandb",),
        ),
        Component(
            "mirror",
            "agentfw_plugins.trackers.metric_trackers:MirrorTracker",
            "Keeps a copy of the run's folder in object storage, to resume and view it on other machines",
            settings="agentfw_plugins.trackers.metric_trackers:MirrorSettings",
            extra="cloud",
            needs=("fsspec",),
        ),
        Component(
            "otel",
            "agentfw_plugins.trackers.otel:OtelTracker",
            "Sends OpenTelemetry spans of turns, tool calls, recalls and scores",
            settings="agentfw_plugins.trackers.otel:OtelSettings",
            extra="otel",
            needs=("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
        ),
    ],
    specs=[
        NamedSpec("chat", str(_HERE / "specs" / "chat.toml"), "agentfw chat: a conversation in the terminal"),
        NamedSpec("any", str(_HERE / "specs" / "any.toml"), "Any other environment, by its own demonstration"),
        NamedSpec(
            "train-any",
            str(_HERE / "specs" / "train-any.toml"),
            "agentfw train: the small model, with GRPO on an adapter",
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
