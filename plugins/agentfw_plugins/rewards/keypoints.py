"""The reward `keypoints`: any policy marks each episode on an absolute scale, by points that the environment names.

    [[rewards]]
    name = "keypoints"
    settings = { policy = { name = "openai", settings = { model = "gpt-5-mini" } } }

An environment names the points in an observation's data, as `keypoints`: a list of sentences for each head. It does so
when the episode is over, so that the agent never reads them. Each head is a component from 0 to 1. The head `personal`
is on the personal track, the others are on the base track.

An episode that can't be judged gets the mean of its group, so that nothing is learned from it, and the metric
`keypoints_failed` counts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from statistics import fmean

from pydantic import Field

from agentfw import Episode, Host, Score
from agentfw.episode import Usage
from agentfw_rewardmodels.keypoints import Attempt, KeypointJudge, KeypointJudgement

from .judged import JudgedReward, JudgeSettings, refusals

__all__ = ["Keypoints", "KeypointsSettings"]

_UNKNOWN = 0.5
"""The score of an episode in a group of which none could be judged."""


class KeypointsSettings(JudgeSettings):
    heads: tuple[str, ...] = Field(
        ("procedure", "personal", "proactive"), min_length=1, description="What is marked; each is a component."
    )
    scale: int = Field(5, ge=1, description="Highest mark.")


class Keypoints(JudgedReward[KeypointJudge]):
    """One score per head, and whether the judge failed."""

    reward, cache_file = "keypoints", "keypoints.db"

    def __init__(self, settings: KeypointsSettings, *, host: Host) -> None:
        super().__init__(settings, host)
        self.settings = settings

    def make_judge(self) -> KeypointJudge:
        return KeypointJudge(
            self.ask,
            name=self.name,
            heads=self.settings.heads,
            scale=self.settings.scale,
            cache=self.cache,
            parallel=self.settings.parallel,
            retries=self.settings.retries,
        )

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        with refusals():
            found = await asyncio.gather(*(self.judge.judge(_attempt(episode)) for episode in group))
        return [score for number, episode in enumerate(group) for score in self._scores(episode, number, found)]

    def _scores(self, episode: Episode, number: int, found: Sequence[KeypointJudgement]) -> Iterator[Score]:
        own = found[number]
        for head in self.settings.heads:
            others = [one.marks[head] / self.settings.scale for one in found if one.marks]
            value = own.marks[head] / self.settings.scale if own.marks else fmean(others) if others else _UNKNOWN
            yield Score(episode.id, f"keypoints_{head}", value, "personal" if head == "personal" else "base")
        usage = Usage(*astuple(own.usage))
        yield Score(episode.id, "keypoints_failed", float(bool(own.failure)), counts=False, usage=usage)


def _attempt(episode: Episode) -> Attempt:
    """What the judge sees: the request, the conversation, the profile and the points. No figure of the environment."""
    observed = [event.data for event in episode.events if event.kind == "observation"]
    named: Mapping[str, object] = next(
        (data["keypoints"] for data in reversed(observed) if isinstance(data.get("keypoints"), Mapping)), {}
    )
    points = {str(head): [str(one) for one in some] for head, some in named.items() if isinstance(some, (list, tuple))}
    messages = []
    for message in episode.messages:
        if message.role != "system":
            calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in message.calls]
            messages.append({"role": message.role, "content": message.content, **({"calls": calls} if calls else {})})
    query = str(observed[0].get("text", "")) if observed else ""
    return Attempt(query, messages, points, episode.profile)
