"""The record of an engagement: what happened when, and the exact tokens of each turn.

An episode is a plain value. It holds everything that scoring, learning and reporting need. It is stored as one line of
JSON, is equal after loading, and can be sent to another process.

    >>> episode = Episode(task=Task(index=0, seed=7), environment="inbox")
    >>> Episode.from_record(episode.to_record()) == episode
    True

Each message is stored once, in `Episode.messages`. A turn lists the indexes of the messages that it was shown. On disk,
a turn's prompt omits the prefix that it shares with the turn before, so the size of an episode grows linearly with its
length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from .errors import StorageError
from .timeline import Time

__all__ = ["Call", "Episode", "Event", "Intervention", "Measure", "Message", "Observation", "Task", "Turn", "Usage"]


@dataclass(frozen=True, slots=True)
class Task:
    """Identifies an episode: everything an environment needs to begin it, as serializable values."""

    index: int
    seed: int
    user: str = "user"
    sample: int = 0
    """Number of the sample. Samples of one task form a group: same world, different choices of the policy."""
    split: str = "test"
    query: str = ""
    """Name of what is asked. Different users may have the same query, and their episodes can then form a group."""
    group: int | None = None
    """Number of the group of an update that it was put into, where a group has several users."""

    @property
    def id(self) -> str:
        return f"{self.index:05d}-{self.sample}"


@dataclass(frozen=True, slots=True)
class Observation:
    """Something the world reported at a time. `text` is for models, `data` is for programs."""

    time: Time
    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def __str__(self) -> str:
        return self.text or " ".join([self.name, *(f"{key}={value}" for key, value in self.data.items())])


@dataclass(frozen=True, slots=True)
class Intervention:
    """An action of an agent on its world, by name and arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    """Id of the model's tool call that this came from. The answer carries the same id."""


Call = Intervention
"""A call that a model asks for is an intervention that has not been carried out yet."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation, in the format of chat models."""

    role: str
    content: str
    calls: tuple[Call, ...] = ()
    answers: str = ""
    """Id of the call that a message of role `tool` answers."""


@dataclass(slots=True)
class Event:
    """One thing that happened: an observation, seen, memory, intervention, reflex, refused, hook, work, utility or
    round."""

    time: Time
    kind: str
    name: str
    data: dict[str, Any] = field(default_factory=dict)
    seat: str = ""
    """Name of the inner engagement it belongs to, when engagements are nested. Empty for the outermost."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A value that the environment measured during the episode, such as the error of one round."""

    name: str
    value: float
    time: Time
    round: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage of an answer. None means that the policy didn't report the number, which is not the same as zero.

    >>> Usage(prompt=100, sampled=5) + Usage(prompt=20, cached=15, sampled=7)
    Usage(prompt=120, cached=None, sampled=12, cost=0.0, written=0, written_long=0)
    """

    prompt: int | None = None
    """Prompt tokens, cached ones included."""
    cached: int | None = None
    """Prompt tokens that the server had cached from earlier requests."""
    sampled: int | None = None
    """Generated tokens, including those that an interruption discarded."""
    cost: float | None = 0.0
    """What they cost. 0 for a model of one's own, None where a price or a number of tokens isn't known."""
    written: int | None = 0
    """Prompt tokens that the server wrote to its cache, for which some charge more."""
    written_long: int | None = 0
    """Of these, the ones that it keeps for an hour."""

    @property
    def tokens(self) -> int | None:
        """Prompt and sampled tokens together."""
        return None if self.prompt is None or self.sampled is None else self.prompt + self.sampled

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """The sum of several. A number that one of them doesn't report is None."""
        columns = list(zip(*map(_USAGE, usages), strict=True)) or [()] * len(fields(cls))
        return cls(*(None if None in column else sum(column) for column in columns))

    def __add__(self, other: Usage) -> Usage:
        return self.total((self, other))


@dataclass(slots=True)
class Turn:
    """One answer of the policy, with its prompt, its tokens and the calls found in it."""

    index: int
    started: Time
    ended: Time
    round: int = 0
    shown: tuple[int, ...] = ()
    """Indexes into `Episode.messages` of the messages that the policy read."""
    text: str = ""
    calls: tuple[Call, ...] = ()
    failures: tuple[str, ...] = ()
    """Errors from parsing the output. Format rewards use them."""
    count: int = 0
    """Number of generated tokens. It is known even if the token ids are not."""
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Log probabilities under the distribution that the tokens were sampled from."""
    version: str = ""
    """Version of the policy's adapter that generated the tokens."""
    finish: str = "stop"
    """stop, length, or interrupted. If interrupted, only the output up to then is kept."""
    temperature: float = 1.0
    """Sampling temperature. 0 is greedy decoding."""
    top_p: float = 1.0
    """Nucleus sampling: share of the probability mass that the tokens were sampled from."""
    seat: str = ""
    """Name of the inner engagement that asked, when engagements are nested. Empty for the outermost."""
    usage: Usage = field(default_factory=Usage)
    said: str | None = None
    """The text without the calls in it. None: the whole text."""
    constrained: bool = False
    """Whether the tokens were drawn from a distribution that a learner can't compute, such as those that a JSON schema
    allows."""
    stop: tuple[str, ...] = ()
    """Stop texts of the request."""
    max_tokens: int | None = None
    """Maximum number of tokens of the request, if it had one."""
    model: str = ""
    """Name of the model that answered, if a gateway has several. Empty for the policy of its run."""
    at: float | None = None
    """When the policy of a session was asked, in seconds since 1970. None in a world that has a time of its own."""
    first: float | None = None
    """Seconds until the first piece of a streamed answer."""


@dataclass(slots=True)
class Episode:
    """The complete record of one engagement."""

    task: Task
    environment: str = ""
    started: Time = 0
    ended: Time = 0
    outcome: dict[str, float] = field(default_factory=dict)
    finish: str = ""
    """Why the episode ended: finished (by the environment), horizon, turn_limit, or quiet (nothing more to happen)."""
    rounds: int = 0
    utility: float = 0.0
    events: list[Event] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    actions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Actions that could be called, by seat: the name, description and parameters of each."""
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    profile: dict[str, str] = field(default_factory=dict)
    """What was known of the user beforehand, in words, by view."""

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def usage(self) -> Usage:
        """Total usage of all turns. A number that some turn didn't report is None."""
        return Usage.total(turn.usage for turn in self.turns)

    @property
    def failed_calls(self) -> frozenset[str]:
        """Ids of refused actions and of failed tool calls."""
        ids = [event.data.get("id") for event in self.events if event.kind == "refused"]
        observed = (event.data for event in self.events if event.kind == "observation")
        ids += [data.get("call") for data in observed if data.get("well") is False]
        return frozenset(str(one) for one in ids if one)

    @property
    def failed_requests(self) -> list[str]:
        """Why a request to a session wasn't answered, each time."""
        return [str(event.data["error"]) for event in self.events if (event.kind, event.name) == ("session", "failed")]

    def series(self, name: str) -> list[float]:
        """The values of one measure, in order."""
        return [measure.value for measure in self.measures if measure.name == name]

    def copied(self) -> Episode:
        """A deep copy."""
        # `dataclasses.replace` would look up each of the fields by itself.
        turns = [Turn(*_TURN(turn)) for turn in self.turns]
        for turn in turns:
            turn.calls = _own_calls(turn.calls)
        return replace(
            self,
            outcome=dict(self.outcome),
            events=[Event(one.time, one.kind, one.name, _own(one.data), one.seat) for one in self.events],
            measures=list(self.measures),
            actions=_own(self.actions),
            messages=[replace(one, calls=_own_calls(one.calls)) if one.calls else one for one in self.messages],
            turns=turns,
            profile=dict(self.profile),
        )

    def to_record(self) -> dict[str, Any]:
        """The episode as plain JSON values."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        record["task"] = {item.name: getattr(self.task, item.name) for item in fields(self.task)}
        record["events"] = list(map(list, map(_EVENT, self.events)))
        record["measures"] = list(map(list, map(_MEASURE, self.measures)))
        record["messages"] = [[one.role, one.content] for one in self.messages]
        for row, one in zip(record["messages"], self.messages, strict=True):
            if one.calls or one.answers:
                row += [list(map(list, map(_CALL, one.calls))), one.answers]
        turns: list[dict[str, Any]] = []
        before: tuple[int, ...] = ()
        for turn in self.turns:
            row = dict(zip(_TURN_FIELDS, _TURN(turn), strict=True))
            row["calls"] = list(map(list, map(_CALL, turn.calls)))
            row["usage"] = _USAGE(turn.usage)[: 6 if turn.usage.written else 4]
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
            values["messages"] = [
                Message(role, content, tuple(Call(*call) for call in more[0]), more[1])
                if more
                else Message(role, content)
                for role, content, *more in record["messages"]
            ]
            turns: list[Turn] = []
            before: tuple[int, ...] = ()
            for row in record["turns"]:
                turn = dict(row)
                prompt = before[: turn.pop("prompt_shared")] + tuple(turn["prompt_ids"])
                turn["prompt_ids"] = prompt
                turn["calls"] = tuple(Call(*call) for call in turn["calls"])
                turn["usage"] = Usage(*turn["usage"])
                turn.setdefault("stop", ())
                for name in ("shown", "failures", "token_ids", "logprobs", "stop"):
                    turn[name] = tuple(turn[name])
                before = prompt + turn["token_ids"]
                turns.append(Turn(**turn))
            values["turns"] = turns
            return cls(**values)
        except (KeyError, TypeError, AttributeError) as error:
            wrong = f"this is not an agentfw episode record: {error!r}"
            raise StorageError(wrong, fix="use the agentfw version that wrote it") from error


def _own(value: Any) -> Any:
    """A copy of a JSON value. `copy.deepcopy` would take ten times as long."""
    if isinstance(value, dict):
        return {key: inner if type(inner) in _UNCHANGEABLE else _own(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [inner if type(inner) in _UNCHANGEABLE else _own(inner) for inner in value]
    return value


_UNCHANGEABLE = frozenset({str, int, float, bool, type(None)})
"""Types of JSON values that a copy can share, because nothing changes them."""


def _own_calls(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    return tuple(Call(call.name, _own(call.arguments), call.id) for call in calls)


# What takes the values of such an object, in C: an episode may have ten thousands of them.
_EVENT, _MEASURE, _CALL, _USAGE, _TURN = (
    attrgetter(*(item.name for item in fields(kind))) for kind in (Event, Measure, Call, Usage, Turn)
)
_TURN_FIELDS = tuple(item.name for item in fields(Turn))


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """Number of tokens that two sequences share at the start."""
    limit = min(len(first), len(second))
    if first[:limit] == second[:limit]:
        return limit
    return next(index for index in range(limit) if first[index] != second[index])
