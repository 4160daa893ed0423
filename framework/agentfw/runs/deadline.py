"""A timeout for policies: a policy that doesn't answer causes an error that names it.

Without it, a hanging server would block a training indefinitely.

    policy = DeadlinePolicy(policy, "vllm", seconds=600)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..errors import EndpointError
from ..policy import Policy
from ..request import Generation, Request
from ..timeline import Time

__all__ = ["DeadlinePolicy", "with_deadline"]

Answer = TypeVar("Answer")


class DeadlinePolicy(Policy):
    """Wraps a policy and limits the time of each answer."""

    def __init__(self, policy: Policy, name: str, seconds: float) -> None:
        self.policy, self.name, self.seconds = policy, name, seconds

    async def generate(self, request: Request) -> Generation:
        return await self._within(self.policy.generate(request), "answered a request")

    async def publish(self, adapter: Path, version: str) -> None:
        await self._within(self.policy.publish(adapter, version), f"taken up {version}")

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return await self._within(self.policy.logprobs(prompt_ids, token_ids), "given the logprobs of the probe")

    def replicas(self) -> Sequence[Policy]:
        return [DeadlinePolicy(policy, self.name, self.seconds) for policy in self.policy.replicas()]

    def metrics(self) -> Mapping[str, float]:
        return self.policy.metrics()

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
            if not deadline.expired():  # a timeout of the policy itself, which has a better message
                raise
            raise EndpointError(
                f'the policy "{self.name}" has not {what} within {self.seconds:g} s',
                fix="check its server, or increase the timeout: --set deadline=SECONDS",
            ) from error


def with_deadline(policy: Policy, name: str, seconds: float | None) -> Policy:
    """Wrap the policy in a deadline, if one is set."""
    return policy if seconds is None else DeadlinePolicy(policy, name, seconds)
