"""The rewards of the proactive world: agreement, timing, false triggers and format, each a component of its own.

The environment measures them at every turn, and always as finite numbers. All reward rules of the ProActor paper
(appendix G.4) are weights of these five and of `rubric`:

    rewards = [
        { name = "proactive_ac", weight = "ramp:1->0.7" },
        { name = "rubric", weight = "ramp:0.3", settings = { policy = "timing_judge" } },
    ]

`proactive_ftr` is a cost, so its weight is negative. With `level = "trajectory"` a turn earns the mean of the dialogue
up to this turn, which the paper compares with rewards for single turns. A turn that wasn't measured, because its
dialogue was cut short, has no score; the metric `NAME_unmeasured` counts these turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from agentfw import Episode, Score, Settings
from agentfw.errors import SettingsError
from agentfw_plugins.rewards.measured import Measured


class LevelSettings(Settings):
    level: Literal["turn", "trajectory"] = Field(
        "turn", description="What a turn is scored by: itself, or the mean of the dialogue up to it."
    )


class _ByLevel(Measured):
    """A measure of each turn, or its running mean."""

    def __init__(self, settings: LevelSettings | None = None) -> None:
        self.settings = settings or LevelSettings()

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores = [*await super().score(group), *self._unmeasured(group)]
        if self.settings.level == "turn":
            return scores
        if any(episode.measures and "turns" not in episode.outcome for episode in group):
            raise SettingsError(
                f"reward.{self.component}.level: there is no trajectory in single turns",
                fix="pass --set environment.unit=dialogue, or use level=turn",
            )
        found = [one for one in scores if not one.counts]
        for episode in group:
            total = 0.0
            own = (one for one in scores if one.episode == episode.id and one.counts)
            for count, score in enumerate(own, start=1):
                total += score.value
                found.append(Score(score.episode, score.component, total / count, score.track, round=score.round))
        return found

    def _unmeasured(self, group: Sequence[Episode]) -> list[Score]:
        found = []
        for episode in group:
            measured = {one.round for one in episode.measures if one.name == self.measure}
            lacking = {turn.round for turn in episode.turns} - measured
            if lacking:
                found.append(Score(episode.id, f"{self.component}_unmeasured", float(len(lacking)), counts=False))
        return found


class Agreement(_ByLevel):
    """Agreement of the predictions with the reference (AC)."""

    component, measure = "proactive_ac", "rac"


class BestAgreement(_ByLevel):
    """Agreement of the best prediction (Max AC)."""

    component, measure = "proactive_max_ac", "max_rac"


class Timing(_ByLevel):
    """Share of predictions that are ready in time (PT)."""

    component, measure = "proactive_pt", "ptr"


class FalseTriggers(_ByLevel):
    """Share of ready predictions whose action is never ready in the dialogue (FTR). A cost."""

    component, measure = "proactive_ftr", "ftr_cost"


class Format(_ByLevel):
    """Whether the answer could be read."""

    component, measure = "proactive_format", "format"
