"""Registers the optimizers."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
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
            "agentfw_plugins.optimizers.dapo:DAPO",
            "GRPO with a wider upper clipping range, a token-level mean, and without groups of equal rewards",
            settings="agentfw_plugins.optimizers.dapo:DAPOSettings",
        ),
        Component(
            "gspo",
            "agentfw_plugins.optimizers.grpo:GRPO",
            "GRPO with one importance ratio per turn",
            settings="agentfw_plugins.optimizers.grpo:GSPOSettings",
        ),
        Component(
            "gdpo",
            "agentfw_plugins.optimizers.gdpo:GDPO",
            "Each reward component normalised separately, then summed",
            settings="agentfw_plugins.optimizers.gdpo:GDPOSettings",
        ),
        Component(
            "gigpo",
            "agentfw_plugins.optimizers.gigpo:GiGPO",
            "GRPO, and each turn relative to other turns in the same state",
            settings="agentfw_plugins.optimizers.gigpo:GiGPOSettings",
        ),
        Component(
            "parpo",
            "agentfw_plugins.optimizers.parpo:PARPO",
            "Separate advantages for shared and personal rewards, the latter relative to each user's history",
            settings="agentfw_plugins.optimizers.parpo:PARPOSettings",
        ),
        Component(
            "roundwise",
            "agentfw_plugins.optimizers.roundwise:Roundwise",
            "Each round relative to the same round of the other samples",
            settings="agentfw_plugins.optimizers.roundwise:RoundwiseSettings",
        ),
        Component(
            "turnwise",
            "agentfw_plugins.optimizers.turnwise:Turnwise",
            "Each turn relative to the same turn of the other samples",
            settings="agentfw_plugins.optimizers.turnwise:TurnwiseSettings",
        ),
        Component(
            "imitation",
            "agentfw_plugins.optimizers.imitation:Imitation",
            "The same advantage for every answer of a demonstration",
            settings="agentfw_plugins.optimizers.imitation:ImitationSettings",
        ),
        Component(
            "kto",
            "agentfw_plugins.optimizers.kto:KTO",
            "Good answers become likelier and bad ones less likely, without pairs",
            settings="agentfw_plugins.optimizers.kto:KTOSettings",
        ),
    ],
)
