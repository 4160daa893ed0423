"""The reward `feedback`: what the user said of a session, from -1 (bad) to 1 (good).

The newest feedback on an answer counts, and so does the newest on the session as a whole. A session without feedback
has the score 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentfw import Episode, RewardModel, Score

__all__ = ["Feedback", "feedback_of"]


class Feedback(RewardModel):
    """One score for each answer that was rated, and one for the session."""

    components = ("feedback",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [score for episode in group for score in self._scored(episode)]

    def _scored(self, episode: Episode) -> Iterator[Score]:
        newest = {turn: value for turn, value, _ in feedback_of(episode)}
        yield Score(episode.id, "feedback", newest.pop(None, 0.0), "personal")
        for turn, value in newest.items():
            yield Score(episode.id, "feedback", value, "personal", turn=turn)


def feedback_of(episode: Episode) -> Iterator[tuple[int | None, float, str]]:
    """The feedback on an episode in its order: the turn (None for all), the value and the correction."""
    for event in episode.events:
        value = event.data.get("value")
        if event.kind == "observation" and event.name == "feedback" and isinstance(value, (int, float)):
            turn = event.data.get("turn")
            known = isinstance(turn, int) and 0 <= turn < len(episode.turns)
            yield turn if known else None, float(value), str(event.data.get("correction") or "")
