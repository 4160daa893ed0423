"""What an agent is shown and asked, and what a policy answers, as plain values.

Everything here is a leaf: environments, tools, agents and policies all speak in these values and needn't import each
other for it.

    request = Request([Message("user", "What next?")], actions=[Action("pour", "Pour the tea", {})])
    generation = Generation(text="pour()", usage=Usage(prompt=12, sampled=3))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .episode import Call, Intervention, Message, Observation, Task, Usage
from .timeline import Time

__all__ = ["Action", "Brief", "Generation", "InFlight", "Moment", "Request", "Sampling"]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing an agent can do here, as a model reads it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of type object."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """Something that is going on, or was put aside and can be taken up again."""

    name: str
    spent: Time
    duration: Time
    running: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """What an agent is shown when it is asked."""

    now: Time
    observations: tuple[Observation, ...] = ()
    """What became known since it was last asked, in order. May be empty: at the start, or when it asked to be woken."""
    in_flight: tuple[InFlight, ...] = ()
    interrupted: Generation | None = None
    """Its own answer that these observations interrupted: what was out by then."""
    round: int = 0
    rounds: int = 0
    woken: bool = False
    """Asked for another reason than an observation: it is the start, it is free again, or it asked to be woken."""

    def of(self, name: str) -> tuple[Observation, ...]:
        """The observations of one name."""
        return tuple(observation for observation in self.observations if observation.name == name)


@dataclass(frozen=True, slots=True)
class Brief:
    """What an agent is told before it begins."""

    goal: str
    actions: tuple[Action, ...] = ()
    time_per_token: float = 0.0
    """How much of this world's time one generated token takes, unless the run says otherwise."""
    demonstration: Callable[[Moment], Iterable[Intervention | str]] | None = None
    """How a simple rule would act here; the `scripted` policy follows it when it is given nothing else."""


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
    usage: Usage = field(default_factory=Usage)
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
            usage=self.usage,
            temperature=self.temperature,
            top_p=self.top_p,
        )
