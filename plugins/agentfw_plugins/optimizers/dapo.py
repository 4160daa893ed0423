"""DAPO: GRPO with more room above than below, a mean over all tokens, no KL penalty, and only groups that differ.

    agentfw train calendar --optimizer dapo --set sampling.max_tokens=2048 \
        --set optimizer.max_answer=2048 --set optimizer.overlong_buffer=512

- Dynamic sampling: groups whose rewards are all equal are left out, and `missing` asks for others in their place until
  the batch is full, or `resample` times the batch has been played besides.
- Overlong reward shaping: an answer that comes close to `max_answer` tokens loses reward, up to `overlong_penalty`:

      0                                   up to max_answer - overlong_buffer tokens
      -penalty x (excess / buffer)        up to max_answer
      -penalty                            beyond it

  In an episode of several turns the longest answer counts, so the loss of reward never exceeds the penalty.
- Overlong filtering: with `mask_truncated` answers that were cut off at the maximum length get no advantage. Their
  reward says little about the tokens that are there. The episode still counts in the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field, model_validator

from agentfw.optimizer import Advantage, Scored

from .arithmetic import alike
from .grpo import GRPO, GRPOSettings, Skip
from .relative import Aggregation, ClipHigh, Kl

__all__ = ["DAPO", "DAPOSettings"]


class DAPOSettings(GRPOSettings):
    skip: Skip = True
    clip_high: ClipHigh = 0.28
    aggregation: Aggregation = "token_mean"
    kl: Kl = 0.0
    resample: int = Field(
        3,
        ge=0,
        description="Maximum number of groups that are played in place of groups with equal rewards, "
        "in multiples of the batch. 0 turns resampling off.",
    )
    max_answer: int | None = Field(
        None, ge=1, description="Maximum tokens of an answer, as in sampling.max_tokens. Needed by overlong_buffer."
    )
    overlong_buffer: int | None = Field(
        None,
        ge=1,
        description="Last tokens before max_answer in which the penalty for length grows. Default: no penalty.",
    )
    overlong_penalty: float = Field(1.0, ge=0, description="Reward that an answer of max_answer tokens loses.")
    mask_truncated: bool = Field(
        False, description="Don't learn from answers that were cut off at their maximum length."
    )

    @model_validator(mode="after")
    def _buffer_is_part_of_the_answer(self) -> DAPOSettings:
        if self.overlong_buffer is not None and (self.max_answer is None or self.overlong_buffer > self.max_answer):
            raise ValueError("overlong_buffer needs max_answer, which must be at least as large")
        return self


class DAPO(GRPO):
    """GRPO on shaped rewards."""

    settings: DAPOSettings

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        found = super().advantages([self._shaped(group) for group in groups])
        if not self.settings.mask_truncated:
            return found
        episodes = [scored.episode for group in groups for scored in group]
        cut = {(one.id, turn.index) for one in episodes for turn in one.turns if turn.finish == "length"}
        self.figures["turns_truncated"] = float(len(cut))
        return [advantage for advantage in found if (advantage.episode, advantage.turn) not in cut]

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        if not self.settings.skip:
            return 0
        different = sum(not alike([scored.reward for scored in self._shaped(group)]) for group in groups if group)
        most = wanted * (1 + self.settings.resample)
        return max(0, min(wanted - different, most - len(groups)))

    def _shaped(self, group: Sequence[Scored]) -> list[Scored]:
        return [replace(scored, reward=scored.reward - self._penalty(scored)) for scored in group]

    def _penalty(self, scored: Scored) -> float:
        buffer, most = self.settings.overlong_buffer, self.settings.max_answer
        if buffer is None or most is None:
            return 0.0
        longest = max((turn.count for turn in scored.episode.turns), default=0)
        return self.settings.overlong_penalty * min(1.0, max(0.0, (longest - (most - buffer)) / buffer))
