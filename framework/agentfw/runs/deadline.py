"""A policy that must answer in time: silence becomes an error that names it.

Without it, a server that hangs would take a night's training with it.

    policy = DeadlinePolicy(policy, "vllm", seconds=600)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

from ..errors import EndpointError
from ..policy import Policy
from ..request import Generation, Request
from ..timeline import Time

__all__ = ["DeadlinePolicy", "with_deadline"]

Answer = TypeVar("Answer")


class DeadlinePolicy(Policy):
    """Asks another policy, and waits for each answer no longer than a number of seconds."""

    def __init__(self, policy: Policy, name: str, seconds: float) -> None:
        self.policy, self.name, self.seconds = policy, name, seconds

    async def generate(self, request: Request) -> Generation:
        return await self._within(self.policy.generate(request), "answered a request")

    async def publish(self, adapter: Path, version: str) -> None:
        await self._within(self.policy.publish(adapter, version), f"taken up {version}")

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return await self._within(self.policy.logprobs(prompt_ids, token_ids), "given the logprobs of the probe")

    async def rest(self) -> None:
        await self._within(self.policy.rest(), "gone to rest")

    async def wake(self) -> None:
        await self._within(self.policy.wake(), "woken up")

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self.policy.generation_time(generation, time_per_token)

    async def close(self) -> None:
        await self.policy.close()

    async def _within(self, answer: Awaitable[Answer], what: str) -> Answer:
        deadline = asyncio.timeout(self.seconds)
        try:
            async with deadline:
                return await answer
        except TimeoutError as error:
            if not deadline.expired():  # the policy's own; it knows better what it waited for
                raise
            raise EndpointError(
                f'the policy "{self.name}" has not {what} within {self.seconds:g} s',
                fix="check its server, or give it more time: --set deadline=SECONDS",
            ) from error


def with_deadline(policy: Policy, name: str, seconds: float | None) -> Policy:
    """The policy as it is, or with a deadline where there is one."""
    return policy if seconds is None else DeadlinePolicy(policy, name, seconds)
