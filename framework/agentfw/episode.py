"""The record of an engagement: what happened when, and for each turn the exact tokens.

An episode is a plain value. It holds all that scoring, learning and reporting need, goes to disk as one line of JSON,
comes back equal, and can be handed to another process.

    >>> episode = Episode(task=Task(index=0, seed=7), environment="inbox")
    >>> Episode.from_record(episode.to_record()) == episode
    True

Each message is kept once, in `Episode.messages`; a turn says which of them it was shown. Each turn's prompt is
written to disk without the beginning that it shares with the turn before, so a long episode stays linear in its
length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from .errors import StorageError
from .timeline import Time

__all__ = ["Call", "Episode", "Event", "Intervention", "Measure", "Message", "Observation", "Task", "Turn", "Usage"]


@dataclass(frozen=True, slots=True)
class Task:
    """Which episode this is: everything an environment needs to begin it, and nothing that can't be written down."""

    index: int
    seed: int
    user: str = "user"
    sample: int = 0
    """Several samples of one task form a group: same world, different choices of the policy."""
    split: str = "test"

    @property
    def id(self) -> str:
        return f"{self.index:05d}-{self.sample}"


@dataclass(frozen=True, slots=True)
class Observation:
    """Something the world let be known at a time. `text` is how a model reads it; `data` is how a program does."""

    time: Time
    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def __str__(self) -> str:
        return self.text or " ".join([self.name, *(f"{key}={value}" for key, value in self.data.items())])


@dataclass(frozen=True, slots=True)
class Intervention:
    """Something an agent does to its world, by name and arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    """The id of the model's call that this came from; its answer carries the same id."""


Call = Intervention
"""What a model asks for is an intervention that nobody has carried out yet."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation, in the shape that chat models read."""

    role: str
    content: str
    calls: tuple[Call, ...] = ()
    answers: str = ""
    """On a message of role `tool`: the id of the call that it answers."""


@dataclass(slots=True)
class Event:
    """One thing that happened: an observation, seen, intervention, reflex, refused, work, utility or round."""

    time: Time
    kind: str
    name: str
    data: dict[str, Any] = field(default_factory=dict)
    seat: str = ""
    """Which engagement it belongs to when engagements nest; empty for the outermost."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that the environment noted along the way, such as the error of one round."""

    name: str
    value: float
    time: Time
    round: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost, in tokens. None where the policy didn't say: an unknown number is no zero.

    >>> Usage(prompt=100, sampled=5) + Usage(prompt=20, cached=15, sampled=7)
    Usage(prompt=120, cached=None, sampled=12)
    """

    prompt: int | None = None
    """Tokens that were read, cached ones included."""
    cached: int | None = None
    """How many of them the server had kept from earlier requests."""
    sampled: int | None = None
    """Tokens that were generated, also those that an interruption cut off later."""

    def __add__(self, other: Usage) -> Usage:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*(None if one is None or more is None else one + more for one, more in pairs))


@dataclass(slots=True)
class Turn:
    """One time that a policy was asked, and what came of it."""

    index: int
    started: Time
    ended: Time
    round: int = 0
    shown: tuple[int, ...] = ()
    """Indexes into `Episode.messages`: what the policy read."""
    text: str = ""
    calls: tuple[Call, ...] = ()
    failures: tuple[str, ...] = ()
    """What could not be understood of the output. Empty is what a format reward pays for."""
    count: int = 0
    """How many tokens were generated; known also where the ids are not."""
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Of the distribution that the tokens were sampled from."""
    version: str = ""
    """Which adapter of the policy made the tokens."""
    finish: str = "stop"
    """stop, length, or interrupted (then only what was out by then is kept)."""
    temperature: float = 1.0
    """Temperature that the tokens were sampled at; 0 is the likeliest token each time."""
    top_p: float = 1.0
    """Share of the probability that the tokens were sampled from."""
    seat: str = ""
    """Which engagement asked, when engagements nest; empty for the outermost."""
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class Episode:
    """Everything one engagement leaves behind."""

    task: Task
    environment: str = ""
    started: Time = 0
    ended: Time = 0
    outcome: dict[str, float] = field(default_factory=dict)
    finish: str = ""
    """Why it ended: finished (by the environment), horizon, turn_limit, or quiet (nothing more would have happened)."""
    rounds: int = 0
    utility: float = 0.0
    events: list[Event] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    actions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What could be called, by the seat that could: the name, description and parameters of each."""
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def usage(self) -> Usage:
        """What all turns cost together; None for what not every turn has told."""
        return sum((turn.usage for turn in self.turns), Usage(0, 0, 0))

    def series(self, name: str) -> list[float]:
        """The values of one measure, in order."""
        return [measure.value for measure in self.measures if measure.name == name]

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        record["task"] = asdict(self.task)
        for name in ("events", "measures"):
            record[name] = [list(_values(value)) for value in record[name]]
        record["messages"] = [_message_record(message) for message in self.messages]
        turns: list[dict[str, Any]] = []
        before: tuple[int, ...] = ()
        for turn in self.turns:
            row = {item.name: getattr(turn, item.name) for item in fields(turn)}
            row["calls"] = [list(_values(call)) for call in turn.calls]
            row["usage"] = list(_values(turn.usage))
            shared = _shared(before, turn.prompt_ids)
            row["prompt_shared"], row["prompt_ids"] = shared, turn.prompt_ids[shared:]
            before = turn.prompt_ids + turn.token_ids
            turns.append(row)
        record["turns"] = turns
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Episode:
        try:
            values = dict(record)
            values["task"] = Task(**record["task"])
            values["events"] = [Event(*row) for row in record["events"]]
            values["measures"] = [Measure(*row) for row in record["measures"]]
            values["messages"] = [_message(row) for row in record["messages"]]
            turns: list[Turn] = []
            before: tuple[int, ...] = ()
            for row in record["turns"]:
                turn = dict(row)
                prompt = before[: turn.pop("prompt_shared")] + tuple(turn["prompt_ids"])
                turn["prompt_ids"] = prompt
                turn["calls"] = tuple(Call(*call) for call in turn["calls"])
                turn["usage"] = Usage(*turn["usage"])
                for name in ("shown", "failures", "token_ids", "logprobs"):
                    turn[name] = tuple(turn[name])
                before = prompt + turn["token_ids"]
                turns.append(Turn(**turn))
            values["turns"] = turns
            return cls(**values)
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(
                f"this is no episode record of agentfw: {error!r}", fix="was it written by another version or program?"
            ) from error


def _values(value: object) -> tuple[Any, ...]:
    return tuple(getattr(value, item.name) for item in fields(value))  # type: ignore[arg-type]


def _message_record(message: Message) -> list[Any]:
    row: list[Any] = [message.role, message.content]
    if message.calls or message.answers:
        row += [[list(_values(call)) for call in message.calls], message.answers]
    return row


def _message(row: list[Any]) -> Message:
    calls = tuple(Call(*call) for call in row[2]) if len(row) > 2 else ()
    return Message(row[0], row[1], calls, row[3] if len(row) > 3 else "")


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many tokens two sequences share from the start."""
    limit = min(len(first), len(second))
    if first[:limit] == second[:limit]:
        return limit
    return next(index for index in range(limit) if first[index] != second[index])
