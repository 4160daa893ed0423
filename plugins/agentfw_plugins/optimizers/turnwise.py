"""Turn-wise advantages (proactor): each turn against the same turn of the other samples, by what it earned itself.

The one rule: A = nrm(r_turn) over the samples at one turn of one task, and turns at which all fared alike are left out.
A turn earns what was said of it, of its round and of its whole episode; nothing is handed on from later turns.

    agentfw train --optimizer turnwise --set optimizer.ratio_cap=100

The ratio is capped at 10, also where the advantage is negative and nothing is clipped. The paper doesn't give its two
clip values nor how it averages; the ones here are common practice.
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
    """Each turn against the same turn of the other samples."""

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
                continue
            for (place, _), value in zip(earned, normalised(rewards), strict=True):
                if (group[place].episode.id, index) in said:
                    found.append(Advantage(group[place].episode.id, index, value))
        return found


def _earned(scored: Scored) -> list[float]:
    """For each turn what was said of it, of its round and of the whole episode."""
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
