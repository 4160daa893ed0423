"""The learning part of an update: advantages, a new version, its publication, and its verification.

Each step can be repeated. A version that was made but not recorded is made again from the same state and the same
episodes, with the same result.

    learning = make_learning(spec, host, policy)
    lesson = learning.weigh(groups)
    update = await learning.learn(3, lesson, folder)
    served = await learning.publish(update)
"""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..engine import Engine
from ..errors import AgentfwError, PluginError, UsageError
from ..host import Host
from ..learner import Batch, Learner, Update
from ..optimizer import Advantage, Loss, Optimizer, Scored
from ..policy import Policy
from .components import blamed, make
from .deadline import with_deadline
from .figures import finite, size_of
from .journal import make_folder
from .proof import Proof
from .remote_learner import RemoteLearner
from .spec import RunSpec
from .state import State
from .turn_checks import check_sampling

__all__ = ["Learning", "Lesson", "check_trainable", "make_learning"]

Answer = TypeVar("Answer")

IMPORTANCE_CAP = 2.0
"""Maximum importance weight of tokens that an older version sampled, if the optimizer names none."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The groups of an update that can be learned from, with the advantages of their turns."""

    groups: Sequence[Sequence[Scored]]
    advantages: Sequence[Advantage]
    metrics: Mapping[str, float]
    """The optimizer's metrics of the whole batch."""


class Learning:
    """The optimizer, the learner and possibly the teacher of a training, and the policy that they improve."""

    def __init__(
        self, spec: RunSpec, policy: Policy, optimizer: Optimizer, learner: Learner, teacher: Policy | None
    ) -> None:
        assert spec.optimizer is not None
        assert spec.learner is not None
        self.spec, self.policy, self.optimizer, self.learner, self.teacher = spec, policy, optimizer, learner, teacher
        self._optimizer = f'the optimizer "{spec.optimizer.name}"'
        self._learner = spec.learner.name
        self.proof = Proof(policy, f'the policy "{spec.policy.name}"', self._logprobs)

    @property
    def needs_tokens(self) -> bool:
        """Whether it learns from the exact tokens that were sampled."""
        return self.teacher is None and self.optimizer.loss().name != "likelihood"

    @property
    def loss(self) -> Loss:
        """The optimizer's loss. Samples of older versions are corrected for, unless it says how itself."""
        loss = self.optimizer.loss()
        stale = self.spec.staleness > 0 and loss.name == "clipped" and loss.importance_cap is None
        return replace(loss, importance_cap=IMPORTANCE_CAP) if stale else loss

    async def begin(self, home: Path, state: State) -> None:
        """Open the learner's folder and restore the state of an earlier execution."""
        make_folder(home)

        def opened() -> None:
            self.learner.open(home)
            if state.update:
                self.learner.restore(state.learner)
            self.learner.rest()

        await self._ask("opened", opened)
        if state.update:
            with blamed(self._optimizer):
                self.optimizer.restore(state.optimizer)

    async def start(self, home: Path) -> Update | None:
        """Let the policy answer with what training starts from, where that isn't its base."""

        def started() -> Update | None:
            self.learner.wake()
            start = self.learner.start(home)
            self.learner.rest()
            return start

        start = await self._ask("started", started)
        if start is not None:
            await self.publish(start)
        return start

    def weigh(self, groups: Sequence[Sequence[Scored]]) -> Lesson:
        """Turn the scores of a batch into advantages, and check them."""
        with blamed(self._optimizer):
            found = list(self.optimizer.advantages(groups))
        by_episode: dict[str, list[Advantage]] = {scored.episode.id: [] for group in groups for scored in group}
        for advantage in found:
            # Checked before the step, because one NaN would spread to all weights.
            if not math.isfinite(advantage.value) or advantage.episode not in by_episode:
                raise PluginError(
                    f"{self._optimizer} gave turn {advantage.turn} of episode {advantage.episode} "
                    f"the advantage {advantage.value}",
                    fix="an advantage is a finite number for a turn of the batch; fix the optimizer",
                )
            by_episode[advantage.episode].append(advantage)
        # The optimizer excludes groups by giving them no advantages. A KL penalty still needs advantages of zero.
        different = any(each.value for some in by_episode.values() for each in some)
        acts = different or self.loss.kl > 0
        learned = [group for group in groups if acts and any(by_episode[one.episode.id] for one in group)]
        rewarded = any(scored.reward for group in groups for scored in group)
        # All advantages are zero and the optimizer keeps no state, so later updates can't do better.
        if self.spec.samples == 1 and rewarded and not different and not self.optimizer.state():
            raise UsageError(
                f"{self._optimizer} has nothing to compare an episode with: samples is 1",
                fix="set samples to 2 or more, or use parpo, which compares with the user's own history",
            )
        metrics = finite(self.optimizer.metrics(), self._optimizer)
        return Lesson(
            learned, [each for group in learned for one in group for each in by_episode[one.episode.id]], metrics
        )

    def missing(self, groups: Sequence[Sequence[Scored]]) -> int:
        """How many further groups the optimizer asks for."""
        with blamed(self._optimizer):
            return self.optimizer.missing(groups, self.spec.tasks)

    async def learn(self, number: int, lesson: Lesson, home: Path, before: str) -> Update | None:
        """Make a new version below `home`. None if there is nothing to learn from. `before` is the last version."""
        if not lesson.groups:
            return None
        shutil.rmtree(home, ignore_errors=True)  # remains of an update that was not recorded
        episodes = [scored.episode for group in lesson.groups for scored in group]
        batch = Batch(episodes, lesson.advantages, self.loss, home)

        def updated() -> Update:
            self.learner.wake()
            update = self.learner.update(batch)
            self.learner.rest()
            return update

        if not self.spec.staleness:
            await self.policy.rest()
        update = await self._ask(f"making update {number}", updated)
        finite(update.metrics, f'the learner "{self._learner}"')
        if update.version == before or not update.adapter.exists():
            raise PluginError(
                f'the learner "{self._learner}" returned no new version: {update.version} at {update.adapter}',
                fix="give each update its own version, and write it below the given folder",
            )
        if not self.spec.staleness:
            await self.policy.wake()
        return update

    async def publish(self, update: Update) -> dict[str, float]:
        """Publish a version to the policy, and verify that it is served."""
        began = time.monotonic()
        with blamed(f'the policy "{self.spec.policy.name}", taking up {update.version},'):
            await self.policy.publish(update.adapter, update.version)
        seconds = round(time.monotonic() - began, 3)
        return {"publish_seconds": seconds, "publish_bytes": size_of(update.adapter), **await self.proof.prove()}

    async def states(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What learner and optimizer need to resume after the last update."""
        with blamed(self._optimizer):
            optimizer = self.optimizer.state()
        return await self._ask("asked for its state", self.learner.state), optimizer

    async def close(self) -> None:
        try:
            await asyncio.to_thread(self.learner.close)
        finally:
            if self.teacher is not None:
                await self.teacher.close()

    async def _logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], base: bool) -> Sequence[float]:
        def found() -> Sequence[float]:
            self.learner.wake()
            found = self.learner.logprobs(prompt_ids, token_ids, base=base)
            self.learner.rest()
            return found

        return await self._ask("asked about the probe", found)

    async def _ask(self, doing: str, work: Callable[[], Answer]) -> Answer:
        """Let the learner work. While the policy answers, in a thread that waits for the learner's process."""
        with self._blamed(doing):
            return await asyncio.to_thread(work) if self.spec.staleness else work()

    @contextmanager
    def _blamed(self, doing: str) -> Iterator[None]:
        """Attribute exceptions of the learner to it. For a lack of memory, suggest a fix."""
        name = f'the learner "{self._learner}", {doing},'
        with blamed(name):
            try:
                yield
            except Exception as error:
                if not (isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"):
                    raise
                raise AgentfwError(
                    f"{name} ran out of memory: {error}".rstrip(": "),
                    fix="use fewer tasks or samples per update, or change the learner's settings:  "
                    f"agentfw plugins show {self._learner}",
                ) from error


def make_learning(spec: RunSpec, host: Host, engine: Engine, policy: Policy) -> Learning | None:
    """Create the optimizer, the learner and the teacher of a resolved spec. None if there is no optimizer.

    Raises if they can't work together.
    """
    if spec.optimizer is None or spec.learner is None:
        return None
    optimizer = make(host, "optimizer", spec.optimizer, Optimizer, "optimizer")
    learner: Learner
    if spec.staleness:
        learner = RemoteLearner(engine, host, spec)
    else:
        learner = make(host, "learner", spec.learner, Learner, "learner")
    teacher = None if spec.teacher is None else make(host, "policy", spec.teacher, Policy, "teacher")
    if spec.teacher is not None and optimizer.loss().name == "clipped":
        raise UsageError(
            f'the optimizer "{spec.optimizer.name}" learns from samples of the policy itself, not of a teacher',
            fix="learn from demonstrations: --optimizer imitation --learner sft; or remove the teacher",
        )
    if spec.teacher is not None and teacher is not None:
        teacher = with_deadline(teacher, spec.teacher.name, spec.deadline)
    learning = Learning(spec, policy, optimizer, learner, teacher)
    if learning.needs_tokens:
        check_sampling(spec.sampling.temperature, spec.sampling.top_p, "every rollout")
    return learning


def check_trainable(policy: Policy, name: str) -> None:
    """Raise if the policy can't load new versions."""
    if type(policy).publish is Policy.publish:
        raise UsageError(
            f"the policy \"{name}\" can't load a new version, so it can't be trained",
            fix="train one that can, such as transformers or vllm; use this one as a teacher: --teacher NAME",
        )
