"""Playing tasks: many at once, each episode written down when it ends, each group scored when it is whole.

The one rule: an episode that was reported is on disk, and what is on disk is not played again. What is scored and
learned from is what was written, so a resumption does the same as the first time.

    play = Play(run, assembly, plan, episodes, metrics, audience)
    await play.recover(folder)
    await play.all()

A run plays one plan. A training plays one for each update and one for each evaluation.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..episode import Episode, Task, Turn
from ..errors import PluginError, RunFolderError
from ..optimizer import Scored
from ..policy import Policy
from ..scores import Progress, Score, mix
from ..seeds import Seeds
from .assembly import Assembly, blamed
from .journal import Journal
from .records import Records
from .spec import Choice, SamplingSettings

if TYPE_CHECKING:
    from ..training.training import Training
    from .run import Run

__all__ = ["Audience", "Plan", "Play", "checked_figure", "in_groups"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played, by whom, and what becomes of it."""

    tasks: Sequence[Task]
    policy: Policy
    player: Choice
    """Who the policy is, for errors."""
    sampling: SamplingSettings
    seeds: Seeds
    """Each episode's sampling begins with the integer of its id below this."""
    progress: Progress = field(default_factory=Progress)
    """How far training has come: weights may depend on it."""
    learns: bool = True
    """Whether the memories learn from the episodes."""
    retains: bool = False
    """Whether scored episodes are held, for an optimizer."""


def in_groups(tasks: Sequence[Task], samples: int) -> list[Task]:
    """Each task so many times; the samples of one stand side by side."""
    return [replace(task, sample=sample) for task in tasks for sample in range(samples)]


class Audience:
    """Whoever is told of a play. Every method may be left as it is."""

    def turned(self, episode: Episode, turn: Turn) -> None: ...

    def concluded(self, episode: Episode, record: dict[str, Any], done: int) -> None: ...


class Play:
    """What one plan has come to so far."""

    def __init__(
        self,
        run: Run | Training,
        assembly: Assembly,
        plan: Plan,
        episodes: Journal,
        metrics: Journal,
        audience: Audience,
    ) -> None:
        self.run, self.assembly, self.plan = run, assembly, plan
        self.episodes, self.metrics, self.audience = episodes, metrics, audience
        self.groups = [list(group) for _, group in groupby(plan.tasks, key=lambda task: task.index)]
        self.concluded: set[str] = set()
        self.played: dict[str, Episode] = {}
        """What is on disk of groups that aren't concluded; the others needn't be held."""
        self.sources: dict[str, str] = {}
        """Which reward model gave a component."""
        self.scored: dict[str, Scored] = {}
        """What is concluded, where the plan retains it."""
        self.room = asyncio.Semaphore(run.spec.concurrency)

    async def recover(self, records: Records) -> None:
        """Take up what an earlier execution left; the memories learn it again, in the order of the first time."""
        lines = {str(record["episode"]): record for record in records.concluded()}
        self.concluded = set(lines)
        unfinished = {task.id for group in self.groups if not self._is_concluded(group) for task in group}
        # Within a batch that order isn't the one in which the episodes ended: some are held until their turn comes.
        order, held = deque(lines), dict[str, Episode]()
        for episode in records.episodes():
            if episode.id in unfinished:
                self.played[episode.id] = episode
            held[episode.id] = episode
            while order and order[0] in held:
                name = order.popleft()
                await self._learn(held[name], float(lines[name]["reward"]))
                self._retain(held.pop(name), lines[name])
        if order:
            raise RunFolderError(
                f"{records.path}/episodes.jsonl lacks episode {order[0]}, and metrics.jsonl has it",
                fix="restore both from a copy, or start a new run",
            )

    async def all(self) -> None:
        """Play what is missing."""
        if not (self.plan.learns and self.assembly.memories):
            await _side_by_side(self._group(group) for group in self.groups)
            return
        size = max(1, self.run.spec.concurrency // len(self.groups[0]))
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
        self.run.host.call("agentfw_episode_done", run=self.run, episode=self.played[task.id])

    async def _engage(self, task: Task) -> Episode:
        def watch(episode: Episode, turn: Turn) -> None:
            self.run.host.call("agentfw_turn", run=self.run, episode_id=episode.id, turn=turn)
            self.audience.turned(episode, turn)

        spec, plan = self.run.spec, self.plan
        names = [choice.name for choice in (spec.environment, plan.player, *spec.memories)]
        sampling = plan.sampling.sampling(plan.seeds.integer(task.id))
        with blamed(f"episode {task.id} of {' + '.join(names)}"):
            episode = await self.assembly.engagement(plan.policy, sampling, watch).run(task)
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
        self.run.host.call("agentfw_scored", run=self.run, scores=scores)
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
                if measure.round and measure.name == self.run.folder.headline
            ],
            "turns": len(episode.turns),
            "tokens": sum(turn.count for turn in episode.turns),
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
        self.audience.concluded(episode, record, len(self.concluded))

    def _retain(self, episode: Episode, record: dict[str, Any]) -> None:
        if self.plan.retains:
            scores = tuple(
                Score(episode.id, component, weight * value, track, number, turn)
                for component, track, value, number, turn, weight in record["scores"]
            )
            self.scored[episode.id] = Scored(episode, scores, float(record["reward"]))

    async def _learn(self, episode: Episode, reward: float) -> None:
        if not self.plan.learns:
            return
        for memory, choice in zip(self.assembly.memories, self.run.spec.memories, strict=True):
            with blamed(f'memory "{choice.name}", learning from episode {episode.id},'):
                await memory.learn(episode, reward)

    async def _scores(self, episodes: Sequence[Episode]) -> list[Score]:
        """What all reward models say of a group, checked: one bad number would poison every mean after it."""
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
        """The weighted sum of what the components said; scores of rounds are summed with the weights of their round.

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
        """How much a score counts: what an optimizer is given is weighted by it."""
        return self.assembly.weights[self.sources[score.component]](self._progress(episode, score.round or 0))

    def _progress(self, episode: Episode, number: int) -> Progress:
        return replace(self.plan.progress, round=number, rounds=episode.rounds)


def checked_figure(value: object, name: str, episode: Episode, *, or_nan: bool = False) -> float:
    """The value as a number that can be written down; NaN says "not measured", and is left out of every mean."""
    if isinstance(value, Real) and (math.isfinite(value) or (or_nan and math.isnan(value))):
        return float(value)
    raise PluginError(
        f'the environment "{episode.environment}" gave {value!r} as "{name}" of episode {episode.id}',
        fix="a figure of an outcome is a finite number, or NaN where it was not measured; fix the environment",
    )


async def _side_by_side(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All at once; the first that fails stops the others, and its error is the one that is told."""
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
