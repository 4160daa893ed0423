"""An episode that is led from outside: a program or a person decides what the policy is asked, and when.

The requests of a session form a tree. Each message is stored once, and each turn names the messages that it was shown,
so parallel requests, retries and conversations that go back and try again are recorded as what they are. Where a
request sends back an answer of the policy unchanged, the policy gets the exact tokens of that answer.

    session = Session(policy, Task(0, seed=7))
    reply = await session.answer([Message("user", "What is 2 + 2?")])
    session.feedback(1.0)
    episode = session.end()

A `SessionEnvironment` is a world that plays its episodes in this way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from .environment import Environment, World
from .episode import Call, Episode, Event, Intervention, Message, Observation, Task, Turn
from .errors import AgentfwError, UsageError, not_implemented
from .memory import Memory, Query
from .parsing import parse_calls
from .policy import Policy
from .request import Action, Brief, Generation, Moment, Request, Sampling
from .seeds import Seeds

__all__ = ["Reply", "Session", "SessionEnvironment"]

Demonstration = Callable[[Moment], Iterable[Intervention | str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as the asker gets it. The turn has the text and the tokens as the policy generated them."""

    turn: Turn
    text: str
    """The text without the calls in it, up to the stop sequence."""
    calls: tuple[Call, ...]
    finish: Literal["stop", "length", "calls"]

    @property
    def message(self) -> Message:
        return Message("assistant", self.text, self.calls)


@dataclass(slots=True, eq=False)
class _Node:
    """A message, below the messages before it."""

    message: Message
    place: int | None = None
    """Its index in `Episode.messages`. None for an answer that was not sent back so far."""
    generation: Generation | None = None
    asked: int = 0
    """Number of times that the policy was asked what comes next."""
    below: dict[Hashable, _Node] = field(default_factory=dict)


class Session:
    """One episode in progress. Several requests can be in flight at once."""

    def __init__(
        self,
        policy: Policy,
        task: Task,
        *,
        environment: str = "",
        memories: Sequence[Memory] = (),
        recall: int = 5,
        sampling: Sampling | None = None,
        sampling_wins: bool = False,
        max_turns: int = 1000,
        watch: Callable[[Episode, Turn], object] | None = None,
    ) -> None:
        """`sampling` is used where a request leaves a choice open, or with `sampling_wins`, wherever it is set."""
        self.policy, self.memories, self.recall = policy, memories, recall
        self.sampling, self.sampling_wins = sampling or Sampling(), sampling_wins
        self.max_turns, self.watch = max_turns, watch
        self.episode = Episode(task=task, environment=environment)
        self.failure: AgentfwError | None = None
        """What the last answer failed with, if it did."""
        self.used = self._began = time.monotonic()
        """When the session was last used."""
        self.in_flight = 0
        """Number of requests that are being answered."""
        self._root = _Node(Message("", ""))
        self._recalled: dict[Hashable, str] = {}
        self._taken = (0, 0, 0, 0)
        for memory in memories:
            memory.begin(task)

    @property
    def name(self) -> str:
        """The name that it was given by whoever leads it."""
        return self.episode.task.query

    @property
    def over(self) -> bool:
        return bool(self.episode.finish)

    @property
    def now(self) -> float:
        """Seconds since the session began."""
        return round(time.monotonic() - self._began, 4)

    async def answer(
        self,
        messages: Sequence[Message],
        actions: Sequence[Action] = (),
        sampling: Sampling | None = None,
        *,
        user: str = "",
        stop: Sequence[str] = (),
        tell: Callable[[str], object] | None = None,
        demonstration: Demonstration | None = None,
    ) -> Reply:
        """Let the policy answer a conversation. `tell` is called with each new piece of the text.

        The policy `scripted` follows the demonstration.

        Memories are asked only where the request names the user. They are asked once for each conversation, so that
        its later turns share their prefix.
        """
        if self.over:
            raise UsageError("this session has ended", fix="begin a new session")
        if not messages:
            raise UsageError("there is no message to answer", fix="send at least one message")
        if len(self.episode.turns) + self.in_flight >= self.max_turns:
            raise UsageError(
                f"this session has had {self.max_turns} turns", fix="begin a new session, or raise max_turns"
            )
        self.in_flight += 1
        try:
            reply = await self._answer(messages, actions, sampling or Sampling(), user, stop, tell, demonstration)
            self.failure = None
            return reply
        except AgentfwError as error:
            self.failure = error
            raise
        finally:
            self.in_flight -= 1
            self.used = time.monotonic()

    async def hear(self, messages: Sequence[Message], *, user: str = "") -> None:
        """Record a conversation before it is answered."""
        self._show(self._path(await self._with_memories(messages, user)))

    async def _answer(
        self,
        messages: Sequence[Message],
        actions: Sequence[Action],
        sampling: Sampling,
        user: str,
        stop: Sequence[str],
        tell: Callable[[str], object] | None,
        demonstration: Demonstration | None,
    ) -> Reply:
        path = self._path(await self._with_memories(messages, user))
        asked = path[-1]
        self._show(path)
        self._offer(actions)
        answered = max((i for i, node in enumerate(path) if node.message.role == "assistant"), default=-1)
        started, goal = self.now, next((one.content for one in messages if one.role == "system"), "")
        request = Request(
            [node.message for node in path],
            actions,
            self._sampling(sampling, asked.asked),
            Moment(started, tuple(one for node in path[answered + 1 :] for one in _observed(node.message, started))),
            Brief(goal, tuple(actions), demonstration=demonstration),
            self.episode.task,
            path[answered].generation if answered >= 0 else None,
        )
        asked.asked += 1
        generation = await (self.policy.generate(request) if tell is None else self.policy.stream(request, tell))
        if generation.temperature is None:
            generation.temperature = request.sampling.temperature
        if generation.top_p is None:
            generation.top_p = request.sampling.top_p
        return self._record(path, request, generation, started, stop)

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _path(self, messages: Sequence[Message]) -> list[_Node]:
        """The nodes of a conversation. Answers of the policy that come back unchanged are those that it gave."""
        node, path = self._root, list[_Node]()
        for message in messages:
            key = _key(message)
            if key not in node.below:
                node.below[key] = _Node(message)
            node = node.below[key]
            path.append(node)
        return path

    def _show(self, path: Sequence[_Node]) -> None:
        """Store the messages that are new, and note what the user and the tools say in them."""
        for node in path:
            if node.place is None:
                node.place = len(self.episode.messages)
                self.episode.messages.append(node.message)
                for one in _observed(node.message, self.now):
                    self.note("observation", one.name, {"text": one.text, **one.data})

    def _offer(self, actions: Sequence[Action]) -> None:
        offered = self.episode.actions.setdefault("", [])
        for action in map(asdict, actions):
            if action not in offered:
                offered.append(action)

    def _sampling(self, wished: Sampling, before: int) -> Sampling:
        """The sampling of a request. Who asks the same thing again gets another sample, unless they set a seed."""
        first, second = (self.sampling, wished) if self.sampling_wins else (wished, self.sampling)
        names = ("temperature", "top_p")
        chosen = {
            name: getattr(second, name) if getattr(first, name) is None else getattr(first, name) for name in names
        }
        limits = [limit for limit in (wished.max_tokens, self.sampling.max_tokens) if limit is not None]
        seed = wished.seed
        if seed is None or self.sampling_wins:
            root = self.episode.task.seed if self.sampling.seed is None else self.sampling.seed
            seed = Seeds(root).integer("again", before) if before else self.sampling.seed
        return Sampling(**chosen, max_tokens=min(limits, default=None), seed=seed)

    def _record(
        self, path: Sequence[_Node], request: Request, generation: Generation, started: float, stop: Sequence[str]
    ) -> Reply:
        index, names = len(self.episode.turns), {action.name for action in request.actions}
        calls, failures, text = generation.calls, tuple[str, ...](), generation.text
        if names:
            parsed = parse_calls(text, names)
            if not calls:
                calls, failures = tuple(parsed.calls), tuple(parsed.failures)
            if calls:
                text = _outside(parsed.rest)
        if not all(call.id for call in generation.calls) or not generation.calls:
            calls = tuple(Call(call.name, call.arguments, f"call_{index}_{i}") for i, call in enumerate(calls))
        cuts = [place for word in stop if word and (place := text.find(word)) >= 0]
        text = text[: min(cuts)] if cuts else text
        shown = tuple(node.place for node in path if node.place is not None)
        turn = generation.turn(index, started, self.now, shown, calls, failures=failures)
        self.episode.turns.append(turn)
        reply = Reply(turn, text, calls, "calls" if calls else "length" if turn.finish == "length" else "stop")
        known = path[-1].below.setdefault(_key(reply.message), _Node(Message("assistant", generation.text, calls)))
        known.generation = known.generation or generation
        if self.watch is not None:
            self.watch(self.episode, turn)
        return reply

    async def _with_memories(self, messages: Sequence[Message], user: str) -> Sequence[Message]:
        """The conversation, with what the memories recall for the user in its system message."""
        if not self.memories or not user or user != self.episode.task.user:
            return messages
        first = next((i for i, message in enumerate(messages) if message.role == "user"), None)
        if first is None:
            return messages
        key = tuple(map(_key, messages[: first + 1]))
        if key not in self._recalled:
            query = Query(messages[first].content, self.episode.task, self.now, 0, self.recall)
            found = [one for memory in self.memories for one in await memory.recall(query)]
            self._recalled[key] = "\n".join(["You remember:", *(f"- {one.text}" for one in found)]) if found else ""
            for one in found:
                why = json.loads(json.dumps(one.why, default=str))
                self.note("memory", "recalled", {"text": one.text, "score": float(one.score), "why": why})
        recalled = self._recalled[key]
        if not recalled:
            return messages
        if messages[0].role == "system":
            return [replace(messages[0], content=f"{messages[0].content}\n\n{recalled}"), *messages[1:]]
        return [Message("system", recalled), *messages]

    # -- the record ----------------------------------------------------------------------------------------------------

    def note(self, kind: str, name: str, data: dict[str, Any] | None = None) -> None:
        """Record an event."""
        self.episode.events.append(Event(self.now, kind, name, data or {}))

    def feedback(self, value: float, *, words: str = "", correction: str = "", turn: int | None = None) -> None:
        """Record what the user thinks of an answer, or of the whole session: -1 is bad, 1 is good."""
        if self.over:
            raise UsageError("this session has ended", fix="give feedback before the end")
        if turn is not None and not 0 <= turn < len(self.episode.turns):
            raise UsageError(
                f"there is no turn {turn}", fix=f"this session has {len(self.episode.turns)} turns, from 0"
            )
        data = {"value": value, "turn": turn, "correction": correction, "text": words or correction}
        self.note("observation", "feedback", {**data, **({"by": "user"} if data["text"] else {})})
        self.used = time.monotonic()

    def remember(self, text: str) -> None:
        """Record what the user wants to be remembered. Memories learn it when the session ends."""
        if self.over:
            raise UsageError("this session has ended", fix="begin a new session")
        self.note("observation", "remember", {"by": "user", "text": text})
        self.used = time.monotonic()

    def forget_recalled(self) -> None:
        """Ask the memories again before the next answer."""
        self._recalled.clear()

    def end(self, finish: str = "ended", **outcome: float) -> Episode:
        """End the session. Returns the whole episode."""
        if not self.over:
            self.episode.finish, self.episode.ended = finish, self.now
            self.episode.outcome.update(outcome)
        return self.episode

    def news(self) -> Episode:
        """What was added since the last call. An episode is the sum of its news (see `extended`)."""
        events, messages, turns, actions = self._taken
        whole = self.episode
        self._taken = _lengths(whole)
        return replace(
            whole,
            events=whole.events[events:],
            messages=whole.messages[messages:],
            turns=whole.turns[turns:],
            actions={seat: offered[actions:] for seat, offered in whole.actions.items()},
        )

    def restore(self, episode: Episode) -> None:
        """Go on with an episode of an earlier process."""
        self.episode = episode
        self._began = time.monotonic() - max([0.0, *(event.time for event in episode.events)])
        for turn in episode.turns:
            path = self._path([episode.messages[place] for place in turn.shown])
            for node, place in zip(path, turn.shown, strict=True):
                node.place = place
            path[-1].asked += 1
            names = {str(action["name"]) for action in episode.actions.get("", ())}
            text = _outside(parse_calls(turn.text, names).rest) if turn.calls else turn.text
            answer = _Node(
                Message("assistant", turn.text, turn.calls),
                generation=Generation(
                    turn.text, turn.calls, turn.count, turn.prompt_ids, turn.token_ids, turn.logprobs
                ),
            )
            # Under both keys: as the client sends it back, and as the record has it.
            path[-1].below[_key(Message("assistant", text, turn.calls))] = answer
            path[-1].below[_key(answer.message)] = answer
        self._taken = _lengths(episode)


class SessionEnvironment(Environment):
    """An environment whose agent is somebody else's program, which asks the policy through a session."""

    async def play(self, session: Session) -> None:
        """Play the episode, and end the session."""
        raise not_implemented(self, "play")

    def begin(self, world: World, task: Task) -> None:
        raise UsageError(
            f"{type(self).__name__} plays its episodes through sessions, so no agent of ours can be put into it",
            fix="run it: agentfw run ENVIRONMENT",
        )


def extended(episode: Episode, news: Episode) -> Episode:
    """An episode with its next news."""
    return replace(
        news,
        events=[*episode.events, *news.events],
        messages=[*episode.messages, *news.messages],
        turns=[*episode.turns, *news.turns],
        actions={
            seat: [*episode.actions.get(seat, ()), *news.actions.get(seat, ())]
            for seat in (*episode.actions, *news.actions)
        },
    )


def _lengths(episode: Episode) -> tuple[int, int, int, int]:
    """The number of events, messages, turns and offered actions. A session has one seat."""
    return len(episode.events), len(episode.messages), len(episode.turns), len(episode.actions.get("", ()))


def _observed(message: Message, now: float) -> Iterator[Observation]:
    """What a message of the user or of a tool says, as an observation."""
    if message.role == "user":
        yield Observation(now, "message", {"by": "user", "said": message.content}, message.content)
    elif message.role == "tool":
        yield Observation(now, "answer", {"call": message.answers}, message.content)


def _outside(rest: str) -> str:
    """What is told of the text beside calls. Line breaks between them are nothing."""
    return rest if rest.strip() else ""


def _key(message: Message) -> Hashable:
    calls = tuple(
        (call.id, call.name, json.dumps(dict(call.arguments), sort_keys=True, default=str)) for call in message.calls
    )
    return message.role, message.content, calls, message.answers
