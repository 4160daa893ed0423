"""The steps of a training: play, weigh up, learn, publish, prove, evaluate.

The one rule: each step can be done again. Episodes that are on disk are not played a second time; a version that was
made and not yet counted is made anew, from the same state, of the same episodes, with the same result.

    loop = Loop(training, parts, updates, watcher)
    await loop.begin()
    while loop.state.update < spec.updates:
        await loop.update()

Memories serve a training, and do not learn from it: each episode begins with what the memory brought along, so that
the samples of a group, and the same evaluation before and after, differ by the policy alone. A memory that is to be
full is filled by a run first.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PluginError, UsageError
from ..learner import Batch, Update
from ..optimizer import Advantage, Scored
from ..runs.assembly import blamed
from ..runs.journal import Journal, make_folder
from ..runs.play import Audience, Plan, Play, in_groups
from ..runs.records import Records
from ..runs.summary import intervals
from ..scores import Progress
from ..seeds import Seeds
from .curriculum import curriculum
from .figures import finite, flat, means, size_of, sync
from .listening import Checker, Listener
from .parts import Parts, blamed_learner
from .proof import Proof
from .state import State

if TYPE_CHECKING:
    from .training import Training, TrainingWatcher

__all__ = ["Loop"]


class Loop:
    """What one execution of a training has in hand."""

    def __init__(self, training: Training, parts: Parts, updates: Journal, watcher: TrainingWatcher) -> None:
        self.training, self.parts, self.updates, self.watcher = training, parts, updates, watcher
        self.spec, self.folder = training.spec, training.folder
        self.state = State.read(self.folder.path)
        self.curriculum = curriculum(self.spec, parts.assembly)
        self.seeds = Seeds(self.spec.seed).child("policy")
        self.seconds: dict[str, float] = {}
        """What each phase took since the last update counted."""
        self.speed: dict[str, float] = {}
        self.proof = Proof(parts, self.spec)

    async def begin(self) -> None:
        """Take up what an earlier execution left."""
        home = self.folder.path / "learner"
        make_folder(home)
        with blamed_learner(self.spec, "opened"):
            self.parts.learner.open(home)
            if self.state.update:
                self.parts.learner.restore(self.state.learner)
        if not self.state.update:
            return
        with blamed(f'the optimizer "{self.spec.optimizer.name}"'):
            self.parts.optimizer.restore(self.state.optimizer)
        if len(self.folder.updates()) < self.state.update:
            self.updates.append(dict(self.state.line))
        self._forget()
        await self.proof.begin(self.folder.evaluation(0))
        if self.state.version:
            await self._publish(Update(self.state.version, self.folder.path / self.state.adapter))

    # -- one update ----------------------------------------------------------------------------------------------------

    async def update(self) -> None:
        """Play, learn, publish; it counts when the state is on disk."""
        number = self.state.update + 1
        with self._phase("play", number):
            groups, rollouts = await self._rollouts(number)
        with self._phase("learn", number):
            advantages = self._advantages(groups)
            # The optimizer leaves out groups by giving them no advantages. Advantages of zero matter to a KL penalty.
            different = any(each.value for some in advantages.values() for each in some)
            acts = different or self.parts.optimizer.loss().kl > 0
            learned = [group for group in groups if acts and any(advantages[one.episode.id] for one in group)]
            rewarded = any(scored.reward for group in groups for scored in group)
            # Rewards that come to nothing, and no memory in which they could count later: it will never be otherwise.
            if self.spec.samples == 1 and rewarded and not different and not self.parts.optimizer.state():
                raise UsageError(
                    f'the optimizer "{self.spec.optimizer.name}" has nothing to compare an episode with: samples is 1',
                    fix="set samples to 2 or more, or take parpo, which compares with the user's own history",
                )
            measured = finite(self.parts.optimizer.metrics(), f'the optimizer "{self.spec.optimizer.name}"')
            update = await self._learn(number, learned, advantages)
        served: dict[str, float] = {}
        if update is not None:
            with self._phase("publish", number):
                served = await self._publish(update)
        rollouts |= {
            "groups": len(groups),
            "groups_alike": sum(len(group) > 1 and len({each.reward for each in group}) == 1 for group in groups),
            "groups_learned": len(learned),
        }
        line = {
            "update": number,
            "version": self.state.version if update is None else update.version,
            "rollouts": rollouts,
            "optimizer": measured,
            "learner": {} if update is None else dict(update.metrics),
            "served": served,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "speed": self.speed,
        }
        self._count(number, update, line)

    def _count(self, number: int, update: Update | None, line: dict[str, Any]) -> None:
        """From here on the update has happened."""
        where = {"version": self.state.version, "adapter": self.state.adapter}
        if update is not None:
            sync(self._home(number))
            adapter = update.adapter.resolve().relative_to(self.folder.path.resolve())
            where = {"version": update.version, "adapter": adapter.as_posix()}
        learner, optimizer = self.parts.learner.state(), self.parts.optimizer.state()
        self.state = State(number, **where, learner=learner, optimizer=optimizer, line=line)
        self.state.write(self.folder.path)
        self.seconds = {}
        line = self.updates.append(line)
        self._forget()
        if update is not None:
            self.training.host.call(
                "agentfw_updated", run=self.training, version=update.version, metrics=line["learner"]
            )
        self.parts.assembly.track("log", number, flat(line))
        self.watcher.updated(line)

    def _forget(self) -> None:
        """Remove the versions that are too old to be kept."""
        versions = sorted(path for path in (self.folder.path / "learner").iterdir() if path.name.isdigit())
        # Also when taken up again: this may be where the last execution ended.
        for old in [path for path in versions if int(path.name) <= self.state.update][: -self.spec.keep]:
            shutil.rmtree(old)

    async def _rollouts(self, number: int) -> tuple[list[list[Scored]], dict[str, float]]:
        """The scored groups of an update, and their figures."""
        spec, teacher = self.spec, self.parts.teacher
        plan = Plan(
            tasks=in_groups(self.curriculum.of(number), spec.samples),
            policy=teacher or self.parts.policy,
            player=spec.teacher or spec.policy,
            sampling=spec.sampling,
            seeds=self.seeds.child("update", number),
            progress=Progress(update=number - 1, updates=spec.updates),
            learns=False,
            retains=True,
        )
        sampled = self.parts.optimizer.loss().name != "likelihood"
        listener = Listener(self.watcher) if teacher else self._checker(sampled=sampled)
        began = time.monotonic()
        play, records = await self._play(plan, self.folder.rollouts(number), listener)
        self.speed = {"tokens_per_second": round(listener.tokens / (time.monotonic() - began), 1)}
        lines = records.metrics()
        counts = {name: sum(int(line[name]) for line in lines) for name in ("turns", "tokens", "failures")}
        return play.scored_groups(), {**means(lines), "episodes": len(lines), **counts}

    def _checker(self, *, sampled: bool = False) -> Checker:
        return Checker(self.watcher, self.spec, self.state.version, sampled=sampled)

    async def _play(self, plan: Plan, records: Records, audience: Audience) -> tuple[Play, Records]:
        """Play what is missing of a plan."""
        make_folder(records.path)
        with records.journal("episodes") as episodes, records.journal("metrics") as metrics:
            play = Play(self.training, self.parts.assembly, plan, episodes, metrics, audience)
            await play.recover(records)
            self.watcher.plays(len(plan.tasks), len(play.concluded))
            await play.all()
        return play, records

    def _advantages(self, groups: Sequence[Sequence[Scored]]) -> dict[str, list[Advantage]]:
        """The advantages by episode, checked."""
        name = f'the optimizer "{self.spec.optimizer.name}"'
        with blamed(name):
            found = list(self.parts.optimizer.advantages(groups))
        by_episode: dict[str, list[Advantage]] = {scored.episode.id: [] for group in groups for scored in group}
        for advantage in found:
            # Checked here, before the step: one NaN would poison every weight.
            if not math.isfinite(advantage.value) or advantage.episode not in by_episode:
                raise PluginError(
                    f"{name} gave turn {advantage.turn} of episode {advantage.episode} the advantage {advantage.value}",
                    fix="an advantage is a finite number for a turn of the batch; fix the optimizer",
                )
            by_episode[advantage.episode].append(advantage)
        return by_episode

    async def _learn(
        self, number: int, groups: Sequence[Sequence[Scored]], advantages: Mapping[str, Sequence[Advantage]]
    ) -> Update | None:
        """A new version; None where there is nothing to learn from."""
        if not groups:
            return None
        episodes = [scored.episode for group in groups for scored in group]
        shutil.rmtree(self._home(number), ignore_errors=True)  # what was made and never counted
        batch = Batch(
            episodes,
            [advantage for episode in episodes for advantage in advantages[episode.id]],
            self.parts.optimizer.loss(),
            self._home(number),
        )
        await self.parts.policy.rest()
        with blamed_learner(self.spec, f"making update {number}"):
            update = self.parts.learner.update(batch)
        finite(update.metrics, f'the learner "{self.spec.learner.name}"')
        if update.version == self.state.version or not update.adapter.exists():
            raise PluginError(
                f'the learner "{self.spec.learner.name}" gave no new version: {update.version} at {update.adapter}',
                fix="each update has a version of its own, and writes it below the folder it is given",
            )
        await self.parts.policy.wake()
        return update

    async def _publish(self, update: Update) -> dict[str, float]:
        """Let the policy answer with a version, and prove that it does."""
        began = time.monotonic()
        with blamed(f'the policy "{self.spec.policy.name}", taking up {update.version},'):
            await self.parts.policy.publish(update.adapter, update.version)
        seconds = round(time.monotonic() - began, 3)
        return {"publish_seconds": seconds, "publish_bytes": size_of(update.adapter), **await self.proof.prove()}

    # -- evaluation ----------------------------------------------------------------------------------------------------

    async def evaluate(self) -> None:
        """Find out how good the policy is, if that is due and not known yet."""
        number, settings = self.state.update, self.spec.evaluation
        if number % settings.every and number != self.spec.updates:
            return
        tasks = self.parts.assembly.tasks(settings.tasks, settings.split)
        plan = Plan(
            tasks=in_groups(tasks, settings.samples),
            policy=self.parts.policy,
            player=self.spec.policy,
            sampling=settings.sampling or self.spec.sampling,
            # The same draws each time, and the weights of the end: what differs is the policy alone.
            seeds=self.seeds.child("evaluation"),
            progress=Progress(update=self.spec.updates, updates=self.spec.updates),
            learns=False,
        )
        with self._phase("evaluate", number):
            _, records = await self._play(plan, self.folder.evaluation(number), self._checker())
        await self.proof.begin(records)
        figures = intervals(records.metrics())
        told = {f"evaluation/{name}": interval.estimate for name, interval in figures.items()}
        self.parts.assembly.track("log", number, told)
        self.watcher.evaluated(number, figures)

    # -- small things --------------------------------------------------------------------------------------------------

    def _home(self, number: int) -> Path:
        """Where an update's version goes."""
        return self.folder.path / "learner" / f"{number:05d}"

    @contextmanager
    def _phase(self, name: str, number: int) -> Iterator[None]:
        self.watcher.phase(name, number)
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
