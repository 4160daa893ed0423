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
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pydantic import Field, field_validator

from agentfw import (
    Brief,
    Choice,
    Episode,
    Host,
    Message,
    Moment,
    Observation,
    Policy,
    Request,
    RewardModel,
    Score,
    Settings,
)
from agentfw.errors import PluginError
from agentfw.runs import SamplingSettings
from agentfw_rewardmodels.keypoints import Attempt, KeypointJudge, KeypointJudgement

from .library_errors import translated_errors

__all__ = ["Keypoints", "KeypointsSettings"]

_UNKNOWN = 0.5
"""The score of an episode in a group of which none could be judged."""


class KeypointsSettings(Settings):
    policy: Choice = Field(Choice(name="openai"), description="Policy that judges, with its settings.")
    sampling: SamplingSettings = Field(
        SamplingSettings(temperature=0), description="Sampling of the judge; temperature 0 is repeatable."
    )
    heads: tuple[str, ...] = Field(
        ("procedure", "personal", "proactive"), min_length=1, description="What is marked; each is a component."
    )
    scale: int = Field(5, ge=1, description="Highest mark.")
    parallel: int = Field(8, ge=1, description="Maximum number of episodes judged at once.")
    retries: int = Field(2, ge=0, description="Number of retries after an unusable answer.")
    cache: str = Field("", description="File of cached marks. Default: keypoints.db in the run's folder.")

    @field_validator("policy", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class Keypoints(RewardModel):
    """One score per head, and whether the judge failed."""

    def __init__(self, settings: KeypointsSettings, *, host: Host) -> None:
        self.settings = settings
        choice = settings.policy
        made = host.create("policy", choice.name, choice.settings, where="reward.keypoints.policy")
        if not isinstance(made, Policy):
            raise PluginError(
                f'policy "{choice.name}" is no Policy but {type(made).__name__}', fix="choose another policy"
            )
        self.policy = made
        about = {"settings": choice.settings, "sampling": settings.sampling.model_dump()}
        version = host.find("policy", choice.name).record.version
        self._name = f"{choice.name} {version} {json.dumps(about, sort_keys=True, default=str)}"
        self._cache: str | Path = settings.cache or ":memory:"
        self._made: KeypointJudge | None = None

    def open(self, folder: Path) -> None:
        if not self.settings.cache:
            self._cache = folder / "keypoints.db"
        _ = self.judge  # reports a bad cache file before anything is played

    @property
    def judge(self) -> KeypointJudge:
        if self._made is None:
            settings = self.settings
            with translated_errors():
                self._made = KeypointJudge(
                    self._ask,
                    name=self._name,
                    heads=settings.heads,
                    scale=settings.scale,
                    cache=self._cache,
                    parallel=settings.parallel,
                    retries=settings.retries,
                )
        return self._made

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        found = await asyncio.gather(*(self.judge.judge(_attempt(episode)) for episode in group))
        return [score for number, episode in enumerate(group) for score in self._scores(episode, number, found)]

    async def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None
        await self.policy.close()

    def _scores(self, episode: Episode, number: int, found: Sequence[KeypointJudgement]) -> Iterator[Score]:
        own = found[number]
        for head in self.settings.heads:
            others = [one.marks[head] / self.settings.scale for one in found if one.marks]
            value = own.marks[head] / self.settings.scale if own.marks else fmean(others) if others else _UNKNOWN
            yield Score(episode.id, f"keypoints_{head}", value, "personal" if head == "personal" else "base")
        yield Score(episode.id, "keypoints_failed", float(bool(own.failure)), counts=False)

    async def _ask(self, messages: Sequence[Mapping[str, object]]) -> str:
        conversation = [Message(str(message["role"]), str(message["content"])) for message in messages]
        question = conversation[1].content
        generation = await self.policy.generate(
            Request(
                conversation,
                sampling=self.settings.sampling.sampling(len(conversation)),
                # The same content, for a judge that is a program.
                moment=Moment(0, (Observation(0, "question", {"turn": len(conversation) // 2}, question),)),
                brief=Brief(conversation[0].content),
            )
        )
        return generation.text


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
