"""The learning part of an update: advantages, a new version, its publication, and its verification.

Each step can be repeated. A version that was made but not recorded is made again from the same state and the same
episodes, with the same result. With `staleness`, the learner works in a process of its own while the policy answers. If
that dies, the training stops with an error: an update is all or nothing, so it is made again when resumed.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..boundary.calls import KINDS_OF_CALLS
from ..boundary.crossing import GuardedLearner, GuardedOptimizer, GuardedPolicy, Layer
from ..boundary.forms import Call
from ..engine import Engine, EngineSettings, Plain, Remote, Resources, make_engine
from ..episode import Episode, Turn
from ..errors import AgentfwError, PluginError, UsageError
from ..host import Host, HostOptions
from ..learner import Batch, Learner, Scores, Update
from ..optimizer import Advantage, Loss, Scored
from ..policy import Policy
from .observers import Observer
from .proof import ROUGH, SLIGHT, Probe, Proof
from .records.journal import make_folder
from .records.play_records import State
from .spec.run_spec import Choice, RunSpec


class TurnChecks(Observer):
    """Checks the turns of the trained policy, and counts the tokens that it generates.

    Turns must come from one of the `versions` that may answer now. If one of these has no name, any turn may be its.
    With `needs_tokens`, turns must have token ids that were sampled from a distribution that the learner can compute.
    """

    def __init__(self, spec: RunSpec, versions: Callable[[], Sequence[str]], *, needs_tokens: bool = False) -> None:
        self.spec, self.versions, self.needs_tokens = spec, versions, needs_tokens
        self.tokens = 0

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.tokens += turn.count
        name, where = self.spec.policy.name, f"turn {turn.index} of episode {episode.id}"
        if self.needs_tokens and turn.token_ids:
            check_sampling(turn.temperature, turn.top_p, f'{where} by "{name}"')
            if self.spec.staleness and not turn.logprobs:
                raise UsageError(
                    f'the policy "{name}" returns no logprobs ({where}), and samples of older versions can\'t be '
                    "corrected for without",
                    fix="--set staleness=0, or train a policy that returns them",
                )
        elif self.needs_tokens and (turn.text or turn.calls):
            raise UsageError(
                f'the policy "{name}" returns no token ids ({where}), but the optimizer learns from exact tokens',
                fix="train one that does, such as transformers or vllm; or learn from its text: --optimizer imitation",
            )
        versions = self.versions()
        if turn.token_ids and all(versions) and turn.version not in versions:
            raise PluginError(
                f'the policy "{name}" answered {where} with {turn.version or "no version at all"} after '
                f"{versions[0]} was published",
                fix="fix the policy, or restart its server: it must serve the newest version",
            )


def finite(metrics: Mapping[str, float], who: str) -> dict[str, float]:
    """Check the metrics of a plugin. Raises if one isn't finite, because then the weights aren't finite either."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            text = f"{who} reported {name} = {value}"
            raise PluginError(text, fix="lower the learning rate and resume: the step was probably too large")
    return dict(metrics)


def check_sampling(temperature: float | None, top_p: float | None, what: str) -> None:
    """Raise if the learner can't compute the probabilities of tokens that are sampled like this."""
    if temperature == 0:
        text = f"{what} is sampled at temperature 0, where nothing is left to chance that could be learned from"
        raise UsageError(text, fix="--set sampling.temperature=1")
    if top_p is not None and top_p < 1:
        text = f"{what} is sampled with top_p {top_p:g}, and the learner can't know which tokens that leaves out"
        raise UsageError(text, fix="--set sampling.top_p=1")


Answer = TypeVar("Answer")

IMPORTANCE_CAP, IMPORTANCE_MASK = 2.0, 1.5
"""Values of `Loss` where the optimizer names none: what differs slightly from the trainer is corrected."""
ON_PURPOSE = 2.0  # maximum difference, in nats per token, where the optimizer is told to correct for it


@dataclass(frozen=True, slots=True)
class Lesson:
    """The groups of an update that can be learned from, with the advantages of their turns."""

    groups: Sequence[Sequence[Scored]]
    advantages: Sequence[Advantage]
    metrics: Mapping[str, float]  # the optimizer's metrics of the whole batch
    note: str  # what the optimizer has to say about them
    taught: int  # number of groups with an advantage that isn't zero. On the others only a KL penalty acts


class Learning:
    """The optimizer, the learner and possibly the teacher of a training, and the policy that they improve."""

    def __init__(
        self,
        spec: RunSpec,
        policy: Policy,
        optimizer: GuardedOptimizer,
        learner: GuardedLearner,
        teacher: GuardedPolicy | None,
    ) -> None:
        loss, chosen = optimizer.loss(), spec.learner
        self.spec, self.policy, self.optimizer, self.learner = spec, policy, optimizer, learner
        # A teacher plays what is learned from. If the loss needs one, it is a scorer instead, which plays nothing.
        self.teacher = None if loss.teacher else teacher
        self.scorer = teacher if loss.teacher else None
        self._from_base = chosen is not None and bool(getattr(chosen.checked, "starts_from_base", False))
        """Whether the learner starts from the policy's base, which is known before it is loaded."""
        self._opening: asyncio.Task[None] | None = None
        # Maximum difference between sampler and trainer at the start, in nats per token.
        corrected = SLIGHT if loss.importance_cap is None else ON_PURPOSE
        self.proof = Proof(policy, self._answers, corrected if self.needs_tokens else ROUGH)

    @property
    def needs_tokens(self) -> bool:
        """Whether it learns from the exact tokens that were sampled."""
        return self.teacher is None and self.optimizer.loss().sampled

    def _corrected(self, number: int, episodes: Sequence[Episode]) -> Loss:
        """The loss for these episodes: corrected for the sampler, if it recorded what it sampled with."""
        loss = self.optimizer.loss()
        turns = [turn for episode in episodes for turn in episode.turns if turn.token_ids]
        if loss.sampled and all(turn.logprobs for turn in turns):
            if loss.importance_cap is None:
                loss = replace(loss, importance_cap=IMPORTANCE_CAP)
            # The first update leaves no turn out: if all differ, that is an error, and no update without a gradient.
            if loss.importance_mask is None and number > 1:
                loss = replace(loss, importance_mask=IMPORTANCE_MASK)
        return loss

    async def begin(self, home: Path, state: State, start: Path) -> Update | None:
        """Open the learner's folder `home` and restore the state of an earlier execution.

        The policy then answers with what training starts from, where that isn't its base. It is returned, and is
        written to `start`. A learner in another process may still be loading afterwards: see `opened`.
        """
        make_folder(home)
        if self.spec.staleness and self._from_base and not state.update:
            self._opening = asyncio.create_task(self._open(home, state))
            return None
        await self._open(home, state)
        if state.update:
            self.optimizer.restore(state.optimizer)
        made = await self._awake(lambda: self.learner.start(start))
        if made is not None:
            await self.publish(made)
        return made

    async def opened(self) -> None:
        if self._opening is not None:
            await self._opening

    async def _open(self, home: Path, state: State) -> None:
        def opened() -> None:
            self.learner.open(home)
            if state.update:
                self.learner.restore(state.learner)
            self.learner.rest()

        await self.learner_does(opened)

    def weigh(self, groups: Sequence[Sequence[Scored]]) -> Lesson:
        """Turn the scores of a batch into advantages, and check them."""
        by_episode: dict[str, list[Advantage]] = {scored.episode.id: [] for group in groups for scored in group}
        for advantage in self.optimizer.advantages(groups):
            by_episode[advantage.episode].append(advantage)
        # The optimizer excludes groups by giving them no advantages. A KL penalty still needs advantages of zero.
        taught = sum(any(each.value for one in group for each in by_episode[one.episode.id]) for group in groups)
        acts = taught or self.optimizer.loss().kl > 0
        learned = [group for group in groups if acts and any(by_episode[one.episode.id] for one in group)]
        rewards = [scored.reward for group in groups for scored in group if not scored.unrated]
        # All advantages are zero though rewards differ, and the optimizer keeps no state: so it will be later on.
        differ = any(rewards) and (len(rewards) == 1 or not math.isclose(min(rewards), max(rewards)))
        if self.spec.samples == 1 and differ and not taught and not self.optimizer.state():
            raise UsageError(
                f"{self.optimizer.guard.title} has nothing to compare an episode with: samples is 1",
                fix="set samples to 2 or more, or use empirical_bayes, which compares with the user's own history",
            )
        metrics = finite(self.optimizer.metrics(), self.optimizer.guard.title)
        advantages = [each for group in learned for one in group for each in by_episode[one.episode.id]]
        return Lesson(learned, advantages, metrics, self.optimizer.note(), taught)

    async def learn(
        self, number: int, lesson: Lesson, home: Path, before: str, tell: Callable[[int, int, float], object]
    ) -> Update | None:
        """Make a new version below `home`, after the version `before`. None if no weight would change."""
        if not lesson.groups:
            return None
        shutil.rmtree(home, ignore_errors=True)  # remains of an update that was not recorded
        episodes = [scored.episode for group in lesson.groups for scored in group]
        copies = [episode.copied() for episode in episodes]
        scores = await self._scores(copies, lesson.advantages)
        batch = Batch(copies, lesson.advantages, self._corrected(number, episodes), home, scores, tell)
        if not self.spec.staleness:
            await self.policy.rest()
        update = await self._awake(lambda: self.learner.update(batch))
        if update is not None:
            guard = self.learner.guard
            finite(update.metrics, guard.title)
            guard.require(
                update.version != before,
                f"returned no new version in update() number {number}: {update.version} at {update.adapter}",
                "give each update its own version, and write it below the given folder",
            )
        if not self.spec.staleness:
            await self.policy.wake()
        if update is not None and number == 1 and not self.spec.staleness and self.needs_tokens:
            # Raise if the rollouts were recorded with other probabilities than the learner finds for the same version.
            mismatch = update.metrics.get("mismatch", 0.0)
            if mismatch > self.proof.tolerance:
                raise AgentfwError(
                    f"the logprobs that the rollouts were recorded with and the learner's differ by {mismatch:.2g} "
                    "nats per token, before anything was learned",
                    fix="let the policy serve what is trained, and record the logprobs of what it samples from. To "
                    "train on a different sampler on purpose, corrected by importance weights, set "
                    "optimizer.importance_cap=2",
                )
        return update

    async def _scores(self, episodes: Sequence[Episode], advantages: Sequence[Advantage]) -> Sequence[Sequence[float]]:
        """What the teacher thinks of the tokens of these turns. Those without tokens are left to the learner."""
        if self.scorer is None:
            return ()
        turns = {(episode.id, turn.index): turn for episode in episodes for turn in episode.turns}
        chosen = [turns[one.episode, one.turn] for one in advantages]
        asked = [turn for turn in chosen if turn.token_ids]
        given = await self.scorer.score([(turn.prompt_ids, turn.token_ids) for turn in asked])
        self.scorer.guard.require(
            [len(some) for some in given] == [len(turn.token_ids) for turn in asked],
            "gave other than one logprob for each token of the answers that it was asked to score",
            "use a teacher that can tell the logprobs of given tokens, such as transformers, tiny or vllm",
        )
        found = iter(given)
        return [next(found) if turn.token_ids else () for turn in chosen]

    async def publish(self, update: Update) -> dict[str, float]:
        """Publish a version to the policy, and verify that it is served."""
        began = time.monotonic()
        await self.policy.publish(update.adapter, update.version)
        seconds = round(time.monotonic() - began, 3)
        files = [update.adapter] if update.adapter.is_file() else update.adapter.rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file())
        return {"publish_seconds": seconds, "publish_bytes": size, **await self.proof.prove()}

    async def close(self) -> None:
        try:
            await asyncio.to_thread(self.learner.close)
        finally:
            if self._opening is not None:
                self._opening.cancel()
                await asyncio.gather(self._opening, return_exceptions=True)
            for policy in filter(None, (self.teacher, self.scorer)):
                await policy.close()

    async def _answers(self, probes: Sequence[Probe], base: bool, rounding: bool) -> Scores:
        return await self._awake(lambda: self.learner.score(probes, base, rounding))

    async def _awake(self, work: Callable[[], Answer]) -> Answer:
        """Wake the learner, which rests between updates, for one piece of work."""

        def awake() -> Answer:
            self.learner.wake()
            answer = work()
            self.learner.rest()
            return answer

        return await self.learner_does(awake)

    async def learner_does(self, work: Callable[[], Answer]) -> Answer:
        """Let the learner work. While the policy answers, in a thread that waits for the learner's process."""
        return await asyncio.to_thread(work) if self.spec.staleness else work()


class RemoteLearner(Layer, Learner, kind="learner"):
    """The learner as this process sees it. Each call waits for its answer: make it in a thread."""

    def __init__(self, engine: Engine, host: Host, spec: RunSpec) -> None:
        assert spec.learner is not None
        self._engine, self._name = engine, f'the learner "{spec.learner.name}"'
        about = spec.engine.model_dump()
        self._seen: dict[str, str] = {}
        if learning := engine.plan.learning:
            about["gpus"] = f"0+{len(learning)}"  # of the GPUs of its process none plays
            self._seen = {"CUDA_VISIBLE_DEVICES": ",".join(card.name for card in learning)}
        self._arguments = [host.options.plain(), spec.learner.name, spec.learner.settings, about]
        self._process: Remote | None = None
        self._asked: Future[Plain] | None = None

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        if self._process is None:
            # Half of the cores: the policy has the others.
            threads = os.environ.get("OMP_NUM_THREADS", "")
            cpus = int(threads) if threads.isdigit() else max(1, (os.cpu_count() or 1) // 2)
            factory = f"{__name__}:{LearnerServer.__name__}"
            resources = Resources(cpus=cpus, here=True, environment=self._seen)
            self._process = self._engine.start(factory, self._arguments, name=self._name, resources=resources)
            self._process.ready.result()
        self._asked = self._process.submit(call.name, *call.written(given))
        return call.answer.read(self._asked.result())

    def close(self) -> None:
        if self._process is None:
            return
        if not self._process.ready.done() or (self._asked is not None and not self._asked.done()):
            self._process.kill()  # it is loading, or computing an update that nobody waits for any more
        else:
            self._process.stop()


class LearnerServer:
    def __init__(self, options: Plain, name: str, settings: Plain, engine: Plain) -> None:
        host = Host.load(HostOptions.from_plain(options))
        self._engine = make_engine(EngineSettings(**engine), learns=True)
        host.provide(engine=self._engine)
        self._learner = host.make("learner", Choice(name=name, settings=settings), Learner, "learner")

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Plain]]:
        call = KINDS_OF_CALLS["learner"].calls[name]

        async def made(*arguments: Plain) -> Plain:
            return call.answer.write(call.on(self._learner, call.read(arguments)))

        return made

    async def close(self) -> None:
        self._learner.close()
        self._engine.close()


def make_learning(spec: RunSpec, host: Host, engine: Engine, policy: GuardedPolicy) -> Learning | None:
    """The optimizer, learner and teacher of a spec, which must be able to work together. None without an optimizer."""
    if spec.optimizer is None or spec.learner is None:
        return None
    deadline, calls = spec.deadline, policy.guard.counts
    optimizer = host.guarded(GuardedOptimizer, "optimizer", spec.optimizer, deadline, calls, "optimizer")
    if spec.staleness:
        of_learner = host.guard("learner", spec.learner.name, deadline, counts=calls)
        learner = GuardedLearner(RemoteLearner(engine, host, spec), of_learner)
    else:
        learner = host.guarded(GuardedLearner, "learner", spec.learner, deadline, calls, "learner")
    loss, teacher = optimizer.loss(), None
    if loss.teacher and spec.teacher is None:
        raise UsageError(
            f'the optimizer "{spec.optimizer.name}" learns from what a teacher thinks of each token',
            fix="name a policy that knows the same tokens: --teacher transformers --set teacher.model=path/to/model",
        )
    if spec.teacher is not None:
        if loss.sampled and not loss.teacher:
            raise UsageError(
                f'the optimizer "{spec.optimizer.name}" learns from samples of the policy itself, not of a teacher',
                fix="learn from demonstrations: --optimizer imitation --learner sft; or remove the teacher",
            )
        spending = policy.spending
        teacher = host.guarded(GuardedPolicy, "policy", spec.teacher, deadline, calls, "teacher", spending=spending)
        if loss.teacher and not teacher.overrides("logprobs"):
            raise UsageError(
                f'the teacher "{spec.teacher.name}" can\'t tell how likely given tokens are',
                fix="use one that can, such as transformers, tiny or vllm; or learn from what it plays: "
                "--optimizer imitation --learner sft",
            )
    learning = Learning(spec, policy, optimizer, learner, teacher)
    if learning.needs_tokens:
        check_sampling(spec.sampling.temperature, spec.sampling.top_p, "every rollout")
    return learning
