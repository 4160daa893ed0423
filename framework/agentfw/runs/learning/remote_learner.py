"""A learner in another process, so that it can work while the policy answers.

Episodes, advantages and states cross as plain values; adapters stay on disk, where both processes find them. If the
process dies, the training stops with an error: an update is all or nothing, so it is made again when resumed.

    learner = RemoteLearner(engine, host, spec)
    update = await asyncio.to_thread(learner.update, batch)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...engine import Engine, EngineSettings, Plain, Remote, Resources, make_engine
from ...episode import Episode
from ...host import Host, HostOptions
from ...learner import Answer, Batch, Learner, Scores, Update
from ...optimizer import Advantage, Loss
from ..spec.run_spec import Choice, RunSpec


class RemoteLearner(Learner):
    """The learner as this process sees it. Every method waits for the answer: call it in a thread."""

    def __init__(self, engine: Engine, host: Host, spec: RunSpec) -> None:
        assert spec.learner is not None
        self._engine, self._name = engine, f'the learner "{spec.learner.name}"'
        # Of its process's GPUs none plays.
        about = spec.engine.model_dump()
        if learning := engine.plan.learning:
            about["gpus"] = f"0+{len(learning)}"
        self._seen = {"CUDA_VISIBLE_DEVICES": ",".join(card.name for card in learning)} if learning else {}
        self._arguments = [host.options.plain(), spec.learner.name, spec.learner.settings, about]
        self._process: Remote | None = None
        self._asked: Future[Plain] | None = None

    def update(self, batch: Batch) -> Update | None:
        episodes = [episode.to_record() for episode in batch.episodes]
        advantages = [[each.episode, each.turn, each.value] for each in batch.advantages]
        return _update(self._ask("update", episodes, advantages, asdict(batch.loss), str(batch.folder)))

    def open(self, folder: Path) -> None:
        self._ask("open", str(folder.resolve()))

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return tuple(self._ask("logprobs", list(prompt_ids), list(token_ids), base))

    def score(self, answers: Sequence[Answer], *, base: bool = False) -> Scores:
        return Scores(*self._ask("score", [[list(tokens) for tokens in answer] for answer in answers], base))

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("state")
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        self._ask("restore", dict(state))

    def start(self, folder: Path) -> Update | None:
        return _update(self._ask("start", str(folder.resolve())))

    def rest(self) -> None:
        self._ask("rest")

    def wake(self) -> None:
        self._ask("wake")

    def close(self) -> None:
        if self._process is None:
            return
        if not self._process.ready.done() or (self._asked is not None and not self._asked.done()):
            self._process.kill()  # it is loading, or computing an update that nobody waits for any more
        else:
            self._process.stop()

    def _ask(self, method: str, *arguments: Plain) -> Plain:
        if self._process is None:
            factory = f"{__name__}:{LearnerServer.__name__}"
            resources = Resources(cpus=_threads(), here=True, environment=self._seen)
            self._process = self._engine.start(factory, self._arguments, name=self._name, resources=resources)
            self._process.ready.result()
        self._asked = self._process.submit(method, *arguments)
        return self._asked.result()


class LearnerServer:
    """The learner in its own process."""

    def __init__(self, options: Plain, name: str, settings: Plain, engine: Plain) -> None:
        host = Host.load(HostOptions.from_plain(options))
        self._engine = make_engine(EngineSettings(**engine), learns=True)
        host.provide(engine=self._engine)
        self._learner = host.make("learner", Choice(name=name, settings=settings), Learner, "learner")

    async def update(self, episodes: Plain, advantages: Plain, loss: Plain, folder: str) -> Plain:
        batch = Batch(
            [Episode.from_record(record) for record in episodes],
            [Advantage(*each) for each in advantages],
            Loss(**loss),
            Path(folder),
        )
        return _plain(self._learner.update(batch))

    async def open(self, folder: str) -> None:
        self._learner.open(Path(folder))

    async def logprobs(self, prompt_ids: Plain, token_ids: Plain, base: bool) -> Plain:
        return list(self._learner.logprobs(prompt_ids, token_ids, base=base))

    async def score(self, answers: Plain, base: bool) -> Plain:
        found = self._learner.score([(prompt_ids, token_ids) for prompt_ids, token_ids in answers], base=base)
        return [list(found.logprobs), list(found.rounding)]

    async def state(self) -> Plain:
        return self._learner.state()

    async def restore(self, state: Plain) -> None:
        self._learner.restore(state)

    async def start(self, folder: str) -> Plain:
        return _plain(self._learner.start(Path(folder)))

    async def rest(self) -> None:
        self._learner.rest()

    async def wake(self) -> None:
        self._learner.wake()

    async def close(self) -> None:
        self._learner.close()
        self._engine.close()


def _plain(update: Update | None) -> Plain:
    return None if update is None else [update.version, str(update.adapter), dict(update.metrics)]


def _update(plain: Plain) -> Update | None:
    if plain is None:
        return None
    version, adapter, metrics = plain
    return Update(version, Path(adapter), metrics)


def _threads() -> int:
    """Half of the cores: the policy has the others."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() else max(1, (os.cpu_count() or 1) // 2)
