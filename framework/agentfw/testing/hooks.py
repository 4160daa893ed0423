"""The contract of hooks: they can be called as a run calls them, and what they decide is of the right form."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ..boundary.metadata import EntryPoint
from ..episode import Call, Episode, Message, Task, Usage
from ..errors import BudgetSpentError
from ..hookspecs import Hook
from ..host.hook_calls import HookManager, HookOwner
from ..host.plugin_loading import PluginRecord
from ..request import Request
from .checks import Subject, require
from .samples import sample_episode

Hooks = Subject[Hook]


def _manager(subject: Hooks) -> tuple[HookManager, Any]:
    """A manager with this hook alone, and a run in an empty folder."""
    manager, record = HookManager([], strict=True), PluginRecord(EntryPoint("hook", "", "hook", ""))
    manager.add(subject.make(), HookOwner("hook", "it", "", record))
    policy = SimpleNamespace(name="sample", alias="", checked=None)
    spec = SimpleNamespace(policy=policy, models=(), environment=SimpleNamespace(name="sample"))
    run = SimpleNamespace(id="sample", folder=SimpleNamespace(path=subject.folder), spec=spec)
    manager.tell("agentfw_run_started", run=run)
    return manager, run


def it_decides_on_requests_and_calls(subject: Hooks) -> None:
    """What it decides on a request and on a call is a Request, a Verdict or None."""
    manager, run = _manager(subject)
    task = Task(0, seed=7)
    request = Request([Message("system", "Be brief."), Message("user", "Which tea?")], task=task)

    async def decide() -> None:
        await _asked(manager, run, request)
        await manager.decide("agentfw_before_call", run=run, task=task, call=Call("pour", {"cups": 2}, "1"))

    asyncio.run(decide())


def it_keeps_records_whole(subject: Hooks) -> None:
    """A record that it changes is an episode with the same turns and messages."""
    manager, run = _manager(subject)
    episode = sample_episode(Task(0, seed=7))
    decided = manager.decide_now("agentfw_record", run=run, record=episode.copied().to_record())
    if decided is not None:
        made = Episode.from_record(decided.answer)
        same = len(made.turns) == len(episode.turns) and len(made.messages) == len(episode.messages)
        require(same, "it takes turns or messages out of a record, or adds some")


def it_watches_a_whole_run(subject: Hooks) -> None:
    """Its observers take what a run tells them, in the order of a run."""
    manager, run = _manager(subject)
    episode = sample_episode(Task(0, seed=7))
    for turn in episode.turns:
        asyncio.run(_asked(manager, run, Request([Message("user", "Which tea?")], task=episode.task)))
        manager.tell("agentfw_turn", run=run, episode_id=episode.id, turn=turn)
    manager.tell("agentfw_episode_done", run=run, episode=episode)
    manager.tell("agentfw_scored", run=run, scores=[])
    manager.tell("agentfw_run_finished", run=run, summary=SimpleNamespace(figures={}, episodes=1))


async def _asked(manager: HookManager, run: Any, request: Request) -> None:
    usage = Usage(12, 0, 3)
    try:
        await manager.decide("agentfw_request", run=run, request=request, model="sample", most=lambda: usage)
    except BudgetSpentError:  # it may stop a run
        pass
    manager.tell("agentfw_answered", run=run, request=request, model="sample", usage=usage, counted=True)
