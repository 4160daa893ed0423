"""GRPO, and the variants of it that differ in settings only: Dr. GRPO and GSPO.

A = r - mean of the group, divided by the group's standard deviation or not. Every turn of an episode carries it. A
group of one teaches nothing.

    agentfw train calendar --optimizer grpo
    agentfw train calendar --optimizer dr_grpo --set optimizer.length=256

GRPO's defaults are those of DeepSeekMath, with the KL penalty at 0.04. Its mean is over the sampled outputs, which here
are episodes (`episode_mean`), and so are those of Dr. GRPO and GSPO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from agentfw.optimizer import Advantage, Scored

from .arithmetic import alike, centred, normalised
from .attribution import throughout
from .relative import Aggregation, ClipHigh, ClipLow, Kl, Length, LossSettings, Ratio, Relative

__all__ = ["GRPO", "DrGRPOSettings", "GRPOSettings", "GSPOSettings", "Skip"]

Scale = Annotated[bool, Field(description="Divide by the group's standard deviation.")]
Skip = Annotated[
    bool, Field(description="Leave out groups whose rewards are all equal, unless kl is above 0. They are counted.")
]


class GRPOSettings(LossSettings):
    scale: Scale = True
    skip: Skip = False
    aggregation: Aggregation = "episode_mean"
    kl: Kl = 0.04


class DrGRPOSettings(GRPOSettings):
    """No standard deviation and a constant length, so that neither easy tasks nor short answers are favoured."""

    scale: Scale = False
    aggregation: Aggregation = "token_sum"
    length: Length = 1024
    kl: Kl = 0.0


class GSPOSettings(GRPOSettings):
    """One ratio for a whole turn, the geometric mean of its tokens' ratios, and therefore far narrower clipping."""

    ratio: Ratio = "sequence"
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4
    kl: Kl = 0.0


class GRPO(Relative[GRPOSettings]):
    """Each sample relative to the others of its task."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        found: list[Advantage] = []
        for group in groups:
            rewards = [scored.reward for scored in group]
            if self.settings.skip and not self.settings.kl and alike(rewards):
                continue
            values = normalised(rewards) if self.settings.scale else centred(rewards)
            for scored, value in zip(group, values, strict=True):
                found += throughout(scored, value)
        return found
