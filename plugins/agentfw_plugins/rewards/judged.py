"""What the rewards `rubric` and `keypoints` have in common: a policy that is asked, and a file of its judgements.

A policy that rejects a question for good, for example because it is too long, has failed to judge. One that can't be
reached stops the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pydantic import Field, field_validator

from agentfw import Host, Message, Moment, Observation, Policy, Request, RewardModel, Settings
from agentfw.errors import PluginError, RequestRefusedError, not_implemented
from agentfw.request import Brief
from agentfw.runs import Choice, SamplingSettings
from agentfw_rewardmodels.rubric import Answer, JudgeRefused, Usage
from agentfw_rewardmodels.rubric import Message as JudgedMessage

from .library_errors import translated_errors

__all__ = ["JudgeSettings", "JudgedReward", "refusals"]


class JudgeSettings(Settings):
    policy: Choice = Field(Choice(name="openai"), description="Policy that judges, with its settings.")
    sampling: SamplingSettings = Field(
        SamplingSettings(temperature=0), description="Sampling of the judge; temperature 0 is repeatable."
    )
    parallel: int = Field(8, ge=1, description="Maximum number of questions asked at once.")
    retries: int = Field(2, ge=0, description="Number of retries after an unusable answer.")
    cache: str = Field("", description="File of cached judgements. Default: a file in the run's folder.")

    @field_validator("policy", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class _Closed(Protocol):
    def close(self) -> None: ...


Judge = TypeVar("Judge", bound=_Closed)


class JudgedReward(RewardModel, Generic[Judge]):
    """A reward model whose scores come from a policy that judges."""

    reward: str
    """Name of the reward, for errors."""
    cache_file: str
    """Name of the file of judgements in the run's folder."""
    policy: Policy

    def __init__(self, settings: JudgeSettings, host: Host) -> None:
        choice = settings.policy
        made = host.create("policy", choice.name, choice.settings, where=f"reward.{self.reward}.policy")
        if not isinstance(made, Policy):
            raise PluginError(
                f'policy "{choice.name}" is no Policy but {type(made).__name__}', fix="choose another policy"
            )
        self.policy = made
        decisive = {key: value for key, value in choice.settings.items() if key != "price"}
        about = {"settings": decisive, "sampling": settings.sampling.model_dump()}
        version = host.find("policy", choice.name).record.version
        self.name = f"{choice.name} {version} {json.dumps(about, sort_keys=True, default=str)}"
        """Identifies the judge: policy, version, settings and sampling. A change invalidates cached judgements; another
        price is none."""
        self.cache: str | Path = settings.cache or ":memory:"
        self._sampling, self._in_folder = settings.sampling, not settings.cache
        self._made: Judge | None = None

    def make_judge(self) -> Judge:
        """Create the judge, which asks with `ask`."""
        raise not_implemented(self, "make_judge")

    def open(self, folder: Path) -> None:
        if self._in_folder:
            self.cache = folder / self.cache_file
        _ = self.judge  # reports a bad cache file before anything is played

    @property
    def judge(self) -> Judge:
        if self._made is None:
            with translated_errors():
                self._made = self.make_judge()
        return self._made

    async def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None
        await self.policy.close()

    async def ask(self, messages: Sequence[JudgedMessage]) -> Answer:
        """Ask the policy."""
        conversation = [Message(str(message["role"]), str(message["content"])) for message in messages]
        question = conversation[1].content
        try:
            generation = await self.policy.generate(
                Request(
                    conversation,
                    sampling=self._sampling.sampling(len(conversation)),
                    # The same content, for a judge that is a program.
                    moment=Moment(0, (Observation(0, "question", {"turn": len(conversation) // 2}, question),)),
                    brief=Brief(conversation[0].content),
                )
            )
        except RequestRefusedError as error:
            raise JudgeRefused(str(error)) from error
        return Answer(generation.text, Usage(*astuple(self.policy.priced(generation.usage))))


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the policy's own error where the judge has never answered."""
    try:
        yield
    except JudgeRefused as refusal:
        raise refusal.__cause__ or refusal from None
