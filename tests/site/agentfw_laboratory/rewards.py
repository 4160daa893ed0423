"""A reward model that needs the whole group, and one that breaks its contract."""

from __future__ import annotations

from collections.abc import Sequence

from agentfw import Episode, RewardModel, Score


class Rank(RewardModel):
    """One component for the group, with a name of its own, and one a round."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        mean = sum(episode.utility for episode in group) / len(group)
        scores = [Score(episode.id, "against the group", episode.utility - mean) for episode in group]
        for episode in group:
            scores += [Score(episode.id, "round", each.value, round=each.round) for each in episode.measures]
        return scores


class Faulty(RewardModel):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(episode.id, "faulty", float("nan")) for episode in group]


class Varied(RewardModel):
    """The share of the letter e in what was said: something that a model of random weights has more or less of."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        texts = {episode.id: "".join(turn.text for turn in episode.turns) for episode in group}
        return [Score(name, "varied", text.count("e") / max(1, len(text))) for name, text in texts.items()]
