"""Plays the tasks of a plan concurrently. Episodes are stored when they end, and groups scored when complete.

A reported episode is on disk, and an episode on disk is not played again. Scoring and learning use what was written, so
a resumed run has the same result as an uninterrupted one.

If a memory learns, episodes are played in batches of `concurrency`. All episodes of a batch see the memory as it was
before the batch, and it then learns from them in the order of the tasks, so the order in which they end doesn't matter.
After resuming, the memory receives all concluded episodes again in the same order.

A failure that another try may mend (a server that is down) is retried. Every other failure of an episode or of its
scoring leaves the episode out at once, in failed.jsonl, and the rest of its group is scored without it. Wrong settings
and a full disk are no failures of an episode: they end the run. If a run has stopped because too many failed, the
resumed run plays these again: the cause may be gone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from ..episode import Episode, Task, Turn, Usage
from ..errors import (
    AgentfwError,
    BudgetSpentError,
    EndpointError,
    MissingExtraError,
    PluginError,
    QuotaEndedError,
    RequestRefusedError,
    StorageError,
    UsageError,
)
from ..optimizer import Scored
from ..policy import Policy
from ..scores import Score
from ..seeds import Seeds
from .assembly import Assembly, shared_component
from .observers import Observer
from .records.journal import Journal
from .records.play_records import Records, reasons
from .spec.run_spec import SamplingSettings
from .spec.weights import Progress


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played, by whom, and how the results are used."""

    tasks: Sequence[Task]
    policy: Policy
    sampling: SamplingSettings
    seeds: Seeds
    """Parent of the sampling seeds: the seed of each episode is derived from it by the episode's id."""
    progress: Progress = field(default_factory=Progress)
    """The training progress, which the weights of rewards may depend on."""
    learns: bool = True
    """Whether the memories learn from the episodes."""
    retains: bool = False
    """Whether scored episodes are kept in memory, for an optimizer."""


Found = TypeVar("Found")

_FATAL = (UsageError, StorageError, MissingExtraError, QuotaEndedError, BudgetSpentError)
"""Errors that no other episode can be spared."""
_PAUSE = 0.5  # seconds before the first repetition. Each further pause is twice as long


def _grouped(tasks: Sequence[Task]) -> list[list[Task]]:
    """The tasks in groups: those that carry the number of their group, else the samples of one task."""
    by_group = groupby(tasks, key=lambda task: (task.group, task.index if task.group is None else 0))
    return [list(group) for _, group in by_group]


class Play:
    def __init__(
        self, assembly: Assembly, plan: Plan, records: Records, episodes: Journal, metrics: Journal, observer: Observer
    ) -> None:
        self.assembly, self.spec, self.plan = assembly, assembly.spec, plan
        self.records, self.episodes, self.metrics, self.observer = records, episodes, metrics, observer
        self.groups = _grouped(plan.tasks)
        self.concluded: set[str] = set()
        self.played: dict[str, Episode] = {}  # episodes on disk whose groups aren't concluded: others needn't be kept
        self.sources: dict[str, str] = {}  # the reward model that each component came from
        self.scored: dict[str, Scored] = {}  # the concluded episodes, if the plan retains them
        self.failures: dict[str, Mapping[str, Any]] = {str(line["episode"]): line for line in records.failed()}
        """The episodes that were left out, with their lines of failed.jsonl."""
        self._errors: list[AgentfwError] = []
        self._replaceable = max(map(len, self.groups), default=0) if plan.retains and self.spec.max_failed else 0
        """Number of episodes that are scored together, where another group can take their place."""
        self.room = asyncio.Semaphore(self.spec.concurrency)
        self._complaint: Exception | None = None  # of an observer or a hook, which concerns the run and no episode

    @property
    def progress(self) -> tuple[int, int]:
        tasks = [task.id for group in self.groups for task in group]
        return len(tasks), sum(name in self.concluded or name in self.failures for name in tasks)

    def extend(self, tasks: Sequence[Task]) -> None:
        self.groups += _grouped(tasks)

    async def recover(self) -> None:
        """Restore the state of an earlier execution. The memories learn its episodes again, in the original order."""
        self.concluded = {str(record["episode"]) for record in self.records.concluded()}
        if self._too_many_failed():  # an earlier execution has stopped at these
            self._append_failed({"retried": list(self.failures)})
            self.failures = {}
        finished = {task.id for group in self.groups if self._is_concluded(group) for task in group}
        for episode, line in self.records.replay():
            # Also those of further groups, which are asked for later.
            if episode.id not in finished and episode.id not in self.failures:
                self.played[episode.id] = episode
            if line is None:
                self.assembly.spending.count(episode.usage)  # what was scored is counted by its line
            else:
                if self.plan.learns:
                    await self.assembly.learn(episode, float(line["reward"]))
                self._retain(episode, line)

    async def all(self) -> None:
        if not (self.plan.learns and self.assembly.memories):

            async def one(group: Sequence[Task]) -> None:
                await side_by_side(self._episode(task) for task in group)
                await self._conclude(group)

            await side_by_side(map(one, self.groups))
            return
        size = max(1, self.spec.concurrency // len(self.groups[0]))
        for first in range(0, len(self.groups), size):
            batch = self.groups[first : first + size]
            await side_by_side(self._episode(task) for group in batch for task in group)
            for group in batch:
                await self._conclude(group)

    async def take(self, episode: Episode) -> None:
        """Store an episode that was played elsewhere, and score it as a group of its own."""
        if episode.id not in self.played:
            self.played[episode.id] = Episode.from_record(await self.store(episode))
            self.observer.played(self.played[episode.id])
        await self._conclude([episode.task])

    def scored_groups(self) -> list[list[Scored]]:
        """The groups for an optimizer, in the order of the tasks. A group that was left out altogether is missing."""
        groups = [[self.scored[task.id] for task in group if task.id in self.scored] for group in self.groups]
        return [group for group in groups if group]

    async def _episode(self, task: Task) -> None:
        """Play one episode, unless it is already on disk."""
        if task.id in self.played or task.id in self.concluded or task.id in self.failures:
            return
        async with self.room:
            # A policy that is a program never waits. Without this, the run could not be interrupted.
            await asyncio.sleep(0)
            sampling = self.plan.sampling.sampling(self.plan.seeds.integer(task.id))
            play = partial(self.assembly.play, task, self.plan.policy, sampling, self._turned)
            try:
                record = await self.store(await self._retried(play))
            except AgentfwError as error:
                self.leave_out([task.id], "play", error)
                return
        # Scoring and learning use what a resumed run would read: a tuple becomes a list, for example.
        self.played[task.id] = Episode.from_record(record)
        self.observer.played(self.played[task.id])

    async def store(self, episode: Episode) -> dict[str, Any]:
        """Write an episode as hooks want it recorded. Returns its record."""
        try:
            if self.assembly.decisions.record is not None:
                episode = self.assembly.decisions.record(episode)
        except AgentfwError as error:
            self._complaint = error
            raise
        try:
            return await self.episodes.commit(episode.to_record())
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"episode {episode.id} can't be stored: {error}",
                fix="fix the environment: observations and calls must consist of text, numbers, lists and dicts",
            ) from error

    def _turned(self, episode: Episode, turn: Turn) -> None:
        try:
            self.observer.turned(episode, turn)
        except Exception as error:
            self._complaint = error
            raise

    def leave_out(self, episodes: Sequence[str], stage: str, error: AgentfwError) -> None:
        """Leave failed episodes out. Raises if the error concerns all episodes, or if too many have failed."""
        if self._complaint is not None:
            raise self._complaint
        if isinstance(error, _FATAL):
            raise error
        self._errors.append(error)
        for episode in episodes:
            line = {"episode": episode, "stage": stage, "error": type(error).__name__, "reason": error.message}
            self.failures[episode] = self._append_failed(line)
        if self._too_many_failed():
            found, planned = reasons(self.failures.values()), len(self.plan.tasks)
            if len(found) == 1:
                raise self._errors[0]
            told = "; ".join(f"{count} x {reason}" for reason, count in found.items())
            limit = f"max_failed is {self.spec.max_failed:g}"
            text = f"{len(self.failures)} of {planned} episodes failed, and {limit}: {told}"
            stopped = AgentfwError(text, fix=error.fix)
            stopped.exit_code = error.exit_code
            raise stopped
        for episode in episodes:
            self.played.pop(episode, None)
        self.observer.left_out(episodes, error, self.progress[1])

    def _too_many_failed(self) -> bool:
        failed, planned = len(self.failures), len(self.plan.tasks)
        if not planned:  # sessions come from outside: there is nothing to stop
            return False
        # A fault that all episodes have must not wait for its share of a long run: the first ones are enough.
        first = not self.concluded and failed >= max(2, self.spec.concurrency)
        # One NaN leaves out a whole group. Of few groups that is a large share, and says little about the others.
        scored = sum(line["stage"] == "score" for line in self.failures.values())
        spared = min(self._replaceable, scored) if failed < planned else 0
        return first or failed - spared > self.spec.max_failed * planned

    def _append_failed(self, line: dict[str, Any]) -> dict[str, Any]:
        # Opened for each line: most runs have none, and then there is no file.
        with self.records.journal("failed") as journal:
            return journal.append(line)

    async def _retried(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """Do the work, and repeat it when a server fails."""
        for attempt in range(self.spec.retries):
            try:
                return await work()
            except (RequestRefusedError, QuotaEndedError):
                raise
            except EndpointError:
                await asyncio.sleep(_PAUSE * 2**attempt)
        return await work()

    def _is_concluded(self, group: Sequence[Task]) -> bool:
        return all(task.id in self.concluded or task.id in self.failures for task in group)

    async def _conclude(self, group: Sequence[Task]) -> None:
        """Score a group, pass it to the memories, and write its metrics. This can be repeated safely."""
        if self._is_concluded(group):
            return
        there = [task.id for task in group if task.id not in self.failures]
        episodes = [self.played[name] for name in there]
        scores: list[Score] = []
        try:
            for reward in self.assembly.rewards:
                for score in await self._retried(partial(self.assembly.score, reward, episodes)):
                    source = self.sources.setdefault(score.component, reward)
                    if source != reward:
                        raise shared_component(score.component, source, reward)
                    scores.append(score)
        except AgentfwError as error:
            self.leave_out([name for name in there if name not in self.concluded], "score", error)
            return
        self.observer.scored(scores)
        for name, episode in zip(there, episodes, strict=True):
            if name not in self.concluded:
                await self._account(episode, [score for score in scores if score.episode == name])
        for name in there:
            del self.played[name]

    async def _account(self, episode: Episode, scores: Sequence[Score]) -> None:
        outcome = episode.outcome | {score.component: float(score.value) for score in scores if not score.counts}
        judged = Usage.total(score.usage for score in scores)
        scores = [score for score in scores if score.counts]
        # The weight of a reward model at the score's round. Optimizers receive values multiplied by it.
        rounds: dict[int | None, list[float]] = {score.round: [] for score in scores}
        progress = {number: replace(self.plan.progress, round=number or 0, rounds=episode.rounds) for number in rounds}
        weights = [self.assembly.weights[self.sources[score.component]](progress[score.round]) for score in scores]
        # The weighted sum of the scores: that of the rounds, each of which is the sum of its components.
        for score, weight in zip(scores, weights, strict=True):
            rounds[score.round].append(weight * score.value)
        reward = math.fsum(map(math.fsum, rounds.values())) if self.assembly.rewards else episode.utility
        if self.plan.learns:
            await self.assembly.learn(episode, reward)
        record: dict[str, Any] = {
            "episode": episode.id,
            "task": f"{episode.task.user}/{episode.task.seed}/{episode.task.index}/{episode.task.sample}",
            "user": episode.task.user,
            "reward": reward,
            "unrated": bool(self.assembly.rewards) and not scores,
            "utility": episode.utility,
            "outcome": outcome,
            "headline_by_round": [
                [measure.round, measure.value]
                for measure in episode.measures
                if measure.round and measure.name == self.assembly.environment.headline
            ],
            "turns": len(episode.turns),
            "tokens": sum(turn.count for turn in episode.turns),
            "usage": asdict(episode.usage),
            "judged": asdict(judged),
            "failures": sum(len(turn.failures) for turn in episode.turns),
            "tool_calls": sum(len(turn.calls) for turn in episode.turns),
            "tool_failures": len(episode.failed_calls),
            "failed_requests": len(episode.failed_requests),
            "recalled": _turns_with_recollections(episode),
            "finish": episode.finish,
            "scores": [
                [each.component, each.track, float(each.value), each.round, each.turn, weight]
                for each, weight in zip(scores, weights, strict=True)
            ],
            "scored_by": {each.component: self.sources[each.component] for each in scores},
        }
        record = await self.metrics.commit(record)
        self.concluded.add(episode.id)
        self._retain(episode, record)
        self.observer.concluded(episode, record, len(self.concluded) + len(self.failures))

    def _retain(self, episode: Episode, record: dict[str, Any]) -> None:
        if self.plan.retains:
            scores = tuple(
                Score(episode.id, component, weight * value, track, number, turn)
                for component, track, value, number, turn, weight in record["scores"]
            )
            self.scored[episode.id] = Scored(episode, scores, float(record["reward"]), bool(record.get("unrated")))


async def side_by_side(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all jobs concurrently. The first failure cancels the others, and its error is raised."""
    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job)
    except BaseExceptionGroup as errors:
        failed = errors
        while isinstance(failed, BaseExceptionGroup):
            failed = failed.exceptions[0]
    if failed is not None:  # raised here, so that neither the group nor `from None` hides its cause
        raise failed


def _turns_with_recollections(episode: Episode) -> int:
    """Number of turns for which something was recalled. In a session, that is a message which later turns are shown."""
    recalled = [event for event in episode.events if (event.kind, event.name) == ("memory", "recalled")]
    places = {event.data["message"] for event in recalled if "message" in event.data}
    moments = {(event.time, event.seat) for event in recalled if "message" not in event.data}
    return len(moments) + sum(not places.isdisjoint(turn.shown) for turn in episode.turns)
