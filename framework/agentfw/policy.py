"""The policy interface: a conversation in, sampled tokens out, with their logprobs and the version that made them.

A policy returns exactly what it sampled. Text is never tokenised again later; a policy that has no token ids (a script,
a server that hides them) leaves them empty and still says how many there were.

    class Parrot(Policy):
        async def generate(self, request: Request) -> Generation:
            return Generation(text=request.messages[-1].content)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .errors import UsageError
from .request import Generation, Request, Sampling
from .timeline import Time

__all__ = ["Generation", "Policy", "Request", "Sampling"]


class Policy:
    """Something that can be asked. `generate` is the one method that it must have."""

    async def generate(self, request: Request) -> Generation:
        """Answer one request. Any number of them may be in flight at once."""
        raise NotImplementedError

    async def publish(self, adapter: Path, version: str) -> None:
        """Answer with this adapter from now on, under this version, which every later Generation carries.

        Requests in flight may end with the version that they began with. A policy that can't learn refuses.
        """
        raise UsageError(
            f"{type(self).__name__} can't take an adapter, so it can't be trained",
            fix="choose a policy that can, such as tiny, transformers or vllm",
        )

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        """What the version that is served now thinks of these tokens after this prompt; nothing where it can't say."""
        return ()

    async def rest(self) -> None:
        """Give back what memory it can: a learner is about to work on the same device."""

    async def wake(self) -> None:
        """The learner is done."""

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        """How much of the world's time an answer takes: its tokens, each as long as the run says."""
        return generation.length * time_per_token

    async def close(self) -> None:
        """Let go of connections and processes."""
