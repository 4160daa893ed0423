"""GRPO and its relatives.

Dr. GRPO and GSPO differ from it in settings only, CISPO and SAPO in how they clip, and all others in what they compare.
Dual clip is a setting of all that clip: `ratio_cap=3`.

A group of one teaches nothing. Means over sampled outputs are means over episodes here (`episode_mean`), except where a
class says otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from agentfw import Episode, Score, Turn
from agentfw.optimizer import Advantage, Loss, Scored

from ..learners.losses import Clipped, Figures, Terms
from .relative import (
    Aggregation,
    ClipHigh,
    ClipLow,
    Kl,
    Length,
    LossSettings,
    Ratio,
    RatioCap,
    Relative,
    TrackedSettings,
    alike,
    by_component,
    by_round,
    by_turn,
    centred,
    normalised,
    on_track,
    rated,
    returns_to_go,
    scores_of,
    spoken,
    spread,
    throughout,
    unit,
)

if TYPE_CHECKING:
    import torch

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
    """One ratio for a whole turn, the geometric mean of its tokens' ratios, and therefore far narrower clipping.

    `ratio="episode"` is the paper's ratio where an episode has several turns: one for all that the policy said in it.
    """

    ratio: Ratio = "sequence"
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4
    kl: Kl = 0.0


class CISPOSettings(GRPOSettings):
    """The ratio only weighs a token, so that none is left out by clipping: no upper limit stops its gradient."""

    clip_high: ClipHigh = 4.0
    aggregation: Aggregation = "token_mean"
    kl: Kl = 0.0

    def loss(self) -> Loss:
        return replace(super().loss(), name=f"{__name__}:TruncatedWeight")


class TruncatedWeight(Clipped):
    """min(r, 1 + clip_high) A log p, with the ratio r as a weight without gradient (Chen et al. 2025, MiniMax-M1)."""

    def gain(self, ratio: torch.Tensor, terms: Terms, figures: Figures) -> torch.Tensor:
        most = 1 + self.loss.clip_high
        figures.add("clipped", (ratio > most).detach().float())
        return ratio.detach().clamp(max=most) * terms.advantages * terms.logprobs


class SAPOSettings(GRPOSettings):
    """A soft gate on the ratio, which takes the place of clipping."""

    kl: Kl = 0.0
    steepness: float = Field(1.0, gt=0, description="Steepness of the gate where the advantage is positive.")
    steepness_negative: float = Field(
        1.05, gt=0, description="Steepness of the gate elsewhere. Tokens that get less likely are less stable."
    )

    def loss(self) -> Loss:
        steepness = {"positive": self.steepness, "negative": self.steepness_negative}
        return replace(super().loss(), name=f"{__name__}:SoftGate", settings=steepness)


class SoftGate(Clipped):
    """4 / t sigmoid(t (r - 1)) A, with the steepness t (Gao et al. 2025). At r = 1 its gradient is that of r A."""

    def gain(self, ratio: torch.Tensor, terms: Terms, figures: Figures) -> torch.Tensor:
        good, bad = (ratio.new_tensor(self.loss.settings[name]) for name in ("positive", "negative"))
        steepness = good.where(terms.advantages > 0, bad)
        return 4 / steepness * (steepness * (ratio - 1)).sigmoid() * terms.advantages


class GRPO(Relative[GRPOSettings]):
    """Each sample relative to the others of its task.

    A = r - mean of the group, divided by the group's standard deviation or not. Every turn of an episode carries it.
    The defaults are those of DeepSeekMath, with the KL penalty at 0.04.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        if self.settings.skip and not self.settings.kl:
            groups = [group for group in groups if not alike([scored.reward for scored in group])]
        compared = normalised if self.settings.scale else centred
        return throughout(groups, [compared([scored.reward for scored in group]) for group in groups])


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
    """GRPO with more room above than below, a mean over all tokens, no KL penalty, and only groups that differ.

    - Dynamic sampling: groups whose rewards are all equal are left out, and `missing` asks for others in their place
      until the batch is full, or `resample` times the batch has been played besides.
    - Overlong reward shaping: an answer of more than max_answer - overlong_buffer tokens loses reward, linearly up to
      `overlong_penalty` at `max_answer`. In an episode of several turns the longest answer counts.
    - Overlong filtering: with `mask_truncated` answers that were cut off at the maximum length get no advantage. Their
      reward says little about the tokens that are there. The episode still counts in the comparison.
    """

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
        if not self.settings.skip or self.settings.kl:  # then none is left out
            return 0
        shaped = [[scored.reward for scored in self._shaped(group)] for group in rated(groups)]
        different = sum(not alike(rewards) for rewards in shaped)
        most = wanted * (1 + self.settings.resample)
        return max(0, min(wanted - different, most - len(groups)))

    def _shaped(self, group: Sequence[Scored]) -> Sequence[Scored]:
        buffer, most = self.settings.overlong_buffer, self.settings.max_answer
        if buffer is None or most is None:
            return group
        longest = [max((turn.count for turn in scored.episode.turns), default=0) for scored in group]
        shares = [min(1.0, max(0.0, (count - (most - buffer)) / buffer)) for count in longest]
        lost = [self.settings.overlong_penalty * share for share in shares]
        return [replace(scored, reward=scored.reward - less) for scored, less in zip(group, lost, strict=True)]


class ReinforceSettings(TrackedSettings):
    """The clipped loss with an advantage on each track."""


class Reinforce(Relative[ReinforceSettings]):
    """Each sample relative to the whole batch (REINFORCE++), so that one sample of a task is enough.

    A = base_weight nrm(base) + personal_weight nrm(personal), by mean and standard deviation of the batch. An episode
    without a score on a track takes no part in that track.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        samples = [scored for group in groups for scored in group]
        values = [0.0] * len(samples)
        for track, weight in self.settings.weights.items():
            places, rewards = on_track(samples, track)
            for place, value in zip(places, normalised(rewards), strict=True):
                values[place] += weight * value
        return throughout([samples], [values])


WHITENING_FLOOR = 0.1
"""Of normalised values, whose deviation is about 1 where groups differ. A batch of noise alone must not grow again."""


class GDPOSettings(LossSettings):
    weights: dict[str, float] = Field(
        default_factory=dict, description="Weight of each component after it is normalised. Default: 1."
    )
    whiten: bool = Field(True, description="Divide the advantages by their standard deviation over the whole batch.")
    aggregation: Aggregation = "episode_mean"


class GDPO(Relative[GDPOSettings]):
    """Each reward component is normalised within its group, then the components are added up and whitened.

    A' = sum of w_k nrm(r_k) over the components, with nrm by mean and standard deviation of the group. A = A' /
    (standard deviation of A' over the batch). Normalising a component cancels the run's weight of it. The weights given
    here are the ones that count.

    In the paper, whitening also subtracts the batch's mean. That mean is zero, as it is in every group, so it is not
    subtracted here: rounding would turn the zeros of equal groups into tiny numbers that the learner has to compute.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        values = [self._sums(group) for group in groups]
        if self.settings.whiten:
            one = unit(spread([value for sums in values for value in sums]), WHITENING_FLOOR)
            values = [[value / one for value in sums] for sums in values]
        return throughout(groups, values)

    def _sums(self, group: Sequence[Scored]) -> list[float]:
        said = [by_component(scored) for scored in group]
        parts: list[list[float]] = []
        for component in sorted({component for sums in said for component in sums}):
            weight = self.settings.weights.get(component, 1.0)
            values = normalised([sums.get(component, 0.0) for sums in said])
            parts.append([weight * value for value in values])
        return [math.fsum(values) for values in zip(*parts, strict=True)]


# The head of a message to the agent, such as: [12.5] round 3 of 20
_CLOCK = re.compile(r"\A\[[^\]\n]*\](?: round \d+ of \d+)?(?=\n|\Z)")


class GiGPOSettings(LossSettings):
    step_weight: float = Field(1.0, ge=0, description="Weight of the comparison of turns (w).")
    gamma: float = Field(0.95, ge=0, le=1, description="Discount of rewards from one turn to the one before it.")
    scale: bool = Field(False, description="Divide by the standard deviation of what is compared, as GRPO does.")
    clock: bool = Field(False, description="Treat the time and round at the head of a message as part of the state.")
    kl: Kl = 0.01


class GiGPO(Relative[GiGPOSettings]):
    """Each episode relative to the others of its task, and each turn relative to others in the same state.

    A = A_episode + step_weight A_step. A_step compares the discounted returns of the turns of a group that were shown
    the same state. A turn whose state no other turn shares has an A_step of zero. A state is identified by the text
    that was new to the policy: the messages since its last answer. The loss is a mean over turns (`sequence_mean`), as
    the paper's objective is a mean over episodes and steps.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        self.figures |= {"turns": 0.0, "turns_compared": 0.0}
        return super().compare(groups)

    def compare_group(self, group: Sequence[Scored]) -> list[Advantage]:
        nrm = normalised if self.settings.scale else centred
        episodes = nrm([scored.reward for scored in group])
        states: dict[tuple[str, ...], list[tuple[int, Turn]]] = {}
        for place, scored in enumerate(group):
            for turn in spoken(scored.episode):
                states.setdefault(self.state_of(scored.episode, turn), []).append((place, turn))
        returns = [returns_to_go(by_turn(scored), self.settings.gamma) for scored in group]
        found: list[Advantage] = []
        for turns in states.values():
            self.figures["turns"] += len(turns)
            self.figures["turns_compared"] += len(turns) if len(turns) > 1 else 0
            steps = nrm([returns[place][turn.index] for place, turn in turns])
            found += [
                Advantage(group[place].episode.id, turn.index, episodes[place] + self.settings.step_weight * step)
                for (place, turn), step in zip(turns, steps, strict=True)
            ]
        return found

    def state_of(self, episode: Episode, turn: Turn) -> tuple[str, ...]:
        """What the policy was shown for the first time."""
        shown = (episode.messages[index] for index in reversed(turn.shown))
        news = [message.content for message in takewhile(lambda message: message.role != "assistant", shown)]
        return tuple(text if self.settings.clock else _CLOCK.sub("", text) for text in reversed(news))


class RoundwiseSettings(LossSettings):
    gamma: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Discount of rewards from one round to the one before it. The paper's value is lost.",
    )
    clip_high: ClipHigh = 0.28


class Roundwise(Relative[RoundwiseSettings]):
    """Each round relative to the same round of the other samples (pearl).

    G_t = r_t + gamma G_(t+1) is compared with the G_t of the other samples at the same round t. A curriculum changes
    what a round can earn from round to round; with a baseline for each, neither early nor late rounds are favoured.
    Every turn of a round carries the round's advantage. Samples that ended before a round are not part of its baseline.

    The loss settings are the paper's: clipping ranges 0.2 and 0.28, no KL penalty, and a mean over turns
    (`sequence_mean`), because its trainer treats every step of an episode as a sequence of its own. The value of gamma
    is lost, and so is that of the epsilon that is added to the variance: here it is the square of the usual floor.
    """

    def compare_group(self, group: Sequence[Scored]) -> list[Advantage]:
        returns = [returns_to_go(by_round(scored), self.settings.gamma) for scored in group]
        values = [[0.0] * len(one) for one in returns]
        for number in range(max(map(len, returns))):
            there = [place for place, one in enumerate(returns) if number < len(one)]
            differences = centred([returns[place][number] for place in there])
            # By the biased variance, as in the paper.
            one = unit(math.sqrt(math.fsum(value * value for value in differences) / len(differences)))
            for place, difference in zip(there, differences, strict=True):
                values[place][number] = difference / one
        return [
            Advantage(scored.episode.id, turn.index, values[place][turn.round])
            for place, scored in enumerate(group)
            for turn in spoken(scored.episode)
        ]


class TurnwiseSettings(LossSettings):
    clip_high: ClipHigh = 0.28
    ratio_cap: RatioCap = 10.0
    aggregation: Aggregation = "token_mean"


class Turnwise(Relative[TurnwiseSettings]):
    """Each turn relative to the same turn of the other samples, by its own rewards (proactor).

    A = nrm(r_turn) over the samples at one turn of one task. A turn earns the scores given to itself, to its round and
    to its whole episode; nothing is passed back from later turns. Turns whose rewards are all equal are left out,
    unless a KL penalty acts on them.

    The paper gives neither its clipping ranges nor how it averages; those here are common practice.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        self.figures |= {"turns": 0.0, "turns_alike": 0.0}
        return super().compare(groups)

    def compare_group(self, group: Sequence[Scored]) -> list[Advantage]:
        turns: dict[int, list[tuple[int, float]]] = {}
        for place, scored in enumerate(group):
            for turn, reward in zip(scored.episode.turns, _earned(scored), strict=True):
                turns.setdefault(turn.index, []).append((place, reward))
        said = {(scored.episode.id, turn.index) for scored in group for turn in spoken(scored.episode)}
        found: list[Advantage] = []
        for index, earned in turns.items():
            rewards = [reward for _, reward in earned]
            self.figures["turns"] += 1
            if alike(rewards):
                self.figures["turns_alike"] += 1
                if not self.settings.kl:
                    continue
            for (place, _), value in zip(earned, normalised(rewards), strict=True):
                if (group[place].episode.id, index) in said:
                    found.append(Advantage(group[place].episode.id, index, value))
        return found


def _earned(scored: Scored) -> list[float]:
    """For each turn the sum of the scores of the turn, of its round and of the whole episode."""

    def belongs(score: Score, turn: Turn) -> bool:
        return score.turn == turn.index if score.turn is not None else score.round in (None, turn.round)

    scores = scores_of(scored)
    return [math.fsum(one.value for one in scores if belongs(one, turn)) for turn in scored.episode.turns]
