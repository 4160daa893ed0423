"""The policy of a gateway that learns: asks the version that a session gets.

A version is a policy of its own, made from the same settings and given its adapter. So two can be served side by side,
and the policy as it came stays there to go back to. Answers in progress end with the version that they began with.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from agentfw import Generation, Policy, Request
from agentfw.episode import Usage
from agentfw.errors import StorageError, UsageError
from agentfw.timeline import Time

from .version_file import VersionFile, named


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

    async def refresh(self) -> bool:
        """Serve what the file says. Returns whether that changed."""
        state = await asyncio.to_thread(self._file.read)
        known = {0, *(one.number for one in state.versions)}
        self._pinned = {session: number for session, number in self._pinned.items() if number in known}
        wanted = {state.served, state.canary, *self._pinned.values()}
        for number in wanted - self._made.keys():
            adapter = await asyncio.to_thread(self._file.fetch, state.version(number))
            if not adapter.exists():
                raise StorageError(
                    f"{adapter}, the adapter of {named(number)}, is gone",
                    fix="restore it, or go back: agentfw serve rollback",
                )
            policy = await asyncio.to_thread(self._make)
            policy.open(self._file.run)
            await policy.publish(adapter, named(number))
            self._made[number] = policy
        before, self.state = self.state, state
        for number in self._made.keys() - wanted - {0}:
            if not self._asked[number]:
                await self._made.pop(number).close()
        return (before.served, before.canary, before.said) != (state.served, state.canary, state.said)

    def version_of(self, session: str) -> str:
        """The version that a session gets now."""
        return named(self._number_for(session))

    def pin(self, session: str, version: str) -> None:
        """Let a session get this version, if there is one of that name that was served, or else what is served."""
        found = {named(one.number): one.number for one in self.state.versions if one.adapter} | {named(0): 0}
        if version in found:
            self._pinned[session] = found[version]
        else:
            self._pinned.pop(session, None)

    def _number_for(self, session: str) -> int:
        pinned = self._pinned.get(session)
        return pinned if pinned in self._made and pinned is not None else self.state.for_session(session)

    async def generate(self, request: Request) -> Generation:
        async with self._of(request) as (policy, version):
            return _named(await policy.generate(request), version)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        async with self._of(request) as (policy, version):
            return _named(await policy.stream(request, tell), version)

    async def count_tokens(self, request: Request) -> int:
        return await self.base.count_tokens(request)

    @asynccontextmanager
    async def _of(self, request: Request) -> AsyncIterator[tuple[Policy, str]]:
        number = self._number_for(request.task.query)
        self._asked[number] += 1
        try:
            yield self._made[number], named(number)
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
        await asyncio.gather(*(policy.close() for policy in self._made.values()))


def check_learns(policy: Policy, name: str) -> None:
    """Raise if no version of this policy could be served, or be compared."""
    kind = type(policy)
    if kind.publish is Policy.publish or kind.logprobs is Policy.logprobs:
        raise UsageError(
            f"the policy {name} can't learn while it serves: it takes no adapter, or can't say how likely answers are",
            fix="serve one that can, such as transformers or tiny, or leave --learn out",
        )


def _named(generation: Generation, version: str) -> Generation:
    generation.version = version
    return generation
