"""Rewards that are read off the record: utility, format, feedback, and figures that the environment recorded.

class Correct(Measured):
    component = measure = "correct"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentfw import Episode, RewardModel, Score
from agentfw.scores import Track

__all__ = ["Feedback", "Format", "Measured", "Utility", "feedback_of"]


class Measured(RewardModel):
    """A score per round for which the environment recorded the measure."""

    component = ""
    measure = ""
    track: Track = "base"

    def value(self, measured: float) -> float:
        return measured

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(name, self.component, self.value(measure.value), self.track, measure.round)
            for episode, name in ((episode, episode.id) for episode in group)
            for measure in episode.measures
            if measure.name == self.measure and measure.round
        ]


class Utility(RewardModel):
    """What the environment itself paid over the episode: one score, the sum of its utilities."""

    components = ("utility",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(episode.id, "utility", episode.utility) for episode in group]


class Format(RewardModel):
    """1 for each turn that could be parsed and carried out, else 0.

    An interrupted turn isn't scored, because nobody knows what it would have become.
    """

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            refused = {str(event.data.get("id")) for event in episode.events if event.kind == "refused"}
            for turn in episode.turns:
                if turn.finish != "interrupted":
                    well = not turn.failures and not any(call.id in refused for call in turn.calls)
                    scores.append(Score(episode.id, "format", float(well), round=turn.round or None, turn=turn.index))
        return scores


class Feedback(RewardModel):
    """What the user said, from -1 (bad) to 1 (good): one score for each answer that was rated, and one for the session.

    The newest feedback on an answer counts, and so does the newest on the session as a whole. A session that nobody has
    rated has no score.
    """

    components = ("feedback",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            newest = {turn: value for turn, value, _ in feedback_of(episode)}
            scores += [Score(episode.id, "feedback", value, "personal", turn=turn) for turn, value in newest.items()]
        return scores


def feedback_of(episode: Episode) -> Iterator[tuple[int | None, float, str]]:
    """The feedback on an episode in its order: the turn (None for all), the value and the correction."""
    for event in episode.events:
        value = event.data.get("value")
        if event.kind == "observation" and event.name == "feedback" and isinstance(value, (int, float)):
            turn = event.data.get("turn")
            known = isinstance(turn, int) and 0 <= turn < len(episode.turns)
            yield turn if known else None, float(value), str(event.data.get("correction") or "")
