"""A run: episodes of one spec, played, scored, learned from and written down, many at once.

The one rule: an episode that was reported is on disk. A run that was killed at any moment goes on with the episodes
that are missing, and ends with the same ones as a run that was never disturbed.

    run = Run.create(spec, host, Path("runs"))
    summary = asyncio.run(run.execute())

Episodes are played side by side. Where a memory learns, they are played in batches of `concurrency`: all of a batch see
the memory as it was before the batch, and it learns from them in the order of the tasks. So the order in which they
happen to end changes nothing. A run that goes on hands the memory everything once more, in the same order: one that
keeps its notes on disk has them, one that keeps them in the process gets them back.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from itertools import groupby
from numbers import Real
from pathlib import Path
from typing import Any

from ..episode import Episode, Task, Turn
from ..errors import PluginError, RunFolderError
from ..host import Host
from ..scores import Progress, Score, mix
from .assembly import Assembly, assemble, blamed, resolve
from .folder import RunFolder
from .journal import Journal, write_whole
from .spec import RunSpec, parse_spec
from .summary import Summary, summarize

__all__ = ["Run", "Watcher", "checked_figure"]


class Watcher:
    """Whoever wants to see a run while it goes on. Every method may be left as it is."""

    def started(self, run: Run, total: int, done: int) -> None: ...

    def turned(self, episode: Episode, turn: Turn) -> None: ...

    def ended(self, episode: Episode, reward: float, done: int) -> None: ...

    def finished(self, summary: Summary) -> None: ...


class Run:
    """One run and its folder."""

    def __init__(self, folder: RunFolder, spec: RunSpec, host: Host, assembly: Assembly | None = None) -> None:
        self.folder, self.spec, self.host = folder, spec, host
        self._assembly = assembly

    @property
    def id(self) -> str:
        return self.folder.id

    @classmethod
    def create(cls, spec: RunSpec, host: Host, root: Path) -> Run:
        """A new run. Everything that can be wrong with the spec is told before the folder is made."""
        from .. import __version__

        resolved, sources = resolve(spec, host)
        assembly = assemble(resolved, host)
        environment, tasks = assembly.environment(), assembly.tasks()
        with blamed(f'environment "{resolved.environment.name}"'):
            scene = environment.scene(tasks)
        about = {
            "agentfw": __version__,
            "headline": environment.headline,
            "lower_is_better": environment.lower_is_better,
            "columns": dict(environment.columns),
            "scene": scene,
            "total": len(tasks),
            "spec": resolved.model_dump(mode="json"),
            "components": sources,
            "plugins": {
                record.name: f"{record.distribution}=={record.version}"
                for record in host.plugins
                if record.state == "active"
            },
        }
        # What was made is what will run: a model isn't loaded twice.
        return cls(RunFolder.create(root, spec.environment.name, about), resolved, host, assembly)

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
        """Play what is missing, and sum up. A run that is done already is not begun again."""
        self.folder.lock()
        try:
            done = self.folder.summary()
            return Summary.from_record(done) if done else await self._execute(watcher or Watcher())
        finally:
            self.folder.unlock()

    async def _execute(self, watcher: Watcher) -> Summary:
        assembly, self._assembly = self._assembly or assemble(self.spec, self.host), None
        began = time.monotonic()
        try:
            await assembly.open(self.folder.path)
            with self.folder.journal("episodes") as episodes, self.folder.journal("metrics") as metrics:
                work = _Work(self, assembly, watcher, episodes, metrics)
                await work.recover()
                assembly.track("begin", self.id, self.folder.path, self.spec.model_dump(mode="json"))
                self.host.call("agentfw_run_started", run=self)
                watcher.started(self, len(work.tasks), len(work.concluded))
                await work.play()
            summary = summarize(self.folder, time.monotonic() - began, assembly.references())
            write_whole(self.folder.path / "summary.json", json.dumps(summary.to_record(), indent=2) + "\n")
            assembly.track("finish", summary.means())
            self.host.call("agentfw_run_finished", run=self, summary=summary)
            watcher.finished(summary)
            return summary
        finally:
            await assembly.close()


class _Work:
    """What one execution has in hand."""

    def __init__(self, run: Run, assembly: Assembly, watcher: Watcher, episodes: Journal, metrics: Journal) -> None:
        self.run, self.assembly, self.watcher = run, assembly, watcher
        self.episodes, self.metrics = episodes, metrics
        self.tasks = assembly.tasks()
        self.groups = [list(group) for _, group in groupby(self.tasks, key=lambda task: task.index)]
        self.concluded: set[str] = set()
        self.played: dict[str, Episode] = {}
        """What is on disk of groups that aren't concluded; the others needn't be held."""
        self.sources: dict[str, str] = {}
        """Which reward model gave a component."""
        self.room = asyncio.Semaphore(run.spec.concurrency)

    async def recover(self) -> None:
        """Take up what an earlier execution left; the memories learn it again, in the order of the first time."""
        folder = self.run.folder
        rewards = {str(record["episode"]): float(record["reward"]) for record in folder.concluded()}
        self.concluded = set(rewards)
        unfinished = {task.id for group in self.groups if not self._is_concluded(group) for task in group}
        # Within a batch that order isn't the one in which the episodes ended: some are held until their turn comes.
        order, held = deque(rewards), dict[str, Episode]()
        for episode in folder.episodes():
            if episode.id in unfinished:
                self.played[episode.id] = episode
            held[episode.id] = episode
            while order and order[0] in held:
                await self._learn(held.pop(order[0]), rewards[order.popleft()])
        if order:
            raise RunFolderError(
                f"{folder.path}/episodes.jsonl lacks episode {order[0]}, and metrics.jsonl has it",
                mend="restore both from a copy, or start a new run",
            )

    async def play(self) -> None:
        if not self.assembly.memories:
            await _side_by_side(self._group(group) for group in self.groups)
            return
        size = max(1, self.run.spec.concurrency // self.run.spec.samples)
        for first in range(0, len(self.groups), size):
            batch = self.groups[first : first + size]
            await _side_by_side(self._episode(task) for group in batch for task in group)
            for group in batch:
                await self._conclude(group)

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
                mend="observations and calls are made of text, numbers, lists and tables; mend the environment",
            ) from error
        # What is scored and learned from is what a resumed run would find: a tuple that was written is a list.
        self.played[task.id] = Episode.from_record(record)
        self.run.host.call("agentfw_episode_done", run=self.run, episode=self.played[task.id])

    async def _engage(self, task: Task) -> Episode:
        def watch(episode: Episode, turn: Turn) -> None:
            self.run.host.call("agentfw_turn", run=self.run, episode_id=episode.id, turn=turn)
            self.watcher.turned(episode, turn)

        spec = self.run.spec
        names = [choice.name for choice in (spec.environment, spec.policy, *spec.memories)]
        with blamed(f"episode {task.id} of {' + '.join(names)}"):
            episode = await self.assembly.engagement(task, watch).run(task)
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
        record = {
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
            "scores": [[each.component, each.track, float(each.value), each.round, each.turn] for each in scores],
        }
        self.metrics.append(record)
        self.concluded.add(episode.id)
        step = episode.task.index * self.run.spec.samples + episode.task.sample
        self.assembly.track("log", step, {"reward": reward, "utility": episode.utility, **outcome})
        self.watcher.ended(episode, reward, len(self.concluded))

    async def _learn(self, episode: Episode, reward: float) -> None:
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
                    wrong = f"gave {score.value} for episode {score.episode}"
                elif self.sources.setdefault(score.component, name) != name:
                    wrong = f'and "{self.sources[score.component]}" both give a component "{score.component}"'
                if wrong:
                    raise PluginError(
                        f'the reward model "{name}" {wrong}',
                        mend="a score is a finite number for an episode; mend the reward model, or leave it out",
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
            mix(list(some), weights, Progress(round=number, rounds=episode.rounds))
            for number, some in groupby(by_round, key=lambda score: score.round or 0)
        )


def checked_figure(value: object, name: str, episode: Episode, *, or_nan: bool = False) -> float:
    """The value as a number that can be written down; NaN says "not measured", and is left out of every mean."""
    if isinstance(value, Real) and (math.isfinite(value) or (or_nan and math.isnan(value))):
        return float(value)
    raise PluginError(
        f'the environment "{episode.environment}" gave {value!r} as "{name}" of episode {episode.id}',
        mend="a figure of an outcome is a finite number, or NaN where it was not measured; mend the environment",
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
