"""The contract of hooks: they can be called as a run calls them, and what they decide is of the right form."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..boundary.metadata import EntryPoint
from ..episode import Call, Episode, Message, Task, Usage
from ..errors import BudgetSpentError
from ..hookspecs import Hook
from ..host.hook_calls import HookManager, HookOwner
from ..host.offers import PluginRecord
from ..request import Request
from .checks import Subject, require, sample_episode
from .plugins import sample_run, tell_of_run

Hooks = Subject[Hook]


def _manager(subject: Hooks) -> tuple[HookManager, Any]:
    """A manager with this hook alone, and a run in an empty folder."""
    manager, record = HookManager([], strict=True), PluginRecord(EntryPoint("hook", "", "hook", ""))
    manager.add(subject.make(), HookOwner("hook", "it", "", record))
    return manager, sample_run(subject.folder)


async def it_decides_on_requests_and_calls(subject: Hooks) -> None:
    """What it decides on a request and on a call is a Request, a Verdict or None."""
    manager, run = _manager(subject)
    task, usage = Task(0, seed=7), Usage(12, 0, 3)
    request = Request([Message("system", "Be brief."), Message("user", "Which tea?")], task=task)
    manager.tell("agentfw_run_started", run=run)
    with suppress(BudgetSpentError):  # it may stop a run
        await manager.decide("agentfw_request", run=run, request=request, model="sample", most=lambda: usage)
    manager.tell("agentfw_answered", run=run, request=request, model="sample", usage=usage, counted=True)
    await manager.decide("agentfw_before_call", run=run, task=task, call=Call("pour", {"cups": 2}, "1"))


def it_keeps_records_whole(subject: Hooks) -> None:
    """A record that it changes is an episode with the same turns and messages."""
    (manager, run), episode = _manager(subject), sample_episode(Task(0, seed=7))
    manager.tell("agentfw_run_started", run=run)
    decided = manager.decide_now("agentfw_record", run=run, record=episode.copied().to_record())
    if decided is not None:
        made = Episode.from_record(decided.answer)
        same = len(made.turns) == len(episode.turns) and len(made.messages) == len(episode.messages)
        require(same, "it takes turns or messages out of a record, or adds some")


async def it_watches_a_whole_run(subject: Hooks) -> None:
    """Its observers take what a run tells them, in the order of a run."""
    manager, run = _manager(subject)
    tell_of_run(manager.tell, run)
