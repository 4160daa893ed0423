"""Advantages by position: each round, or each turn, relative to the same one of the other samples.

agentfw train calendar --optimizer roundwise --set optimizer.gamma=0.5
agentfw train --optimizer turnwise --set optimizer.ratio_cap=100
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from agentfw import Score, Turn
from agentfw.optimizer import Advantage, Scored

from .relative import (
    Aggregation,
    ClipHigh,
    LossSettings,
    RatioCap,
    Relative,
    alike,
    by_round,
    centred,
    normalised,
    returns_to_go,
    scores_of,
    spoken,
    unit,
)


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
    is lost, and so is that of the epsilon that is added to the variance: here it is the square of the floor that all
    optimizers have. A large gamma credits a round with what it makes possible later; a small one keeps out the noise of
    later rounds.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        return [advantage for group in groups for advantage in self._group(group)]

    def _group(self, group: Sequence[Scored]) -> list[Advantage]:
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

    The importance ratio is capped at 10, also where the advantage is negative and clipping doesn't apply. The paper
    gives neither its clipping ranges nor how it averages; the mean over all tokens (`token_mean`) and the ranges here
    are common practice.
    """

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        self.figures |= {"turns": 0.0, "turns_alike": 0.0}
        return [advantage for group in groups for advantage in self._group(group)]

    def _group(self, group: Sequence[Scored]) -> list[Advantage]:
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
