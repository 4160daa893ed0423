"""The contract of plugins that watch runs with hooks.

A plugin is judged by a small training with it and one without: which hooks raised, and whether the records are
the same. What makes the training (a world, a policy, a reward, an optimizer, a learner) is below.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..component import KINDS, Component
from ..environment import Environment, World, action
from ..episode import Call, Episode, Task
from ..hookspecs import hookimpl
from ..learner import Batch, Learner, Update
from ..optimizer import Advantage, Optimizer, Scored
from ..policy import Generation, Policy, Request
from ..scores import RewardModel, Score
from .checks import DoesNotApply, Subject, require

Plugins = Subject[Any]


class Teahouse(Environment):
    """Serve each guest what they like."""

    def begin(self, world: World, task: Task) -> None:
        self.world, self.guests = world, 0
        self._welcome()

    @action
    def serve(self, drink: str) -> None:
        """Serve a drink."""
        self.world.utility(float(drink == "tea"), "served")
        self._welcome()

    def _welcome(self) -> None:
        self.guests += 1
        if self.guests > 2:
            self.world.finish(guests=2.0)
        else:
            self.world.observe("guest", {"number": self.guests})


class Waiter(Policy):
    """Serves tea and coffee in turn."""

    version = "base"

    async def generate(self, request: Request) -> Generation:
        drink = ("tea", "coffee")[(request.task.index + request.task.sample) % 2]
        calls = (Call("serve", {"drink": drink}),)
        return Generation("", calls, 1, (1, 2), (3,), (-0.7,), version=self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        self.version = version


class Tips(RewardModel):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(episode.id, "tips", episode.utility) for episode in group]


class Taster(Optimizer):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [
            Advantage(scored.episode.id, turn.index, scored.reward)
            for group in groups
            for scored in group
            for turn in scored.episode.turns
        ]


class Caddy(Learner):
    def update(self, batch: Batch) -> Update:
        batch.folder.mkdir(parents=True)
        adapter = batch.folder / "leaves.json"
        adapter.write_text("{}", "utf-8")
        return Update("leaves", adapter, {"loss": 0.5})


def _training() -> object:
    """A plugin that offers the components of the training."""
    named = {"environment": Teahouse, "policy": Waiter, "reward": Tips, "optimizer": Taster, "learner": Caddy}
    hooks = {}
    for kind, made in named.items():
        offered = [Component(made.__name__.lower(), f"{__name__}:{made.__name__}", "")]
        hooks[KINDS[kind].hook] = hookimpl(lambda offered=offered: offered)
    return SimpleNamespace(**hooks)


_SPEC: Mapping[str, Any] = {
    "environment": "teahouse",
    "policy": "waiter",
    "rewards": ["tips"],
    "optimizer": "taster",
    "learner": "caddy",
    "updates": 1,
    "tasks": 2,
    "samples": 2,
    "evaluation": {"tasks": 1},
}


def trained(folder: Path, *plugins: object) -> tuple[Path, list[str]]:
    """A training with these plugins: its folder, and what the host has noted of them."""
    from ..runs.run import Run
    from ..runs.spec.run_spec import parse_spec
    from .contracts import fresh_host

    host = fresh_host(_training(), *plugins, strict=False)
    run = Run.create(parse_spec(dict(_SPEC)), host, folder)
    asyncio.run(run.execute())
    return run.folder.path, host.notes


def it_loads(subject: Plugins) -> None:
    """It loads without a complaint: every hook has a known name and takes known arguments."""
    from .contracts import fresh_host

    notes = fresh_host(subject.make(), strict=False).notes
    require(not notes, f"loading it, the host notes: {'; '.join(notes)}")


def its_hooks_do_not_raise(subject: Plugins) -> None:
    """In a training from its beginning to its end, and in a second one, none of its hooks raises."""
    plugin = subject.make()
    for name in ("first", "second"):
        _, notes = trained(subject.folder / name, plugin)
        require(not notes, f"in the {name} training with it, the host notes: {'; '.join(notes)}")


def a_resumed_run_may_tell_it_again(subject: Plugins) -> None:
    """It takes what a resumed run tells a second time: the start, and the scores of a group."""
    plugin = subject.make()
    if not any(hasattr(plugin, name) for name in _TOLD_AGAIN):
        raise DoesNotApply("it has none of the hooks that a resumed run calls again")
    _, notes = trained(subject.folder / "run", plugin, _Again(plugin))
    require(not notes, f"told a second time, it fails: {'; '.join(notes)}")


_TOLD_AGAIN = ("agentfw_run_started", "agentfw_scored")


class _Again:
    """Tells a plugin what it was told already."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    @hookimpl
    def agentfw_run_started(self, run: Any) -> None:
        self._tell("agentfw_run_started", run=run)

    @hookimpl
    def agentfw_scored(self, run: Any, scores: Sequence[Score]) -> None:
        self._tell("agentfw_scored", run=run, scores=scores)

    def _tell(self, name: str, **arguments: Any) -> None:
        hook = getattr(self._plugin, name, None)
        if hook is not None:
            hook(**{key: arguments[key] for key in inspect.signature(hook).parameters})


def records_stay_as_they_are(subject: Plugins) -> None:
    """The records of a run are the same with it and without it, and their files hold nothing else."""
    plain, _ = trained(subject.folder / "without")
    watched, _ = trained(subject.folder / "with", subject.make())
    for path in sorted(plain.rglob("*.jsonl")):
        if path.name in ("episodes.jsonl", "metrics.jsonl"):
            name = path.relative_to(plain)
            # Episodes end in any order.
            one, other = (sorted((folder / name).read_text("utf-8").splitlines()) for folder in (plain, watched))
            require(one == other, f"with it, {name.as_posix()} differs; write to files of its own")


def the_process_stays_as_it_is(subject: Plugins) -> None:
    """It leaves the process alone: the working directory, environment variables, standard output and signals."""
    before = _process()
    trained(subject.folder / "run", subject.make())
    for name, is_now in _process().items():
        require(is_now == before[name], f"after a run with it, {name} changed; put back what it changes")


def _process() -> dict[str, object]:
    return {
        "the working directory": os.getcwd(),
        "os.environ": dict(os.environ),
        "sys.stdout": sys.stdout,
        "sys.excepthook": sys.excepthook,
        "the handler of SIGINT": signal.getsignal(signal.SIGINT),
    }
