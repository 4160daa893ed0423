"""What a policy is: a conversation in, sampled tokens out, with their logprobs and the version that made them.

The one rule: a policy gives what it sampled, exactly. Text is never tokenised again later; a policy that has no tokens
(a script, a server that hides them) leaves the ids empty and still says how many there were.

    class Parrot(Policy):
        async def generate(self, request: Request) -> Generation:
            return Generation(text=request.messages[-1].content)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .environment import Action, Brief
from .episode import Call, Message, Task
from .errors import UsageError
from .timeline import Time

if TYPE_CHECKING:
    from .agent import Moment

__all__ = ["Generation", "Policy", "Request", "Sampling"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. None leaves a choice to the policy."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a policy may look at for one turn."""

    messages: Sequence[Message]
    actions: Sequence[Action] = ()
    """What can be called: the environment's actions and the agent's tools."""
    sampling: Sampling = field(default_factory=Sampling)
    moment: Moment | None = None
    """The same as the messages say, as values: for policies that are programs."""
    brief: Brief = field(default_factory=lambda: Brief(""))
    task: Task = field(default_factory=lambda: Task(0, 0))
    before: Generation | None = None
    """How the last answer among the messages was generated, where it answered all the messages before it: a policy that
    makes prompts of tokens keeps these, so that turns share their beginnings exactly."""


@dataclass(slots=True)
class Generation:
    """What a policy answered."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    """Calls that the policy itself told apart; where there are none they are read out of the text."""
    count: int = 0
    """How many tokens it took, where `token_ids` can't say."""
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Of the distribution that the tokens were sampled from, or empty. At temperature 0, where each token has the
    probability 1, they are the model's own."""
    pieces: tuple[str, ...] = ()
    """The text of each token: what is out when a generation is interrupted after so many of them."""
    version: str = ""
    finish: str = "stop"
    temperature: float | None = None
    """Temperature that the tokens were sampled at. None: the request's."""
    top_p: float | None = None
    """Share of the probability that the tokens were sampled from. None: the request's."""

    @property
    def length(self) -> int:
        return len(self.token_ids) or self.count

    def cut(self, tokens: int) -> Generation:
        """What was out after so many tokens: no call is complete, nothing is said twice."""
        if self.pieces:
            text = "".join(self.pieces[:tokens])
        else:
            text = self.text[: len(self.text) * tokens // self.length] if self.length else ""
        return Generation(
            text=text,
            count=tokens,
            prompt_ids=self.prompt_ids,
            token_ids=self.token_ids[:tokens],
            logprobs=self.logprobs[:tokens],
            pieces=self.pieces[:tokens],
            version=self.version,
            finish="interrupted",
            temperature=self.temperature,
            top_p=self.top_p,
        )


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
