"""Assigns the scores of an episode to tracks, components, rounds and turns.

No score is counted twice. A score of a round or a turn belongs there. A score of the whole episode was given when it
was over, so it belongs to the end. An episode without scores has its reward as the only score.

    >>> from agentfw.episode import Task
    >>> episode = Episode(Task(0, 7), rounds=2, turns=[Turn(0, 0, 1, round=1), Turn(1, 2, 3, round=2)])
    >>> said = (Score("00000-0", "right", 1.0, round=1), Score("00000-0", "format", 0.5, turn=1))
    >>> scored = Scored(episode, said, 1.5)
    >>> by_round(scored), by_turn(scored)
    ([0.0, 1.0, 0.5], [1.0, 0.5])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentfw import Episode, Score, Turn
from agentfw.errors import PluginError
from agentfw.optimizer import Advantage, Scored
from agentfw.scores import LARGEST, Track

__all__ = ["by_component", "by_round", "by_turn", "check", "of_track", "scores_of", "spoken", "throughout"]


def check(groups: Sequence[Sequence[Scored]]) -> None:
    """Refuse rewards that can't be computed with, and scores of turns that don't exist."""
    for group in groups:
        for scored in group:
            for score in scored.scores:
                if score.turn is not None and not 0 <= score.turn < len(scored.episode.turns):
                    raise PluginError(
                        f'component "{score.component}" scored turn {score.turn} of episode {scored.episode.id}, '
                        f"which has {len(scored.episode.turns)}",
                        fix="a score's turn is the index of a turn; fix the reward model",
                    )
            values = [("the reward", scored.reward)]
            values += [(f'component "{score.component}"', score.value) for score in scored.scores]
            for what, value in values:
                if not abs(value) <= LARGEST:
                    raise PluginError(
                        f"{what} of episode {scored.episode.id} is {value}, which nothing can be learned from",
                        fix="fix the reward model or the environment that gave it; nothing was changed",
                    )


def spoken(episode: Episode) -> list[Turn]:
    """The turns that have an answer. The others have no tokens to learn from."""
    return [turn for turn in episode.turns if turn.count or turn.token_ids or turn.text]


def throughout(scored: Scored, value: float) -> list[Advantage]:
    """One advantage for the whole episode, carried by every turn."""
    return [Advantage(scored.episode.id, turn.index, value) for turn in spoken(scored.episode)]


def scores_of(scored: Scored) -> Sequence[Score]:
    return scored.scores or (Score(scored.episode.id, "reward", scored.reward),)


def of_track(scored: Scored, track: Track) -> float:
    return math.fsum(score.value for score in scores_of(scored) if score.track == track)


def by_component(scored: Scored) -> dict[str, float]:
    """The sum of each component."""
    found: dict[str, list[float]] = {}
    for score in scores_of(scored):
        found.setdefault(score.component, []).append(score.value)
    return {component: math.fsum(values) for component, values in found.items()}


def by_round(scored: Scored) -> list[float]:
    """The reward of each round that the episode reached. The time before the first round is round 0."""
    turns, scores = scored.episode.turns, scores_of(scored)
    about = [_round_of(score, turns) for score in scores]
    last = max([0, *(turn.round for turn in turns), *(number for number in about if number is not None)])
    values: list[list[float]] = [[] for _ in range(last + 1)]
    for score, number in zip(scores, about, strict=True):
        values[last if number is None else number].append(score.value)
    return [math.fsum(some) for some in values]


def by_turn(scored: Scored) -> list[float]:
    """The reward of each turn, in order.

    A round's score belongs to the last turn of that round, or of the latest earlier round that has a turn.
    """
    turns = scored.episode.turns
    values: list[list[float]] = [[] for _ in turns]
    lasts = {turn.round: turn.index for turn in turns}
    for score in scores_of(scored) if turns else ():
        place: int | None = len(turns) - 1
        if score.turn is not None:
            place = score.turn
        elif score.round is not None and (place := lasts.get(score.round)) is None:
            place = max((last for number, last in lasts.items() if number < score.round), default=None)
        if place is not None:
            values[place].append(score.value)
    return [math.fsum(some) for some in values]


def _round_of(score: Score, turns: Sequence[Turn]) -> int | None:
    if score.round is None and score.turn is not None:
        return turns[score.turn].round
    return score.round
