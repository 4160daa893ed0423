"""The plugin `builtin`: everything that ships with agentfw. What serves any agent is listed here, by kind.

Worlds are listed in the registration.py of their folder.
"""

from __future__ import annotations

from agentfw import hookimpl
from agentfw.hookspecs import KnownPlugin

from .registration import FolderPlugin, Registration, components_of

component = components_of("agentfw_plugins")
hook, learner, memory, optimizer, policy, reward, tool, tracker = (
    components_of(f"agentfw_plugins.{folder}")
    for folder in ("hooks", "learners", "memories", "optimizers", "policies", "rewards", "tools", "trackers")
)

REGISTRATION = Registration(
    environments=[
        component("chat", "gateway.sessions:Sessions", "A person who talks with `agentfw chat`", settings=""),
        component("sessions", "gateway.sessions:Sessions", "Whoever talks with `agentfw serve`", settings=""),
    ],
    hooks=[
        hook("approve", "approve:Approve", "Asks a person before the named tools are called"),
        hook(
            "budget", "budget:Budget", "Counts tokens and money of each user, key of a gateway and run, and limits them"
        ),
        hook("redact", "redact:Redact", "Strikes keys, passwords and card numbers out of what is recorded"),
    ],
    policies=[
        policy("scripted", "scripted:ScriptedPolicy", "Follows a rule or a list of replies; no model"),
        policy("random", "scripted:RandomPolicy", "Draws a valid action at random"),
        policy(
            "tiny", "local.tiny_policy:TinyPolicy", "The small language model that ships with agentfw, for calendars"
        ),
        policy(
            "openai", "http.openai_policy:OpenAIPolicy", "Any OpenAI-compatible chat completions server, such as vLLM"
        ),
        policy("pool", "pool_policy:PoolPolicy", "Several copies of a model policy, each in a process of its own"),
        policy(
            "transformers",
            "local.transformers_policy:TransformersPolicy",
            "A language model in this process, on the CPU or a GPU; can be trained",
            extra="train",
            needs=("torch", "transformers", "peft"),
        ),
        policy(
            "vllm",
            "vllm.vllm_policy:VLLMPolicy",
            "A language model in vLLM, started here or elsewhere; can be trained",
            extra="train",
            needs=("transformers",),
        ),
    ],
    tools=[
        tool(
            "mcp",
            "mcp:MCPToolbox",
            "The tools of any MCP server, started here or at a URL",
            settings="mcp_link:MCPSettings",
            extra="web",
            needs=("mcp",),
        ),
        tool("skills", "agent_skills:AgentSkills", "Folders of Agent Skills, and Agent Plugins with their MCP servers"),
    ],
    memories=[
        memory(
            "strategyhub", "strategyhub:StrategyHubMemory", "A short list of strategies that the agent maintains itself"
        ),
        memory(
            "skillgraph",
            "skillgraph:SkillGraphMemory",
            "Skills that match the query and the user, from a graph that learns",
            extra="memory",
            needs=("igraph",),
        ),
    ],
    rewards=[
        reward("utility", "measured:Utility", "What the environment itself paid", settings=""),
        reward("format", "measured:Format", "Whether each answer could be parsed and carried out", settings=""),
        reward("feedback", "measured:Feedback", "What the user said of the answers, good or bad", settings=""),
        reward("rubric", "judges:Rubric", "Any policy as a judge that compares samples of one task, by rules in words"),
        reward(
            "preference",
            "preference:Preference",
            "What this user likes, by a fitted preference model",
            extra="rewardmodels",
            needs=("safetensors",),
        ),
    ],
    optimizers=[
        optimizer("grpo", "grpo:GRPO", "Each sample relative to the mean and the standard deviation of its group"),
        optimizer(
            "dr_grpo",
            "grpo:GRPO",
            "GRPO without the standard deviation, and with a constant length",
            settings="DrGRPOSettings",
        ),
        optimizer(
            "dapo",
            "grpo:DAPO",
            "GRPO with a wider upper clipping range, a token-level mean, and without groups of equal rewards",
        ),
        optimizer("gspo", "grpo:GRPO", "GRPO with one importance ratio per turn", settings="GSPOSettings"),
        optimizer(
            "cispo",
            "grpo:GRPO",
            "GRPO in which the importance ratio is a truncated weight, so that no token is clipped away",
            settings="CISPOSettings",
        ),
        optimizer(
            "sapo",
            "grpo:GRPO",
            "GRPO with a soft gate on the importance ratio instead of clipping",
            settings="SAPOSettings",
        ),
        optimizer("gdpo", "grpo:GDPO", "Each reward component normalised separately, then summed"),
        optimizer("gigpo", "grpo:GiGPO", "GRPO, and each turn relative to other turns in the same state"),
        optimizer(
            "parpo",
            "parpo:PARPO",
            "Separate advantages for shared and personal rewards, the latter relative to each user's history",
        ),
        optimizer(
            "empirical_bayes",
            "empirical_bayes:EmpiricalBayes",
            "Each reward relative to the best guess of it, from the group, the user's history and all users",
        ),
        optimizer(
            "reinforce", "grpo:Reinforce", "Each sample relative to the mean and the standard deviation of the batch"
        ),
        optimizer("roundwise", "grpo:Roundwise", "Each round relative to the same round of the other samples"),
        optimizer("turnwise", "grpo:Turnwise", "Each turn relative to the same turn of the other samples"),
        optimizer("imitation", "imitation:Imitation", "The same advantage for every answer of a demonstration"),
        optimizer("kto", "imitation:KTO", "Good answers become likelier and bad ones less likely, without pairs"),
        optimizer(
            "dpo", "imitation:DPO", "The better of two answers to the same request becomes likelier than the other"
        ),
        optimizer(
            "distillation",
            "distillation:Distillation",
            "A teacher says of each token of the policy's answers how likely it is",
        ),
        optimizer(
            "hint",
            "distillation:Hint",
            "What people said of answers, as a signal for each token: the model, shown the hint, is its own teacher",
        ),
    ],
    learners=[
        learner(
            "lora",
            "model_learner:LoraLearner",
            "Policy gradients on an adapter, each unique token computed once",
            settings="settings:LoraSettings",
            extra="train",
            needs=("torch", "transformers", "peft", "safetensors"),
        ),
        learner(
            "sft",
            "model_learner:SftLearner",
            "Supervised fine-tuning on demonstrations",
            settings="settings:SftSettings",
            extra="train",
            needs=("torch", "transformers", "peft", "safetensors"),
        ),
    ],
    trackers=[
        tracker(
            "mlflow",
            "metric_trackers:MLflowTracker",
            "Logs settings and metrics to MLflow, in a local store or on a server",
            extra="track",
            needs=("mlflow", "sqlalchemy", "alembic"),
        ),
        tracker(
            "wandb",
            "metric_trackers:WandbTracker",
            "Logs settings and metrics to Weights & Biases, offline by default",
            extra="track",
            needs=("wandb",),
        ),
        tracker(
            "mirror",
            "metric_trackers:MirrorTracker",
            "Keeps a copy of the run's folder in object storage, to resume and view it on other machines",
            extra="cloud",
            needs=("fsspec",),
        ),
        tracker(
            "otel",
            "otel:OtelTracker",
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
