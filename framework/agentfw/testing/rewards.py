"""The contract of reward models: a score that is no number would poison every mean and every update after it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby

from ..episode import Episode, Usage
from ..scores import RewardModel, Score, wrong_scores
from .checks import DoesNotApply, Subject, closed, require, sample_episode

Rewards = Subject[RewardModel]


@asynccontextmanager
async def _open(subject: Rewards, name: str = "model") -> AsyncIterator[RewardModel]:
    folder = subject.folder / name
    folder.mkdir()
    async with closed(subject) as model:
        model.open(folder)
        yield model


def _groups(subject: Rewards) -> list[list[Episode]]:
    return [list(group) for _, group in groupby(subject.episodes, key=lambda episode: episode.task.index)]


async def _scores(model: RewardModel, group: Sequence[Episode]) -> list[Score]:
    scores = list(await model.score(group))
    for score in scores:
        require(isinstance(score, Score), f"it gives a {type(score).__name__}, which is no Score")
    wrong = wrong_scores(scores, group)
    require(not wrong, f"it {wrong}")
    return scores


async def scores_can_be_used(subject: Rewards) -> None:
    """Its scores are finite numbers, each of an episode that it was given, on the track base or personal."""
    async with _open(subject) as model:
        for group in _groups(subject):
            await _scores(model, group)


async def the_same_gets_the_same(subject: Rewards) -> None:
    """The same episodes get the same scores, from one model twice and from another one."""
    given = []
    for name in ("first", "second"):
        async with _open(subject, name) as model:
            for _ in range(2):
                scores = [score for group in _groups(subject) for score in await _scores(model, group)]
                given.append([replace(score, usage=Usage()) for score in scores])  # a judge may remember its answers
    for again in given[1:]:
        require(again == given[0], "scored again, the same episodes get other scores")


async def a_group_of_one_will_do(subject: Rewards) -> None:
    """It scores a group of a single episode."""
    async with _open(subject) as model:
        for episode in subject.episodes:
            await _scores(model, [episode])


async def odd_episodes_will_do(subject: Rewards) -> None:
    """It scores an episode without a turn, one with an empty answer, and one full of odd text."""
    task = subject.episodes[0].task
    empty = sample_episode(task)
    empty.turns = [replace(turn, text="", calls=(), count=0, token_ids=(), logprobs=()) for turn in empty.turns]
    odd = "\x00\x1b[31m🫖 </tool_call> {" + "x" * 10_000
    async with _open(subject) as model:
        await _scores(model, [Episode(task, finish="quiet")])
        for episode in (empty, sample_episode(task, text=odd)):
            await _scores(model, [episode])


async def its_components_are_those_announced(subject: Rewards) -> None:
    """If it announces the components of its scores, they are the ones that it gives."""
    async with _open(subject) as model:
        if not model.components:
            raise DoesNotApply("it announces no components")
        for group in _groups(subject):
            given = {score.component for score in await _scores(model, group) if score.counts}
            unknown = sorted(given - set(model.components))
            wrong = f"it gives {', '.join(unknown)}, but `components` announces {', '.join(model.components)}"
            require(not unknown, wrong)


async def the_order_of_samples_does_not_matter(subject: Rewards) -> None:
    """A sample gets the same score wherever it stands in its group."""
    async with _open(subject) as model:
        if model.policy is not None:
            raise DoesNotApply("it asks a policy, which may judge by the order in which it reads")
        for group in _groups(subject):
            there, back = (
                {(one.episode, one.component, one.track, one.round, one.turn): one.value for one in scores}
                for scores in (await _scores(model, group), await _scores(model, group[::-1]))
            )
            require(there == back, f"it scores {there}, and {back} when the same samples come in the opposite order")


async def episodes_stay_as_they_are(subject: Rewards) -> None:
    """It doesn't alter what it scores."""
    async with _open(subject) as model:
        for group in _groups(subject):
            before = copy.deepcopy(group)
            await model.score(group)
            for one, two in zip(before, group, strict=True):
                require(one == two, f"it altered episode {one.id}")
