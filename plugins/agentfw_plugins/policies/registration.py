"""Registers the policies that serve any world."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
    policies=[
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
)
