"""A run: episodes of one spec, played, scored, learned from and written down, many at once.

The one rule: an episode that was reported is on disk. A run that was killed at any moment goes on with the episodes that are
missing, and ends with the same ones as a run that was never disturbed.

    run = Run.create(spec, host, Path("runs"))
    summary = asyncio.run(run.execute())

Episodes are played side by side. Where a memory learns, they are played in batches of `concurrency`: all of a batch see the
memory as it was before the batch, and it learns from them in the order of the tasks. So the order in which they happen to
end changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from .assembly import Assembly, assemble, resolve
from .episode import Episode, Task, Turn
from .errors import AgentfwError, PluginError
from .host import Host
from .journal import Journal, write_whole
from .run_folder import RunFolder
from .runspec import RunSpec, parse_spec
from .scores import Progress, Score, mix
from .summary import Summary, summarize

__all__ = ["Run", "Watcher"]


class Watcher:
    """Whoever wants to see a run while it goes on. Every method may be left as it is."""

    def started(self, run: Run, total: int, done: int) -> None: ...

    def turned(self, episode: Episode, turn: Turn) -> None: ...

    def ended(self, episode: Episode, reward: float, done: int) -> None: ...

    def finished(self, summary: Summary) -> None: ...


class Run:
    """One run and its folder."""

    def __init__(self, folder: RunFolder, spec: RunSpec, host: Host) -> None:
        self.folder, self.spec, self.host = folder, spec, host

    @property
    def id(self) -> str:
        return self.folder.id

    @classmethod
    def create(cls, spec: RunSpec, host: Host, root: Path) -> Run:
        """A new run. Everything that can be wrong with the spec is told before the folder is made."""
        from . import __version__

        resolved, sources = resolve(spec, host)
        environment = assemble(resolved, host).environment()
        about = {
            "agentfw": __version__,
            "headline": environment.headline,
            "lower_is_better": environment.lower_is_better,
            "spec": resolved.model_dump(mode="json"),
            "components": sources,
            "plugins": {
                record.name: f"{record.distribution}=={record.version}"
                for record in host.plugins
                if record.state == "active"
            },
        }
        return cls(RunFolder.create(root, spec.environment.name, about), resolved, host)

    @classmethod
    def open(cls, folder: RunFolder, host: Host) -> Run:
        """A run that is there already; a plugin that is missing or has changed since is told."""
        spec = parse_spec(folder.about["spec"], f"{folder.path}/run.json")
        resolved, sources = resolve(spec, host)
        for component, source in folder.about.get("components", {}).items():
            if sources.get(component) != source:
                host.notes.append(f"{component} came from {source} and comes from {sources.get(component)} now")
        return cls(folder, resolved, host)

    async def execute(self, watcher: Watcher | None = None) -> Summary:
        """Play what is missing, and sum up."""
        self.folder.lock()
        try:
            return await self._execute(watcher or Watcher())
        finally:
            self.folder.unlock()

    async def _execute(self, watcher: Watcher) -> Summary:
        assembly = assemble(self.spec, self.host)
        began = time.monotonic()
        try:
            await assembly.open()
            tasks = self._tasks(assembly)
            with self.folder.journal("episodes") as episodes, self.folder.journal("metrics") as metrics:
                played = {episode.id: episode for episode in self.folder.episodes()}
                concluded = {str(record["episode"]) for record in metrics.records()}
                for tracker in assembly.trackers:
                    tracker.begin(self.id, self.folder.path, self.spec.model_dump(mode="json"))
                self.host.call("agentfw_run_started", run=self)
                watcher.started(self, len(tasks), len(concluded))
                work = _Work(self, assembly, watcher, episodes, metrics, played, concluded)
                await work.play(tasks)
            summary = summarize(self.folder, time.monotonic() - began)
            write_whole(self.folder.path / "summary.json", json.dumps(summary.to_record(), indent=2) + "\n")
            for tracker in assembly.trackers:
                tracker.finish(summary.means())
            self.host.call("agentfw_run_finished", run=self, summary=summary)
            watcher.finished(summary)
            return summary
        finally:
            await assembly.close()

    def _tasks(self, assembly: Assembly) -> list[Task]:
        from dataclasses import replace

        spec = self.spec
        tasks = assembly.environment().tasks(spec.episodes, spec.seed, spec.split)
        return [replace(task, sample=sample) for task in tasks for sample in range(spec.samples)]


class _Work:
    """What one execution has in hand."""

    def __init__(
        self,
        run: Run,
        assembly: Assembly,
        watcher: Watcher,
        episodes: Journal,
        metrics: Journal,
        played: dict[str, Episode],
        concluded: set[str],
    ) -> None:
        self.run, self.assembly, self.watcher = run, assembly, watcher
        self.episodes, self.metrics = episodes, metrics
        self.played, self.concluded = played, concluded
        self.room = asyncio.Semaphore(run.spec.concurrency)

    async def play(self, tasks: Sequence[Task]) -> None:
        groups = [list(group) for _, group in groupby(tasks, key=lambda task: task.index)]
        if not self.assembly.memories:
            await self._side_by_side(self._group(group) for group in groups)
            return
        size = max(1, self.run.spec.concurrency // self.run.spec.samples)
        for first in range(0, len(groups), size):
            batch = groups[first : first + size]
            await self._side_by_side(self._episode(task) for group in batch for task in group)
            for group in batch:
                await self._conclude(group)

    async def _side_by_side(self, jobs: Iterable[Any]) -> None:
        """All at once; the first that fails stops the others, and its error is the one that is told."""
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(job)
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _group(self, group: Sequence[Task]) -> None:
        await asyncio.gather(*(self._episode(task) for task in group))
        await self._conclude(group)

    async def _episode(self, task: Task) -> None:
        """Play one episode, unless it is on disk already."""
        if task.id in self.played:
            return
        async with self.room:
            episode = await self._engage(task)
        self.episodes.append(episode.to_record())
        self.played[task.id] = episode
        self.run.host.call("agentfw_episode_done", run=self.run, episode=episode)

    async def _engage(self, task: Task) -> Episode:
        def watch(episode: Episode, turn: Turn) -> None:
            self.run.host.call("agentfw_turn", run=self.run, episode_id=episode.id, turn=turn)
            self.watcher.turned(episode, turn)

        try:
            episode = await self.assembly.engagement(task, watch).run(task)
        except AgentfwError:
            raise
        except Exception as error:
            names = [f"{choice.name}" for choice in (self.run.spec.environment, self.run.spec.policy, *self.run.spec.memories)]
            raise PluginError(
                f"episode {task.id} of {' + '.join(names)} failed: {type(error).__name__}: {error}",
                mend=f"--debug shows where; mend the plugin, then: agentfw runs resume {self.run.id}",
            ) from error
        episode.environment = self.run.spec.environment.name
        return episode

    async def _conclude(self, group: Sequence[Task]) -> None:
        """Score a group, let the memories learn, and write its figures down. Done twice, it is as if done once."""
        if all(task.id in self.concluded for task in group):
            return
        episodes = [self.played[task.id] for task in group]
        scores: list[Score] = []
        for name, reward in self.assembly.rewards.items():
            found = await reward.score(episodes)
            scores += [_checked(score, name) for score in found]
        self.run.host.call("agentfw_scored", run=self.run, scores=scores)
        for episode in episodes:
            if episode.id in self.concluded:
                continue
            own = [score for score in scores if score.episode == episode.id]
            reward_of_all = self._reward(episode, own)
            for memory in self.assembly.memories:
                await memory.learn(episode, reward_of_all)
            record = {
                "episode": episode.id,
                "task": f"{episode.task.user}/{episode.task.seed}/{episode.task.sample}",
                "user": episode.task.user,
                "reward": reward_of_all,
                "utility": episode.utility,
                "turns": len(episode.turns),
                "tokens": sum(turn.count for turn in episode.turns),
                "failures": sum(len(turn.failures) for turn in episode.turns),
                "finish": episode.finish,
                "outcome": episode.outcome,
                "scores": [[score.component, score.track, score.value, score.round, score.turn] for score in own],
            }
            self.metrics.append(record)
            self.concluded.add(episode.id)
            step = episode.task.index * self.run.spec.samples + episode.task.sample
            for tracker in self.assembly.trackers:
                tracker.log(step, {"reward": reward_of_all, "utility": episode.utility, **episode.outcome})
            self.watcher.ended(episode, reward_of_all, len(self.concluded))

    def _reward(self, episode: Episode, scores: Sequence[Score]) -> float:
        """The weighted sum of what the components said; scores of rounds are summed with the weights of their round."""
        if not self.assembly.rewards:
            return episode.utility
        by_round = sorted(scores, key=lambda score: score.round or 0)
        return math.fsum(
            mix(list(some), self.assembly.weights, Progress(round=number, rounds=episode.rounds))
            for number, some in groupby(by_round, key=lambda score: score.round or 0)
        )


def _checked(score: Score, component: str) -> Score:
    """A score that is no number would poison every mean and every update after it."""
    if not math.isfinite(score.value):
        raise PluginError(
            f'the reward model "{component}" gave {score.value} for episode {score.episode}',
            mend="a score is a finite number; mend the reward model, or leave it out",
        )
    return score


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to tell of several that came together."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        if not isinstance(error, asyncio.CancelledError):
            return error
    return errors.exceptions[0]
