"""Turn-wise advantages (proactor): each turn relative to the same turn of the other samples, by its own rewards.

A = nrm(r_turn) over the samples at one turn of one task. A turn earns the scores given to itself, to its round and to
its whole episode; nothing is passed back from later turns. Turns whose rewards are all equal are left out, unless a KL
penalty acts on them.

    agentfw train --optimizer turnwise --set optimizer.ratio_cap=100

The importance ratio is capped at 10, also where the advantage is negative and clipping doesn't apply. The paper gives
neither its clipping ranges nor how it averages; the mean over all tokens (`token_mean`) and the ranges here are common
practice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentfw.optimizer import Advantage, Scored

from .arithmetic import alike, normalised
from .attribution import scores_of, spoken
from .relative import Aggregation, ClipHigh, LossSettings, RatioCap, Relative

__all__ = ["Turnwise", "TurnwiseSettings"]


class TurnwiseSettings(LossSettings):
    clip_high: ClipHigh = 0.28
    ratio_cap: RatioCap = 10.0
    aggregation: Aggregation = "token_mean"


class Turnwise(Relative[TurnwiseSettings]):
    """Each turn relative to the same turn of the other samples."""

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
    throughout: list[float] = []
    of_round: dict[int, list[float]] = {}
    of_turn: dict[int, list[float]] = {}
    for score in scores_of(scored):
        if score.turn is not None:
            of_turn.setdefault(score.turn, []).append(score.value)
        elif score.round is not None:
            of_round.setdefault(score.round, []).append(score.value)
        else:
            throughout.append(score.value)
    return [
        math.fsum([*throughout, *of_round.get(turn.round, ()), *of_turn.get(turn.index, ())])
        for turn in scored.episode.turns
    ]
