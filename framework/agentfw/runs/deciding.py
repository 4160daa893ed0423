"""What hooks decide in a run: what a policy is asked, which tool calls are made, and what is recorded.

Each decision is an event of the kind `hook` in the record of its episode. A run without such hooks has none of this in
its way.

    decisions = Decisions(host.hooks_of_run(spec.hooks, spec.deadline), spending)
    policy = decisions.around(policy)
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..boundary.calls import Call as Crossing
from ..boundary.crossing import Layer, layered
from ..episode import Call, Episode, Event, Task
from ..errors import AgentfwError, BudgetSpentError, PluginError
from ..host.hook_calls import HookManager
from ..policy import Policy
from ..request import Passed, Request
from .questions import Questions
from .spending import Spending

if TYPE_CHECKING:
    from .observers import RunInfo

Note = Callable[[str, str, dict[str, Any]], object]


class Decisions:
    """The deciding hooks of one run."""

    def __init__(self, hooks: HookManager, spending: Spending) -> None:
        self.hooks, self.questions, self._spending = hooks, Questions(), spending
        self.run: RunInfo | None = None
        """The run, once it has begun."""
        asking = hooks.implementations("agentfw_request")
        self._asks, self._calls = bool(asking), bool(hooks.implementations("agentfw_before_call"))
        self.records = bool(hooks.implementations("agentfw_record"))
        """Whether a hook changes what is recorded. Then nothing else keeps what was said."""
        self.reads = self._calls or any(getattr(each.plugin, "changes_requests", True) for each in asking)
        """Whether requests have to be read, and can't be passed on as they are."""

    def around(self, policy: Policy) -> Policy:
        """The policy, whose requests are decided on."""
        made: Policy = layered(_Asked, "policy")(policy, self) if self._asks else policy
        return made

    @property
    def before_call(self) -> Callable[[Task, Call, Note], Awaitable[tuple[bool, str] | None]] | None:
        """What decides on tool calls. None if no hook does."""
        return self._before_call if self._calls else None

    @property
    def record(self) -> Callable[[Episode], Episode] | None:
        """What makes the record of an episode, or of the news of a session. None if no hook does."""
        return self._record if self.records else None

    async def request(self, request: Request, *, passed_on: bool) -> tuple[Request, tuple[Mapping[str, Any], ...]]:
        """The request to ask, and what was done to it."""
        try:
            decided = await self.hooks.decide("agentfw_request", run=self.run, request=request)
        except BudgetSpentError:
            await self._spending.settled()
            raise
        if decided is None or decided.answer == request:
            return request, ()
        owner = decided.owner
        if passed_on:
            text = f"{owner.title} has changed a request, but its `changes_requests` says that it doesn't"
            raise PluginError(text, fix=owner.fix)
        return decided.answer, ({"hook": owner.name, "did": "changed the request"},)

    async def _before_call(self, task: Task, call: Call, note: Note) -> tuple[bool, str] | None:
        """What the agent is told in the place of the tool. None: the call is made."""
        own = Call(call.name, copy.deepcopy(dict(call.arguments)), call.id)
        decided = await self.hooks.decide("agentfw_before_call", run=self.run, task=task, call=own)
        if decided is None:
            return None
        does, text, seconds = decided.answer
        did = {"allow": "allowed", "refuse": "refused", "answer": "answered"}.get(does, does)
        if does == "ask":
            allowed, how = await self.questions.ask(text, task.user, seconds)
            does, did, text = ("allow", "asked: allowed", text) if allowed else ("refuse", "asked: refused", how)
        note("hook", decided.owner.name, {"did": did, "name": call.name, "call": call.id, "text": text})
        if does == "allow":
            return None
        return (True, text) if does == "answer" else (False, f"{call.name} was refused: {text}".removesuffix(": "))

    def _record(self, episode: Episode) -> Episode:
        decided = self.hooks.decide_now("agentfw_record", run=self.run, record=episode.copied().to_record())
        if decided is None:
            return episode
        owner = decided.owner
        try:
            made = Episode.from_record(decided.answer)
        except AgentfwError as error:
            raise PluginError(
                f"{owner.title} made a record that can't be read: {error.message}", fix=owner.fix
            ) from error
        if (len(made.turns), len(made.messages), made.task) != (
            len(episode.turns),
            len(episode.messages),
            episode.task,
        ):
            raise PluginError(
                f"{owner.title} has taken turns or messages out of a record, or added some", fix=owner.fix
            )
        if made != episode:
            made.events.append(Event(made.ended, "hook", owner.name, {"did": "changed the record"}))
        return made


class _Asked(Layer):
    def __init__(self, policy: Policy, decisions: Decisions) -> None:
        self.inside, self._decisions = policy, decisions
        self.take_attributes(policy)

    async def later(self, call: Crossing, given: tuple[Any, ...]) -> Any:
        if call.name not in ("generate", "stream", "forward"):
            return await super().later(call, given)
        request, did = await self._decisions.request(given[0], passed_on=call.name == "forward")
        found = await super().later(call, (request, *given[1:]))
        for generation in found.generations if isinstance(found, Passed) else (found,):
            generation.hooks = (*generation.hooks, *did)
        return found
