"""The reward `format`: 1 if a turn's output could be parsed and carried out, else 0.

Interrupted turns are not scored, because their complete output is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentfw.episode import Episode
from agentfw.scores import RewardModel, Score

__all__ = ["Format"]


class Format(RewardModel):
    """A score for each turn."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            refused = {str(event.data.get("id")) for event in episode.events if event.kind == "refused"}
            for turn in episode.turns:
                if turn.finish != "interrupted":
                    well = not turn.failures and not any(call.id in refused for call in turn.calls)
                    scores.append(Score(episode.id, "format", float(well), round=turn.round or None, turn=turn.index))
        return scores
