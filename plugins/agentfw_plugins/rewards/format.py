"""The reward `format`: 1 for each turn that could be parsed and carried out, else 0.

An interrupted turn isn't scored, because nobody knows what it would have become.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentfw import Episode, RewardModel, Score

__all__ = ["Format"]


class Format(RewardModel):
    """One score per turn."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            refused = {str(event.data.get("id")) for event in episode.events if event.kind == "refused"}
            for turn in episode.turns:
                if turn.finish != "interrupted":
                    well = not turn.failures and not any(call.id in refused for call in turn.calls)
                    scores.append(Score(episode.id, "format", float(well), round=turn.round or None, turn=turn.index))
        return scores
