"""The policy of a gateway that learns: asks the version that a session gets.

A version is a policy of its own, made from the same settings and given its adapter. So two can be served side by side,
and the policy as it came stays there to go back to. Answers in progress end with the version that they began with.

Versions of single users have the base in common: each costs its adapter. They are loaded when their user asks, and the
MOST_LOADED that were asked last stay in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from agentfw import Generation, Policy, Request
from agentfw.episode import Usage
from agentfw.errors import StorageError, UsageError
from agentfw.timeline import Time

from .version_file import Version, VersionFile, named

MOST_LOADED = 32
logger = logging.getLogger(__name__)


class ServedVersions(Policy):
    """Policies by the number of their version; 0 is the policy as it came."""

    def __init__(self, base: Policy, make: Callable[[], Policy], file: VersionFile) -> None:
        self.base, self._make, self._file = base, make, file
        self.price, self.follows_schemas, self.state = base.price, base.follows_schemas, file.read()
        self.continues = base.continues
        self._made = {0: base}
        self._pinned: dict[str, int] = {}
        """The versions that sessions get whatever is served, by name. Each is there after the next `refresh`."""
        self._asked = Counter[int]()
        self._own, self._loading = self.state.own, asyncio.Lock()

    async def refresh(self) -> bool:
        """Serve what the file says. Returns whether that changed."""
        state = await asyncio.to_thread(self._file.read)
        known = {0, *(one.number for one in state.versions)}
        self._pinned = {session: number for session, number in self._pinned.items() if number in known}
        wanted = {state.served, state.canary, *self._pinned.values()}
        for number in wanted - self._made.keys():
            await self._load(state.version(number))
        before, self.state, self._own = self.state, state, state.own
        kept = {one.adapter for one in state.versions}  # `agentfw serve forget` takes adapters out of a database
        await asyncio.to_thread(self._file.delete, [one for one in before.versions if one.adapter not in kept])
        own = {one.number for one in self._own.values()}
        wanted |= {0, *[number for number in self._made if number in own][-MOST_LOADED:]}
        for number in self._made.keys() - wanted:
            if not self._asked[number]:
                await self._made.pop(number).close()
        return (before.served, before.canary, before.said) != (state.served, state.canary, state.said)

    async def _load(self, version: Version) -> None:
        adapter = await asyncio.to_thread(self._file.fetch, version)
        if not adapter.exists():
            words = f"{adapter}, the adapter of {version.name}, is gone"
            raise StorageError(words, fix="restore it, or go back: agentfw serve rollback")
        if version.user:
            self._made[version.number] = await self.base.beside(adapter, version.name)
            return
        policy = await asyncio.to_thread(self._make)
        policy.open(self._file.run)
        await policy.publish(adapter, version.name)
        self._made[version.number] = policy

    def version_of(self, session: str, user: str) -> str:
        return self._name(self._number_for(session, user))

    def _name(self, number: int) -> str:
        return self.state.version(number).name if number else named(0)

    def pin(self, session: str, version: str) -> None:
        """Let a session get this version, if there is one of that name that was served, or else what is served."""
        found = {one.name: one.number for one in self.state.versions if one.adapter and not one.user} | {named(0): 0}
        if version in found:
            self._pinned[session] = found[version]
        else:
            self._pinned.pop(session, None)

    def _number_for(self, session: str, user: str) -> int:
        pinned = self._pinned.get(session)
        if pinned in self._made and pinned is not None:
            return pinned
        return self._own[user].number if user in self._own else self.state.for_session(session)

    async def generate(self, request: Request) -> Generation:
        async with self._of(request) as (policy, version):
            generation = await policy.generate(request)
            generation.version = version
            return generation

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        async with self._of(request) as (policy, version):
            generation = await policy.stream(request, tell)
            generation.version = version
            return generation

    async def count_tokens(self, request: Request) -> int:
        return await self.base.count_tokens(request)

    @asynccontextmanager
    async def _of(self, request: Request) -> AsyncIterator[tuple[Policy, str]]:
        session, user = request.task.query, request.task.user
        number, own = self._number_for(session, user), self._own.get(user)
        if own is not None and number == own.number:
            async with self._loading:
                try:
                    if number not in self._made:
                        await self._load(own)
                    self._made[number] = self._made.pop(number)  # the last to leave memory
                except Exception as error:  # of a plugin, too: the others' version is there
                    logger.warning("%s is not served: %s", own.name, error)
                    number = self.state.for_session(session)
        self._asked[number] += 1
        try:
            yield self._made[number], self._name(number)
        finally:
            self._asked[number] -= 1

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return await self._made[self.state.served].logprobs(prompt_ids, token_ids)

    def metrics(self) -> Mapping[str, float]:
        return self._made[self.state.served].metrics()

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self.base.generation_time(generation, time_per_token)

    def priced(self, usage: Usage, *models: str) -> Usage:
        return self.base.priced(usage, *models)

    async def close(self) -> None:
        await asyncio.gather(*(policy.close() for number, policy in self._made.items() if number))
        await self.base.close()  # last, because others may be beside it


def check_learns(policy: Policy, name: str, owns: bool = False) -> None:
    """Raise if no version of this policy could be served, or be compared; with `owns`, none of single users."""
    kind = type(policy)
    if kind.publish is Policy.publish or kind.logprobs is Policy.logprobs:
        raise UsageError(
            f"the policy {name} can't learn while it serves: it takes no adapter, or can't say how likely answers are",
            fix="serve one that can, such as transformers or tiny, or leave --learn out",
        )
    if owns and kind.beside is Policy.beside:
        fix = "serve one that holds several, such as transformers, tiny or vllm, or leave --learn-own out"
        raise UsageError(f"the policy {name} holds one adapter at a time, so users can't have their own", fix=fix)
