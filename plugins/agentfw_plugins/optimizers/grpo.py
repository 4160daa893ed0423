"""GRPO and what differs from it in values only: Dr. GRPO, DAPO and GSPO.

The one rule: A = r - mean of the group, by the group's spread or not, the same for every turn of an episode. Groups in
which all fared alike say nothing; DAPO leaves them out, so that they don't thin out the tokens that do.

    agentfw train --optimizer grpo
    agentfw train --optimizer dr_grpo --set optimizer.length=256

GRPO's values are those of DeepSeekMath, with the KL term at 0.04. A group of one teaches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from agentfw.optimizer import Advantage, Scored

from .arithmetic import alike, centred, normalised
from .attribution import throughout
from .relative import Aggregation, ClipHigh, ClipLow, Kl, Length, LossSettings, Ratio, Relative

__all__ = ["GRPO", "DAPOSettings", "DrGRPOSettings", "GRPOSettings", "GSPOSettings"]

Scale = Annotated[bool, Field(description="Divide by the group's spread, so that tasks of any spread count alike.")]
Skip = Annotated[bool, Field(description="Leave out groups in which all fared alike; they are counted.")]


class GRPOSettings(LossSettings):
    scale: Scale = True
    skip: Skip = False
    kl: Kl = 0.04


class DrGRPOSettings(GRPOSettings):
    """No spread and a constant length: neither easy tasks nor short answers are favoured."""

    scale: Scale = False
    aggregation: Aggregation = "token_sum"
    length: Length = 1024
    kl: Kl = 0.0


class DAPOSettings(GRPOSettings):
    """More room above than below, all tokens alike, no KL, and no groups that say nothing."""

    skip: Skip = True
    clip_high: ClipHigh = 0.28
    aggregation: Aggregation = "token_mean"
    kl: Kl = 0.0


class GSPOSettings(GRPOSettings):
    """One ratio for a whole turn, the geometric mean of its tokens', and so a far narrower clip."""

    ratio: Ratio = "sequence"
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4
    kl: Kl = 0.0


class GRPO(Relative[GRPOSettings]):
    """Each sample against the others of its task."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        found: list[Advantage] = []
        for group in groups:
            rewards = [scored.reward for scored in group]
            if self.settings.skip and alike(rewards):
                continue
            values = normalised(rewards) if self.settings.scale else centred(rewards)
            for scored, value in zip(group, values, strict=True):
                found += throughout(scored, value)
        return found
