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
            "random",
            "agentfw_plugins.policies.random:RandomPolicy",
            "Draws a valid action at random",
            settings="agentfw_plugins.policies.random:RandomSettings",
        ),
    ]


@hookimpl
def agentfw_memories() -> list[Component]:
    return [
        Component(
            "strategyhub",
            "agentfw_plugins.memories.strategyhub:StrategyHubMemory",
            "A short list of strategies that the agent keeps itself",
            settings="agentfw_plugins.memories.strategyhub:StrategyHubSettings",
        )
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
    ]


@hookimpl
def agentfw_specs() -> list[NamedSpec]:
    return [
        NamedSpec(
            "default",
            str(Path(__file__).parent / "specs" / "default.toml"),
            "An inbox on the timeline, with a scripted assistant",
        )
    ]
