"""Executes a run: play a plan, learn from it if there is an optimizer, repeat.

Each step can be repeated: episodes that are on disk are not played again, and an update is not complete until the state
file says so. Two tasks share the work of a training: one plays rollouts, the other learns from them, publishes and
evaluates. With `staleness` 0 they take turns. With S, the first is up to S updates ahead of the second.

The tasks of each update depend only on the seed and the number of the update, so a resumed training doesn't need to
store a position in the data.
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..episode import Task
from ..errors import UsageError
from ..learner import Update
from ..optimizer import Scored
from ..seeds import Seeds
from .assembly import Assembly
from .learning import Learning, TurnChecks
from .observers import Observer, combined_observer
from .play import Plan, Play, side_by_side
from .records.folder import RunFolder
from .records.journal import make_folder, sync, write_whole
from .records.play_records import Records, kept_updates, marks_of, read_state, require_whole
from .records.summary import intervals, means
from .results.run_charts import call_in_words
from .spec.weights import Progress

_ADDED = 1_000  # blocks of samples that each update which was added has for itself: further groups take few of them
_LONGEST = 600  # maximum number of characters of an answer; the episode has the whole


def sampled_answers(groups: Sequence[Sequence[Scored]]) -> list[dict[str, Any]]:
    """The last answers of the best, the median and the worst episode."""
    rated = [scored for group in groups for scored in group if not scored.unrated]
    order = sorted(rated, key=lambda scored: -scored.reward)
    if not order:
        return []
    samples = []
    for which, one in {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}.items():
        said = next((turn for turn in reversed(one.episode.turns) if turn.text or turn.calls), None)
        text = (said.text.strip() or "\n".join(map(call_in_words, said.calls))) if said else ""
        text = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
        samples.append({"which": which, "episode": one.episode.id, "reward": one.reward, "answer": text})
    return samples


@dataclass(frozen=True, slots=True)
class Rollouts:
    groups: list[list[Scored]]
    figures: dict[str, float]
    speed: dict[str, float]
    seconds: float


class Execution:
    """One execution of a run, from where the last one ended."""

    def __init__(self, folder: RunFolder, assembly: Assembly, observer: Observer) -> None:
        self.folder, self.assembly, self.observer = folder, assembly, observer
        self.spec = assembly.spec
        self.state = read_state(folder.path)
        require_whole(folder.path, self.state)
        self.planned = folder.updates_at_first if self.spec.planned_updates else 0
        """The updates of the first plan. Those that were added later repeat its tasks, with its last weights."""
        self.seeds = Seeds(self.spec.seed).child("policy")
        self.seconds: dict[str, float] = {}  # duration of each phase since the last completed update
        self.versions: dict[int, str] = {}  # the policy's version after each update, in order
        self._room = asyncio.Semaphore(self.spec.staleness)  # rollouts to begin, and one when the learner is ready
        self._measured = asyncio.Event()  # set when the evaluation that a training begins with is complete
        self._played: asyncio.Queue[Rollouts] = asyncio.Queue()

    async def finish(self) -> None:
        learning = self.assembly.learning
        if learning is not None:
            await self._begin(learning)
            await side_by_side([self._play_ahead(learning), self._learn(learning)])
            return
        await self._evaluate()
        if self.spec.memories_learn:
            # Let the reward models write what they have learned, for runs to come.
            for name, model in self.assembly.rewards.items():
                home = self.folder.path / "rewards" / name
                unfinished = home.with_name(f".{name}")
                shutil.rmtree(unfinished, ignore_errors=True)  # remains of an execution that was killed
                if not home.exists() and await model.write_learned(unfinished):
                    sync(unfinished)
                    unfinished.rename(home)

    async def _play_ahead(self, learning: Learning) -> None:
        """Play the evaluation that is due, and the rollouts of all updates that are left."""
        await self._evaluate()
        self._measured.set()
        for number in range(self.state.update + 1, self.spec.updates + 1):
            await self._room.acquire()
            self._played.put_nowait(await self._rollouts(number, learning))

    async def _learn(self, learning: Learning) -> None:
        """Make all updates that are left, and evaluate in between."""
        await learning.opened()  # an error of the learner doesn't wait for the evaluation
        await self._measured.wait()
        await learning.proof.begin(self.folder.evaluation(0))
        self._room.release()
        while self.state.update < self.spec.updates:
            began = time.monotonic()
            rollouts = await self._played.get()
            if self.spec.staleness:
                self.seconds["wait"] = time.monotonic() - began
            await self._update(learning, rollouts)
            await self._evaluate()
            self._room.release()

    async def _begin(self, learning: Learning) -> None:
        start = await learning.begin(self.folder.path / "learner", self.state, self._home(0))
        if not self.state.update and start is not None:
            self.state = replace(self.state, version=start.version, adapter=self._place(start))
        self.versions = {0: "" if start is None else start.version}
        if not self.state.update:
            return
        if len(self.folder.updates()) < self.state.update:
            self._write(dict(self.state.line))
        self.versions |= {int(line["update"]): str(line["version"]) for line in self.folder.updates()}
        self._forget()
        if self.spec.memories_learn:
            for number in range(1, self.state.update + 1):
                for episode, record in self.folder.rollouts(number).replay():
                    if record is not None:
                        await self.assembly.learn(episode, float(record["reward"]))
        await learning.proof.begin(self.folder.evaluation(0))
        if self.state.version:
            await learning.publish(Update(self.state.version, self.folder.path / self.state.adapter))

    async def _update(self, learning: Learning, rollouts: Rollouts) -> None:
        """Learn, publish. The update is complete when the state is on disk."""
        number, groups = self.state.update + 1, rollouts.groups
        self.seconds["play"] = rollouts.seconds
        with self._phase("learn", number):
            lesson = learning.weigh(groups)
            # Write what each turn was worth, beside the episodes. Nothing reads it but people and their programs.
            found: dict[str, list[tuple[int, float]]] = {}
            for one in lesson.advantages:
                found.setdefault(one.episode, []).append((one.turn, one.value))
            write_whole(self.folder.rollouts(number).path / "advantages.json", json.dumps(found))
            before, tell = self.state.version, self.observer.learns
            update = await learning.learn(number, lesson, self._home(number), before, tell)
        served: dict[str, float] = {}
        self.versions[number] = self.state.version if update is None else update.version
        if update is not None:
            with self._phase("publish", number):
                served = await learning.publish(update)
        # In these groups there is nothing to compare.
        rewards = [[scored.reward for scored in group if not scored.unrated] for group in groups]
        alike = sum(math.isclose(min(some), max(some)) for some in rewards if len(some) > 1)
        figures = rollouts.figures | {
            "groups": len(groups),
            "groups_alike": alike,
            "groups_learned": lesson.taught,
            "without_signal": 1 - lesson.taught / max(1, len(groups)),
        }
        line = {
            "update": number,
            "version": self.versions[number],
            "rollouts": figures,
            "optimizer": dict(lesson.metrics),
            "note": lesson.note,
            "learner": {} if update is None else dict(update.metrics),
            "served": served,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "samples": sampled_answers(groups),
            "speed": rollouts.speed,
        }
        # Record the update. From here on, it is complete.
        learner, optimizer = await learning.learner_does(learning.learner.state), learning.optimizer.state()
        state = replace(self.state, update=number, learner=learner, optimizer=optimizer, line=line)
        if update is not None:
            sync(home := self._home(number))
            files = await asyncio.to_thread(marks_of, self.folder.path, home.rglob("*"))
            state = replace(state, version=update.version, adapter=self._place(update), files=files)
        self.state = state
        self.state.write(self.folder.path)
        self.seconds = {}
        line = self._write(line)
        self._forget()
        self.observer.updated(line)

    def _write(self, line: dict[str, Any]) -> dict[str, Any]:
        with self.folder.journal("updates") as updates:
            return updates.append(line)

    def _forget(self) -> None:
        """Remove old versions that need not be kept."""
        versions = sorted(path for path in (self.folder.path / "learner").iterdir() if path.name.isdigit())
        # Also when taken up again: this may be where the last execution ended.
        # What training started from is needed whenever it is resumed.
        for old in [path for path in versions if 0 < int(path.name) <= self.state.update][: -self.spec.keep]:
            shutil.rmtree(old)
        for number in kept_updates(self.folder.path)[self.spec.keep :]:
            (self.folder.path / "states" / f"{number:05d}.json").unlink()

    async def _rollouts(self, number: int, learning: Learning) -> Rollouts:
        self.observer.phase("play", number)
        spec, tasks = self.spec, curriculum(self.assembly, self.planned)
        plan = Plan(
            tasks=tasks.planned(number, spec.samples),
            policy=learning.teacher or self.assembly.policy,
            sampling=spec.sampling,
            seeds=self.seeds.child("update", number),
            progress=Progress(update=min(number - 1, self.planned), updates=self.planned),
            learns=spec.memories_learn,
            retains=True,
        )

        def versions() -> list[str]:
            """Versions that may answer, newest first."""
            known = [version for update, version in self.versions.items() if update >= number - 1 - spec.staleness]
            return [""] if learning.teacher else known[::-1]

        checks = TurnChecks(spec, versions, needs_tokens=learning.needs_tokens)
        began = time.monotonic()

        def further(play: Play) -> list[Task]:
            missing = learning.optimizer.missing(play.scored_groups(), self.spec.tasks)
            return tasks.further(number, len(play.groups) - spec.tasks, missing, spec.samples)

        play = await self._play(plan, self.folder.rollouts(number), checks, further)
        seconds = time.monotonic() - began
        self.observer.phase_ended("play", number)
        speed = {"tokens_per_second": round(checks.tokens / seconds, 1), **plan.policy.metrics()}
        lines, groups = play.records.metrics(), play.scored_groups()
        counted = ("turns", "tokens", "failures", "tool_calls", "tool_failures")
        counts = {name: sum(int(line.get(name, 0)) for line in lines) for name in counted}
        counts["failed"] = len(play.failures)
        episodes = [scored for group in groups for scored in group]
        figures = means(lines)
        rated = sum(not scored.unrated for scored in episodes)
        for score in (score for scored in episodes for score in scored.scores):
            # The mean over the episodes. Together, the components are the reward.
            name = f"reward/{score.component}"
            figures[name] = figures.get(name, 0.0) + score.value / rated
        if answers := [turn for scored in episodes for turn in scored.episode.turns if turn.count]:
            figures["answer_tokens"] = math.fsum(turn.count for turn in answers) / len(answers)
            figures["answer_tokens_most"] = float(max(turn.count for turn in answers))
            figures["cut_off"] = sum(turn.finish == "length" for turn in answers) / len(answers)
        figures |= {"episodes": len(lines), **counts}
        if spec.staleness and not learning.teacher:
            # Mean number of updates by which the version of a turn was behind.
            newest = {version: update for update, version in self.versions.items()}
            turns = [turn for scored in episodes for turn in scored.episode.turns if turn.token_ids]
            behind = sum(number - 1 - newest.get(turn.version, 0) for turn in turns)
            figures["age"] = behind / max(1, len(turns))
        return Rollouts(groups, figures, speed, seconds)

    async def _evaluate(self) -> None:
        """Play the evaluation if it is due and not complete yet."""
        number, spec, updates = self.state.update, self.spec, self.spec.planned_updates
        if number % spec.evaluation.every and number != updates:
            return
        plan = Plan(
            tasks=in_groups(self.assembly.measured_tasks(), spec.measured[1]),
            policy=self.assembly.policy,
            sampling=spec.evaluation.sampling or spec.sampling,
            # Same random seed each time, and final weights of rewards: evaluations differ only in the policy.
            seeds=self.seeds.child("evaluation") if updates else self.seeds,
            progress=Progress(update=self.planned, updates=self.planned),
            learns=spec.memories_learn and not updates,
        )
        with self._phase("evaluate", number):
            checks = TurnChecks(spec, lambda: [self.state.version])
            play = await self._play(plan, self.folder.evaluation(number), checks)
        self.observer.evaluated(number, intervals(play.records.metrics()))

    async def _play(
        self, plan: Plan, records: Records, checks: TurnChecks, further: Callable[[Play], list[Task]] = lambda play: []
    ) -> Play:
        """Play what is missing of a plan, and what `further` asks for when its groups are scored."""
        make_folder(records.path)
        with records.journal("episodes") as episodes, records.journal("metrics") as metrics:
            play = Play(self.assembly, plan, records, episodes, metrics, combined_observer(checks, self.observer))
            await play.recover()
            self.observer.plays(*play.progress)
            await play.all()
            while tasks := further(play):
                play.extend(tasks)
                self.observer.plays(*play.progress)
                await play.all()
        return play

    def _place(self, update: Update) -> str:
        return update.adapter.resolve().relative_to(self.folder.path.resolve()).as_posix()

    def _home(self, number: int) -> Path:
        return self.folder.path / "learner" / f"{number:05d}"

    @contextmanager
    def _phase(self, name: str, number: int) -> Iterator[None]:
        self.observer.phase(name, number)
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
        self.observer.phase_ended(name, number)


def curriculum(assembly: Assembly, updates: int) -> Curriculum:
    """The tasks that a training of so many updates learns from."""
    spec = assembly.spec
    # The users of a query are spread over the tasks, so groups by query look at more of them.
    count = updates * spec.tasks * (spec.samples if spec.groups == "query" else 1)
    tasks, seeds = assembly.tasks(count, "train"), Seeds(spec.seed).child("curriculum")
    if spec.groups == "query":
        return QueryCurriculum(tasks, spec.tasks, seeds, samples=spec.samples, updates=updates)
    return Curriculum(tasks, spec.tasks, seeds, updates=updates)


def in_groups(tasks: Sequence[Task], samples: int, *, first: int = 0) -> list[Task]:
    """Each task `samples` times, side by side; the samples are numbered from `first`."""
    return [replace(task, sample=sample) for task in tasks for sample in range(first, first + samples)]


class Curriculum:
    """Passes over the tasks, each in its own random order. Tasks that don't fill an update are skipped in that pass."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds, *, updates: int) -> None:
        if len(tasks) < size:
            raise UsageError(
                f"an update needs {size} tasks, but the split has {len(tasks)}",
                fix=f"write {size - len(tasks)} more, or make an update smaller: --set tasks={len(tasks)}",
            )
        self.tasks, self.size, self.seeds, self.updates = tasks, size, seeds, updates
        self._updates_of_a_pass = len(tasks) // size

    def of(self, update: int) -> list[Task]:
        """The tasks of an update. Updates count from 1."""
        place = (update - 1) % self._updates_of_a_pass
        order = list(self.tasks)
        self.seeds.random("pass", self.pass_of(update)).shuffle(order)
        return sorted(order[place * self.size : (place + 1) * self.size], key=lambda task: task.index)

    def planned(self, update: int, samples: int) -> list[Task]:
        """The tasks of an update as they are played: each `samples` times.

        Tasks that are repeated in a later pass, or in an update that was added, get further samples. Episode ids stay
        unique, so that memories can tell the episodes apart.
        """
        block = self.pass_of(update) if update <= self.updates else update * _ADDED
        return in_groups(self.of(update), samples, first=block * samples)

    def pass_of(self, update: int) -> int:
        """The pass over the tasks that an update belongs to. Passes count from 0."""
        return (update - 1) // self._updates_of_a_pass

    def further(self, update: int, start: int, count: int, samples: int) -> list[Task]:
        """Groups in place of those that say nothing, from the `start`-th on: other tasks first, then any again.

        Their samples have numbers that no other episode of the training has.
        """
        planned = {task.index for task in self.of(update)}
        order = list(self.tasks)
        self.seeds.random("further", update).shuffle(order)
        order.sort(key=lambda task: task.index in planned)  # stable: the order among the others stays random
        block, step = update * _ADDED + 1, 1
        if update <= self.updates:
            block, step = self.pass_of(self.updates) + update, self.updates
        found: list[Task] = []
        for place in range(start, start + count):
            first = (block + step * (place // len(order))) * samples
            found += in_groups([order[place % len(order)]], samples, first=first)
        return found


class QueryCurriculum(Curriculum):
    """Passes over the queries, each in its own random order and with users of its own."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds, *, samples: int, updates: int) -> None:
        super().__init__(tasks, size, seeds, updates=updates)
        self.samples = samples
        self._by_query: dict[str, dict[str, list[Task]]] = {}  # the tasks of each query by user
        for task in tasks:
            if task.query:
                self._by_query.setdefault(task.query, {}).setdefault(task.user, []).append(task)
        self._queries = sorted(query for query, users in self._by_query.items() if len(users) >= samples)
        wanted = size // samples
        if len(self._queries) < wanted:
            raise UsageError(
                f"an update needs {wanted} queries that {samples} users have, but the first {len(tasks):,} tasks "
                f"have {len(self._queries)}",
                fix="--set groups=task, fewer tasks or samples, or an environment that names the query of its tasks",
            )

    def of(self, update: int) -> list[Task]:
        """The tasks of an update, group by group. They carry the number of their group."""
        generator = self.seeds.random("queries", update)
        tasks: list[Task] = []
        for group, query in enumerate(generator.sample(self._queries, self.size // self.samples)):
            users = generator.sample(sorted(self._by_query[query]), self.samples)
            tasks += [replace(generator.choice(self._by_query[query][user]), group=group) for user in users]
        return tasks

    def planned(self, update: int, samples: int) -> list[Task]:
        """The tasks of an update, each once. The number of the update keeps the ids of its episodes unique."""
        return [replace(task, sample=update) for task in self.of(update)]

    def further(self, update: int, start: int, count: int, samples: int) -> list[Task]:
        """Nothing: a group that says nothing isn't replaced by another query."""
        return []
