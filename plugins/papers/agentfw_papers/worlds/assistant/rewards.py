"""The rewards of the assistant: marks of the visible view, from 0 to 1.

They read what an operator could know, and never the hidden tastes. `Satisfaction` is the exception, and says so: it is
the upper bound that a reward could reach.

The reward `assistant_preference`: a preference model that is fitted on the log of the world when it is first needed.

    agentfw train assistant --reward assistant_base --reward assistant_preference \
        --set reward.assistant_preference.model=preferences

It knows what a log tells of users, which is more than they have stated and less than the truth. What users accept and
reject in a run becomes a newer model in the run's folder, as with the reward `preference`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from agentfw import Episode, RewardModel, Score
from agentfw_papers.rewards.log_preference import LogPreference

from .assistant_settings import AssistantSettings
from .catalogue import Catalogue
from .logs import write_logs


class Base(RewardModel):
    """What is right for every user: procedure and proactive."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [score for episode in group for name in ("procedure", "proactive") for score in _mark(episode, name)]


class Personal(RewardModel):
    """How well the choices meet what this user has stated."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(episode.id, "personal", _figure(episode, "visible_personal") / 5, "personal") for episode in group
        ]


class Stars(RewardModel):
    """The stars of the user, from 0 to 1. Episodes without any have no score."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        stars = ((episode, episode.outcome.get("stars", math.nan)) for episode in group)
        return [Score(one.id, "stars", (value - 1) / 4, "personal") for one, value in stars if not math.isnan(value)]


class Satisfaction(RewardModel):
    """The hidden truth."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(one.id, "satisfaction", _figure(one, "satisfaction"), "personal") for one in group]


def _mark(episode: Episode, name: str) -> Iterator[Score]:
    yield Score(episode.id, name, _figure(episode, name) / 5, "base")


def _figure(episode: Episode, name: str) -> float:
    """A figure of an episode, 0 in a world that doesn't have it."""
    return episode.outcome.get(name, 0.0)


class AssistantPreference(LogPreference):
    """Scores what took hold by a model of the log of the assistant's world."""

    name = "assistant_preference"

    @classmethod
    def write_log(cls, folder: Path, world: int) -> None:
        write_logs(folder, AssistantSettings(world=world))

    @classmethod
    def texts(cls, world: int) -> dict[str, str]:
        return _texts(world)


@lru_cache(maxsize=4)
def _texts(world: int) -> dict[str, str]:
    return {item.id: item.text for item in Catalogue(AssistantSettings(world=world)).by_id.values()}
