"""Plays the tasks of a plan: many at once, each episode written down when it ends, each group scored when it is whole.

An episode that was reported is on disk, and what is on disk is not played again. What is scored and learned from is
what was written, so a resumption does the same as the first time.

    play = Play(assembly, plan, episodes, metrics, observer)
    await play.recover(records)
    await play.all()

Where a memory learns, episodes are played in batches of `concurrency`: all of a batch see the memory as it was before
the batch, and it learns from them in the order of the tasks. So the order in which they happen to end changes nothing.
After a resumption the memory is given all concluded episodes once more, in the same order: one that keeps its notes on
disk has them already, one that keeps them in the process gets them back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from numbers import Real
from typing import Any

from ..episode import Episode, Task
from ..errors import PluginError
from ..optimizer import Scored
from ..policy import Policy
from ..scores import Progress, Score, mix
from ..seeds import Seeds
from .assembly import Assembly
from .components import blamed
from .journal import Journal
from .observer import Observer
from .records import Records
from .spec import Choice, SamplingSettings

__all__ = ["Plan", "Play", "checked_figure", "in_groups", "learn_again"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played, by whom, and what is done with it."""

    tasks: Sequence[Task]
    policy: Policy
    player: Choice
    """The policy's name, for errors."""
    sampling: SamplingSettings
    seeds: Seeds
    """The seed of each episode's sampling is the integer of its id below this."""
    progress: Progress = field(default_factory=Progress)
    """How far the training is: weights may depend on it."""
    learns: bool = True
    """Whether the memories learn from the episodes."""
    retains: bool = False
    """Whether scored episodes are kept, for an optimizer."""


def in_groups(tasks: Sequence[Task], samples: int, *, first: int = 0) -> list[Task]:
    """Each task `samples` times, side by side; the samples are numbered from `first`."""
    return [replace(task, sample=sample) for task in tasks for sample in range(first, first + samples)]


async def learn_again(assembly: Assembly, records: Records) -> None:
    """Give the memories what an earlier execution played, in the order of that time."""
    for episode, line in records.replay():
        if line is not None:
            await _learn(assembly, episode, float(line["reward"]))


class Play:
    """How far one plan is."""

    def __init__(self, assembly: Assembly, plan: Plan, episodes: Journal, metrics: Journal, observer: Observer) -> None:
        self.assembly, self.spec, self.plan = assembly, assembly.spec, plan
        self.episodes, self.metrics, self.observer = episodes, metrics, observer
        self.groups = [list(group) for _, group in groupby(plan.tasks, key=lambda task: task.index)]
        self.concluded: set[str] = set()
        self.played: dict[str, Episode] = {}
        """The episodes on disk of groups that aren't concluded; the others needn't be kept."""
        self.sources: dict[str, str] = {}
        """The reward model that each component came from."""
        self.scored: dict[str, Scored] = {}
        """The concluded episodes, where the plan retains them."""
        self.room = asyncio.Semaphore(self.spec.concurrency)

    async def recover(self, records: Records) -> None:
        """Take up what an earlier execution left; the memories learn it again, in the order of the first time."""
        self.concluded = {str(record["episode"]) for record in records.concluded()}
        unfinished = {task.id for group in self.groups if not self._is_concluded(group) for task in group}
        for episode, line in records.replay():
            if episode.id in unfinished:
                self.played[episode.id] = episode
            if line is not None:
                await self._learn(episode, float(line["reward"]))
                self._retain(episode, line)

    async def all(self) -> None:
        """Play what is missing."""
        if not (self.plan.learns and self.assembly.memories):
            await _side_by_side(self._group(group) for group in self.groups)
            return
        size = max(1, self.spec.concurrency // len(self.groups[0]))
        for first in range(0, len(self.groups), size):
            batch = self.groups[first : first + size]
            await _side_by_side(self._episode(task) for group in batch for task in group)
            for group in batch:
                await self._conclude(group)

    def scored_groups(self) -> list[list[Scored]]:
        """The groups for an optimizer, in the order of the tasks."""
        return [[self.scored[task.id] for task in group] for group in self.groups]

    async def _group(self, group: Sequence[Task]) -> None:
        await _side_by_side(self._episode(task) for task in group)
        await self._conclude(group)

    async def _episode(self, task: Task) -> None:
        """Play one episode, unless it is on disk already."""
        if task.id in self.played or task.id in self.concluded:
            return
        async with self.room:
            # A policy that is a program never waits for anything: without this, nobody could interrupt it.
            await asyncio.sleep(0)
            episode = await self._engage(task)
        try:
            record = self.episodes.append(episode.to_record())
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"episode {task.id} can't be written down: {error}",
                fix="observations and calls are made of text, numbers, lists and tables; fix the environment",
            ) from error
        # What is scored and learned from is what a resumed run would find: a tuple that was written is a list.
        self.played[task.id] = Episode.from_record(record)
        self.observer.played(self.played[task.id])

    async def _engage(self, task: Task) -> Episode:
        spec, plan = self.spec, self.plan
        names = [choice.name for choice in (spec.environment, plan.player, *spec.memories)]
        sampling = plan.sampling.sampling(plan.seeds.integer(task.id))
        with blamed(f"episode {task.id} of {' + '.join(names)}"):
            episode = await self.assembly.engagement(plan.policy, sampling, self.observer.turned).run(task)
        episode.environment = spec.environment.name
        episode.utility = checked_figure(episode.utility, "utility", episode)
        for name, value in episode.outcome.items():
            episode.outcome[name] = checked_figure(value, name, episode, or_nan=True)
        return episode

    def _is_concluded(self, group: Sequence[Task]) -> bool:
        return all(task.id in self.concluded for task in group)

    async def _conclude(self, group: Sequence[Task]) -> None:
        """Score a group, let the memories learn, and write its figures down. Done twice, it is as if done once."""
        if self._is_concluded(group):
            return
        episodes = [self.played[task.id] for task in group]
        scores = await self._scores(episodes)
        self.observer.scored(scores)
        for episode in episodes:
            if episode.id not in self.concluded:
                await self._account(episode, [score for score in scores if score.episode == episode.id])
        for task in group:
            del self.played[task.id]

    async def _account(self, episode: Episode, scores: Sequence[Score]) -> None:
        """Learn from one scored episode, and write its figures down."""
        outcome = episode.outcome | {score.component: float(score.value) for score in scores if not score.counts}
        scores = [score for score in scores if score.counts]
        reward = self._reward(episode, scores)
        await self._learn(episode, reward)
        record: dict[str, Any] = {
            "episode": episode.id,
            "task": f"{episode.task.user}/{episode.task.seed}/{episode.task.index}/{episode.task.sample}",
            "user": episode.task.user,
            "reward": reward,
            "utility": episode.utility,
            "outcome": outcome,
            "course": [
                [measure.round, measure.value]
                for measure in episode.measures
                if measure.round and measure.name == self.assembly.environment.headline
            ],
            "turns": len(episode.turns),
            "tokens": sum(turn.count for turn in episode.turns),
            "usage": asdict(episode.usage),
            "failures": sum(len(turn.failures) for turn in episode.turns),
            "finish": episode.finish,
            "scores": [
                [each.component, each.track, float(each.value), each.round, each.turn, self._weight(episode, each)]
                for each in scores
            ],
        }
        record = self.metrics.append(record)
        self.concluded.add(episode.id)
        self._retain(episode, record)
        self.observer.concluded(episode, record, len(self.concluded))

    def _retain(self, episode: Episode, record: dict[str, Any]) -> None:
        if self.plan.retains:
            scores = tuple(
                Score(episode.id, component, weight * value, track, number, turn)
                for component, track, value, number, turn, weight in record["scores"]
            )
            self.scored[episode.id] = Scored(episode, scores, float(record["reward"]))

    async def _learn(self, episode: Episode, reward: float) -> None:
        if self.plan.learns:
            await _learn(self.assembly, episode, reward)

    async def _scores(self, episodes: Sequence[Episode]) -> list[Score]:
        """The scores that all reward models give a group, checked: one bad number would poison every mean after it."""
        known = {episode.id for episode in episodes}
        scores: list[Score] = []
        for name, model in self.assembly.rewards.items():
            with blamed(f'reward model "{name}"'):
                found = list(await model.score(episodes))
            for score in found:
                wrong = ""
                if score.episode not in known:
                    wrong = f'scored an episode "{score.episode}" that it was not given'
                elif not isinstance(score.value, Real) or not math.isfinite(score.value):
                    wrong = f'gave {score.value} for episode {score.episode} as "{score.component}"'
                elif self.sources.setdefault(score.component, name) != name:
                    wrong = f'and "{self.sources[score.component]}" both give a component "{score.component}"'
                if wrong:
                    raise PluginError(
                        f'the reward model "{name}" {wrong}',
                        fix="a score is a finite number for an episode; fix the reward model, or leave it out",
                    )
            scores += found
        return scores

    def _reward(self, episode: Episode, scores: Sequence[Score]) -> float:
        """The weighted sum of the scores; scores of rounds are summed with the weights of their round.

        A component has the weight of the reward model that gave it.
        """
        if not self.assembly.rewards:
            return episode.utility
        weights = {component: self.assembly.weights[name] for component, name in self.sources.items()}
        by_round = sorted(scores, key=lambda score: score.round or 0)
        return math.fsum(
            mix(list(some), weights, self._progress(episode, number))
            for number, some in groupby(by_round, key=lambda score: score.round or 0)
        )

    def _weight(self, episode: Episode, score: Score) -> float:
        """How much a score counts; an optimizer is given values multiplied by it."""
        return self.assembly.weights[self.sources[score.component]](self._progress(episode, score.round or 0))

    def _progress(self, episode: Episode, number: int) -> Progress:
        return replace(self.plan.progress, round=number, rounds=episode.rounds)


async def _learn(assembly: Assembly, episode: Episode, reward: float) -> None:
    for memory, choice in zip(assembly.memories, assembly.spec.memories, strict=True):
        with blamed(f'memory "{choice.name}", learning from episode {episode.id},'):
            await memory.learn(episode, reward)


def checked_figure(value: object, name: str, episode: Episode, *, or_nan: bool = False) -> float:
    """The value as a number that can be written down; NaN says "not measured", and is left out of every mean."""
    if isinstance(value, Real) and (math.isfinite(value) or (or_nan and math.isnan(value))):
        return float(value)
    raise PluginError(
        f'the environment "{episode.environment}" gave {value!r} as "{name}" of episode {episode.id}',
        fix="a figure of an outcome is a finite number, or NaN where it was not measured; fix the environment",
    )


async def _side_by_side(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all jobs at once; the first that fails stops the others, and its error is raised."""
    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job)
    except BaseExceptionGroup as errors:
        failed = _first(errors)
    if failed is not None:  # raised out here: neither the group nor `from None` may hide where it came from
        raise failed


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to tell of several that came together."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
