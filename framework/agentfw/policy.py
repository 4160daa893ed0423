"""The policy interface: a conversation in, sampled tokens out, with their logprobs and the policy's version.

A policy returns exactly the tokens that it sampled. Text is never tokenised again later. A policy without token ids (a
script, or a server that hides them) leaves them empty but still reports how many there were.

    class Parrot(Policy):
        async def generate(self, request: Request) -> Generation:
            return Generation(text=request.messages[-1].content)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from .episode import Usage
from .errors import UsageError, not_implemented
from .request import Forwarded, Generation, Passed, Request, Sampling
from .settings import Settings
from .timeline import Time

__all__ = ["FREE", "Generation", "Policy", "Price", "Request", "Sampling"]


class Price(Settings):
    """Prices per million tokens, as servers state them.

    agentfw knows no currency: prices, costs and limits on money are all in the same one, whichever that is.

    >>> Price(prompt=2.0, cached=0.5, sampled=8.0).cost(Usage(prompt=1_000_000, cached=400_000, sampled=100_000))
    2.2
    """

    prompt: float = Field(ge=0, allow_inf_nan=False, description="Price of a million prompt tokens.")
    cached: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Price of a million prompt tokens that the server had cached. Default: that of the others.",
    )
    sampled: float = Field(ge=0, allow_inf_nan=False, description="Price of a million generated tokens.")

    def cost(self, usage: Usage) -> float | None:
        """What an answer cost. None if the server didn't report its tokens."""
        if not (self.prompt or self.cached or self.sampled):
            return 0.0
        if usage.prompt is None or usage.sampled is None:
            return None
        # A server that reports no cached tokens charges all of them as new ones.
        cached = 0 if self.cached is None else usage.cached or 0
        whole = (usage.prompt - cached) * self.prompt + cached * (self.cached or 0.0) + usage.sampled * self.sampled
        return whole / 1_000_000


FREE = Price(prompt=0.0, sampled=0.0)
"""The price of a model of one's own."""


class Policy:
    """Base class of policies. Only `generate` must be implemented."""

    is_program: bool = False
    """Whether it reads `request.moment`, or remembers its episodes. Such a policy can't run in another process."""
    forwards: bool = False
    """Whether it can pass on requests as programs wrote them. It then has the method `forward`."""
    follows_schemas: bool = False
    """Whether an answer follows the `schema` of its request."""
    continues: bool = False
    """Whether it can go on with a text, for a request that is `plain`."""
    price: Price | None = FREE
    """Prices of its tokens. None: unknown, though somebody charges for them."""

    def open(self, folder: Path) -> None:
        """Keep files in this run's folder. Called once before the first request; a resumed run has the same folder.

        It isn't called where a hook changes what is recorded.
        """

    async def generate(self, request: Request) -> Generation:
        """Answer one request. Many requests may be in flight at once."""
        raise not_implemented(self, "generate")

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        """Answer one request, and call `tell` with each new piece of the text, from the event loop's thread.

        A policy that can't stream tells the whole text at once.
        """
        generation = await self.generate(request)
        tell(generation.text if generation.said is None else generation.said)
        return generation

    async def count_tokens(self, request: Request) -> int:
        """How many tokens the prompt of a request has, tools included."""
        raise UsageError(f"{type(self).__name__} can't count tokens", fix="choose a policy that has a tokenizer")

    async def speaks(self, protocol: str, model: str = "") -> bool:
        """Whether requests in this protocol (`chat`, `messages`) are passed on as they are. Others are translated."""
        return self.forwards and protocol == "chat"

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        """Pass a request on to a server, unchanged but for what has to be added, and its answer back.

        It isn't retried: that is up to whoever asked. A refusal is an `UpstreamError`.
        """
        raise not_implemented(self, "forward")

    async def publish(self, adapter: Path, version: str) -> None:
        """Serve this adapter from now on, under this version, which all later Generations carry.

        Requests in flight may finish with the old version. A policy that can't be trained raises a UsageError.
        """
        wrong = f"{type(self).__name__} can't load an adapter, so it can't be trained"
        raise UsageError(wrong, fix="choose a policy that can, such as tiny, transformers or vllm")

    async def beside(self, adapter: Path, version: str) -> Policy:
        """A policy that answers with another adapter beside this one, over the same weights of the base.

        A policy that can't, and so would need another copy of the model, raises a UsageError.
        """
        wrong = f"{type(self).__name__} can't serve several adapters at once"
        raise UsageError(wrong, fix="choose a policy that can, such as tiny, transformers or vllm")

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        """Logprobs of these tokens after this prompt under the served version. Empty if the policy can't tell."""
        return ()

    async def score(self, answers: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Sequence[Sequence[float]]:
        """`logprobs` of several prompts with their tokens."""
        # One at a time: scoring whole prompts takes a server much memory, and vLLM on a CPU crashes when several with
        # an adapter share a batch.
        return [await self.logprobs(prompt_ids, token_ids) for prompt_ids, token_ids in answers]

    def replicas(self) -> Sequence[Policy]:
        """The copies of the model that answer. After each publication, a training verifies the weights of each."""
        return (self,)

    def metrics(self) -> Mapping[str, float]:
        """Serving metrics since the last call, such as waiting times. A training logs them; results don't use them."""
        return {}

    async def rest(self) -> None:
        """Release memory. A learner is about to work on the same device."""

    async def wake(self) -> None:
        """Take memory back. The learner is done."""

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        """World time that an answer takes: the number of tokens times the time per token."""
        return generation.length * time_per_token

    def priced(self, usage: Usage, *models: str) -> Usage:
        """The usage with what it cost at the policy's price, or at that of the model with one of these names."""
        return replace(usage, cost=None if self.price is None else self.price.cost(usage))

    async def close(self) -> None:
        """Close connections and processes."""
