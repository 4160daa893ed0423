"""The reward `rubric`: any policy as a judge of episodes, relative to each other, by rules in words.

A reward with a judge keeps a file of judgements, so that nothing is asked twice. A policy that rejects a question for
good, for example because it is too long, has failed to judge. One that can't be reached stops the run.

    [[rewards]]
    name = "rubric"
    settings = { policy = { name = "openai", settings = { model = "gpt-5-mini" } } }
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from itertools import chain, repeat
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field

from agentfw import Episode, Host, Message, Moment, Observation, Policy, Request, RewardModel, Score, Settings, Turn
from agentfw.episode import Usage
from agentfw.errors import RequestRefusedError, not_implemented
from agentfw.request import Brief
from agentfw.runs import Choice, SamplingSettings
from agentfw.scores import Track
from agentfw_rewardmodels.rubric import LONGEST, Answer, Judge, JudgeRefused, RubricJudge
from agentfw_rewardmodels.rubric import Message as JudgedMessage
from agentfw_rewardmodels.rubric import Usage as JudgeUsage

from . import translated_errors

__all__ = ["JudgeSettings", "JudgedReward", "Rubric", "RubricSettings", "refusals"]


class JudgeSettings(Settings):
    policy: Choice = Field(Choice(name="openai"), description="Policy that judges, with its settings.")
    sampling: SamplingSettings = Field(
        SamplingSettings(temperature=0), description="Sampling of the judge; temperature 0 is repeatable."
    )
    parallel: int = Field(8, ge=1, description="Maximum number of questions asked at once.")
    retries: int = Field(2, ge=0, description="Number of retries after an unusable answer.")
    cache: str = Field("", description="File of cached judgements. Default: a file in the run's folder.")


Own = TypeVar("Own", bound=Judge)


class JudgedReward(RewardModel, Generic[Own]):
    """A reward model whose scores come from a policy that judges."""

    reward: str
    """Name of the reward, for errors."""
    cache_file: str
    """Name of the file of judgements in the run's folder."""
    policy: Policy

    def __init__(self, settings: JudgeSettings, host: Host) -> None:
        choice = settings.policy
        self.policy = host.make("policy", choice, Policy, where=f"reward.{self.reward}.policy")
        decisive = {key: value for key, value in choice.settings.items() if key != "price"}
        about = {"settings": decisive, "sampling": settings.sampling.model_dump()}
        version = host.find("policy", choice.name).record.version
        self.name = f"{choice.name} {version} {json.dumps(about, sort_keys=True, default=str)}"
        """Identifies the judge: policy, version, settings and sampling. A change invalidates cached judgements; another
        price is none."""
        self.cache: str | Path = settings.cache or ":memory:"
        self._sampling, self._in_folder = settings.sampling, not settings.cache
        self._made: Own | None = None

    def make_judge(self) -> Own:
        """Create the judge, which asks with `ask`."""
        raise not_implemented(self, "make_judge")

    def open(self, folder: Path) -> None:
        if self._in_folder:
            self.cache = folder / self.cache_file
        _ = self.judge  # reports a bad cache file before anything is played

    @property
    def judge(self) -> Own:
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
        usage = self.policy.priced(generation.usage, generation.version)
        return Answer(generation.text, JudgeUsage(usage.prompt, usage.cached, usage.sampled, usage.cost))


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the policy's own error where the judge has never answered."""
    try:
        yield
    except JudgeRefused as refusal:
        raise refusal.__cause__ or refusal from None


_Judged = tuple[Episode, Turn | None, Sequence[JudgedMessage]]
"""An attempt, with its episode and, if a turn is judged by itself, its turn."""


class RubricSettings(JudgeSettings):
    rules: tuple[str, ...] = Field((), description="Rules of this task, added to the general rubric.")
    longest: int = Field(
        LONGEST, ge=2, description="Maximum number of characters shown of an attempt; the middle is cut."
    )
    per: Literal["episode", "turn"] = Field(
        "episode",
        description="What is judged: whole episodes, or each turn against the same turn of the other samples.",
    )
    track: Track = Field("base", description="Track of the score; `personal` if the rules are one user's.")


class Rubric(JudgedReward[RubricJudge]):
    """One score per episode, from 0 to 1, and whether the judge failed.

    With `per = "turn"`, each turn of an episode is compared with the same turn of the other samples, and the score
    belongs to this turn. That is for long episodes in which an early turn shouldn't pay for a later one. The judge
    reads the conversations only. It gets no score of another component and no figure of the environment, so it can't
    repeat them.

    If a group could not be judged, each of its episodes gets 0.5, which gives no learning signal, and the metric
    `rubric_failed` counts these cases. A judge that can't be reached stops the run. When the run is resumed, it
    continues from there: its episodes are on disk, and so are the scores so far.
    """

    reward, cache_file = "rubric", "judgements.db"

    def __init__(self, settings: RubricSettings, *, host: Host) -> None:
        super().__init__(settings, host)
        self.settings = settings

    def make_judge(self) -> RubricJudge:
        return RubricJudge(
            self.ask,
            name=self.name,
            rules=self.settings.rules,
            cache=self.cache,
            parallel=self.settings.parallel,
            retries=self.settings.retries,
            longest=self.settings.longest,
        )

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        if self.settings.per == "episode":
            return await self._judged([(episode, None, _attempt(episode)) for episode in group])
        by_turn: dict[int, list[_Judged]] = {}
        for episode in group:
            for turn in episode.turns:
                if turn.finish != "interrupted":
                    shown = [episode.messages[index] for index in turn.shown]
                    attempt = [*map(_entry, shown), _entry(Message("assistant", turn.text, turn.calls))]
                    by_turn.setdefault(turn.index, []).append((episode, turn, attempt))
        return list(chain.from_iterable(await asyncio.gather(*map(self._judged, by_turn.values()))))

    async def _judged(self, group: Sequence[_Judged]) -> list[Score]:
        """The scores of attempts that are compared with each other."""
        with refusals():
            judgement = await self.judge.judge([attempt for _, _, attempt in group])
        scores: list[Score] = []
        usages = chain([Usage(*astuple(judgement.usage))], repeat(Usage(0, 0, 0)))
        for (episode, turn, _), value, usage in zip(group, judgement.scores, usages, strict=False):
            round, index = (None, None) if turn is None else (turn.round or None, turn.index)
            failed, track = float(bool(judgement.failure)), self.settings.track
            scores.append(Score(episode.id, "rubric", value, track, round, index, usage=usage))
            scores.append(Score(episode.id, "rubric_failed", failed, "base", round, index, counts=False))
        return scores


def _attempt(episode: Episode) -> list[JudgedMessage]:
    """An episode as the judge reads it: what was shown, each message once, and every answer.

    The episode's messages lack answers that no later turn was shown, the last one above all.
    """
    attempt: list[JudgedMessage] = []
    shown, answers = set[int](), set[str]()
    for turn in episode.turns:
        for index in turn.shown:
            message = episode.messages[index]
            if index not in shown and not (message.role == "assistant" and message.content in answers):
                attempt.append(_entry(message))
            shown.add(index)
        if turn.text or turn.calls:
            attempt.append(_entry(Message("assistant", turn.text, turn.calls)))
        answers.add(turn.text)
    return attempt + [_entry(message) for index, message in enumerate(episode.messages) if index not in shown]


def _entry(message: Message) -> JudgedMessage:
    """A message without call ids, which would make equal attempts differ."""
    calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in message.calls]
    return {"role": message.role, "content": message.content, **({"calls": calls} if calls else {})}
