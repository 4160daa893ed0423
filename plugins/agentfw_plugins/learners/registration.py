"""Registers the learners."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

_NEEDS = ("torch", "transformers", "peft", "safetensors")

REGISTRATION = Registration(
    learners=[
        Component(
            "lora",
            "agentfw_plugins.learners.lora:LoraLearner",
            "Policy gradients on an adapter, each unique token computed once",
            settings="agentfw_plugins.learners.settings:LoraSettings",
            extra="train",
            needs=_NEEDS,
        ),
        Component(
            "sft",
            "agentfw_plugins.learners.sft:SftLearner",
            "Supervised fine-tuning on demonstrations",
            settings="agentfw_plugins.learners.settings:SftSettings",
            extra="train",
            needs=_NEEDS,
        ),
    ],
)
