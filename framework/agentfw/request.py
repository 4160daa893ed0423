"""The values that agents, policies and environments exchange: what an agent is shown and what a policy answers.

request = Request([Message("user", "What next?")], actions=[Action("pour", "Pour the tea", {})])
generation = Generation(text="pour()", usage=Usage(prompt=12, sampled=3))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from .episode import Call, Intervention, Message, Observation, Task, Usage
from .timeline import Time

__all__ = [
    "NO_CALLS",
    "Action",
    "Brief",
    "CallFormat",
    "CallsInText",
    "Forwarded",
    "Generation",
    "InFlight",
    "Moment",
    "Passed",
    "Request",
    "Sampling",
]


@dataclass(frozen=True, slots=True)
class Action:
    """One available action, as described to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of type object."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """An activity in progress, or one that was suspended and can be resumed."""

    name: str
    spent: Time
    duration: Time
    running: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """What an agent is shown when it is asked to decide."""

    now: Time
    observations: tuple[Observation, ...] = ()
    """New observations since the last decision, in order. Empty at the start, or if the agent asked to be woken."""
    in_flight: tuple[InFlight, ...] = ()
    interrupted: Generation | None = None
    """The agent's own answer that these observations interrupted, up to that point."""
    round: int = 0
    rounds: int = 0
    woken: bool = False
    """Whether it is asked without an observation: at the start, when it is free again, or as a requested wake-up."""

    def of(self, name: str) -> tuple[Observation, ...]:
        """The observations with this name."""
        return tuple(observation for observation in self.observations if observation.name == name)


@dataclass(frozen=True, slots=True)
class Brief:
    """Instructions for the agent before the episode begins."""

    goal: str
    actions: tuple[Action, ...] = ()
    time_per_token: float = 0.0
    """World time per generated token, unless the run sets another value."""
    demonstration: Callable[[Moment], Iterable[Intervention | str]] | None = None
    """A simple rule for this world. The `scripted` policy follows it by default."""
    plain: bool = False
    """Whether the environment reads answers itself. The agent then looks for no calls in the text, so that no text is a
    parse failure; calls that the policy separated from it are carried out as always."""
    profile: Mapping[str, str] = field(default_factory=dict)
    """What is known of the user beforehand, in words, by view. Memories and reward models may use it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings. None leaves a choice to the policy."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a policy can use for one turn."""

    messages: Sequence[Message]
    actions: Sequence[Action] = ()
    """Available actions: the environment's, and the agent's tools."""
    sampling: Sampling = field(default_factory=Sampling)
    moment: Moment | None = None
    """The content of the messages as values, for policies that are programs."""
    brief: Brief = field(default_factory=lambda: Brief(""))
    task: Task = field(default_factory=lambda: Task(0, 0))
    before: Generation | None = None
    """The generation of the last answer among the messages, if it answered all messages before it. Policies that build
    token prompts reuse its tokens, so that turns share their prefix exactly."""
    stop: Sequence[str] = ()
    """Texts at which the answer may end. What comes after them is cut off in any case."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the answer must follow. Only for policies that can (`follows_schemas`)."""
    plain: bool = False
    """Whether the answer goes on with the text of the last message, without a chat template. Only for policies that can
    (`continues`)."""


CallFormat = Literal["tags", "json", "elements"]


@dataclass(frozen=True, slots=True)
class CallsInText:
    """Where the calls of an answer can be."""

    formats: frozenset[CallFormat] = frozenset(("tags", "json", "elements"))
    follows_anything: bool = False
    """Whether calls may follow any text. For models that write thoughts and calls and nothing else, such as `tiny`."""
    places: frozenset[int] | None = None
    """Characters at which the model sampled the token that begins a call. None: its tokenizer has no such token, or the
    tokens are not known."""


NO_CALLS = CallsInText(frozenset())
"""Text is text, because the policy tells calls apart by itself."""


@dataclass(slots=True)
class Generation:
    """A policy's answer."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    """Calls that the policy itself separated from the text. Without any, they are parsed from the text."""
    count: int = 0
    """Number of generated tokens, for policies without `token_ids`."""
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Logprobs under the distribution that the tokens were sampled from, or empty. At temperature 0, where each token
    has probability 1, they are the model's own."""
    pieces: tuple[str, ...] = ()
    """Text of each token. An interrupted generation is cut after a number of tokens."""
    version: str = ""
    """Version of the adapter that generated the tokens: the one that `publish` was given, or a name of the policy."""
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    temperature: float | None = None
    """Temperature that the tokens were sampled at. None: the request's temperature."""
    top_p: float | None = None
    """Top-p that the tokens were sampled at. None: the request's top-p."""
    repeated: bool = False
    """Whether it is an answer that was given before, so that it took no tokens again."""
    failures: tuple[str, ...] = ()
    """Calls that the policy separated from the text and couldn't read, in words."""
    constrained: bool = False
    """Whether its tokens were drawn from those that a schema allows, or with penalties."""
    model: str = ""
    """The model that gave it, as in a turn."""
    said: str | None = None
    """The text without the calls that are spelled in it. None: what is left of it when they are parsed."""
    hooks: tuple[Mapping[str, Any], ...] = ()
    """What hooks did to its request: data of events of the kind `hook`."""
    in_text: CallsInText = field(default_factory=CallsInText)
    """Where in the text calls can be. `NO_CALLS` if the policy always tells calls apart by itself."""

    @property
    def length(self) -> int:
        return len(self.token_ids) or self.count

    def cut(self, tokens: int) -> Generation:
        """The answer cut after this many tokens, without any calls."""
        if self.pieces:
            text = "".join(self.pieces[:tokens])
        else:
            text = self.text[: len(self.text) * tokens // self.length] if self.length else ""
        cut = replace(self, text=text, count=tokens, finish="interrupted", calls=(), failures=(), said=None, hooks=())
        cut.token_ids, cut.logprobs, cut.pieces = self.token_ids[:tokens], self.logprobs[:tokens], self.pieces[:tokens]
        return replace(cut, repeated=False, model="")


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request that a policy passes on to a server as a program wrote it, in the format of the API that it asked.

    What agentfw doesn't know in it is passed on all the same, in both directions. The record is made from what passed.
    """

    body: Mapping[str, Any]
    protocol: str = "chat"
    """The protocol that it is written in, by the name that `Policy.speaks` is asked with. Empty: nobody reads it."""
    path: str = "chat/completions"
    """Where it goes, below the address of the server. `{model}` in it stands for the model's name."""
    model: str = ""
    """The model that the program asks for. Empty: the server's default."""
    query: str = ""
    raw: bytes = b""
    """The body's bytes. They are sent as they are if nothing has to be changed. Empty: it was translated."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The program's headers, of which those that concern only this connection are not passed on."""
    method: str = "POST"
    key: Literal["own", "either", "callers"] = "own"  # the policy's, or that in the headers; either: if it has none
    recalled: str = ""
    """What the memories recalled, which is added to the system message."""
    added: str = ""
    """What else is added to the system message, before it."""
    recalled_again: Sequence[tuple[int, str]] = ()
    """What they recalled later, behind the user's messages of these numbers, from 0."""
    sampling: Sampling = field(default_factory=Sampling)
    """The sampling of the run, which holds where the body leaves a choice open, or if `run_wins`."""
    run_wins: bool = False
    begun: Callable[[int, Mapping[str, str]], object] = lambda status, headers: None
    """Called with the status and the headers of the answer when a stream begins."""
    hear: Callable[[bytes], object] = lambda line: None
    """Called with each line of a stream, with its end."""
    tell: Callable[[str], object] = lambda text: None
    """Called with each new piece of a stream's text."""


class Passed(NamedTuple):
    """The answer to a request that was passed on, as it came."""

    generations: tuple[Generation, ...]
    """What was generated, for the record: one for each choice."""
    content: bytes = b""
    """The whole answer, if it was not streamed."""
    headers: Mapping[str, str] = {}
    status: int = 200
