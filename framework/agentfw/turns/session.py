"""An episode that is led from outside: a program or a person decides what the policy is asked, and when.

The requests of a session form a tree. Each message is stored once, and each turn names the messages that it was shown,
so parallel requests, retries and conversations that go back and try again are recorded as what they are. Where a
request sends back an answer of the policy unchanged, the policy gets the exact tokens of that answer.

The session calls its own tools, which are those of its memories. Whoever leads it sees neither the calls nor what came
of them. Both are in the record, and in what the policy is shown from then on.

    session = Session(policy, Task(0, seed=7))
    reply = await session.answer([Message("user", "What is 2 + 2?")])
    session.feedback(1.0)
    episode = session.end()

A `SessionEnvironment` is a world that plays its episodes in this way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ..environment import Environment, World
from ..episode import Call, Episode, Event, Intervention, Message, Observation, Task, Turn
from ..errors import AgentfwError, UsageError, not_implemented
from ..memory import Memory, Recollection
from ..policy import Policy
from ..request import Action, Brief, Forwarded, Generation, Moment, Passed, Request, Sampling
from ..seeds import Seeds
from ..timeline import Time
from ..tool import Tool
from .message_tree import MessageTree, Node, message_key
from .pieces import Pieces
from .turn_builder import TurnBuilder

__all__ = ["Reply", "Session", "SessionEnvironment", "Unfinished", "extended", "lengths", "news_since"]

Finish = Literal["stop", "length", "calls"]
_MOST_CALLING = 16
"""Answers with calls of the session's own tools, for one request."""
Demonstration = Callable[[Moment], Iterable[Intervention | str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as the asker gets it. The turn has the text and the tokens as the policy generated them."""

    turn: Turn
    """The last one, if the session called tools of its own before."""
    text: str
    """The text without the calls in it, up to the stop sequence."""
    calls: tuple[Call, ...]
    finish: Finish

    pieces: tuple[str, ...] = ()
    """The text of each token of the turn, if it is known."""
    passed: Passed | None = None
    """The answer as it came, if the request was passed on."""

    @property
    def message(self) -> Message:
        return Message("assistant", self.text, self.calls)


@dataclass(slots=True, eq=False)
class Unfinished:
    """An answer that the policy is giving."""

    number: int
    """Counts the answers of its session."""
    started: Time
    shown: tuple[int, ...]
    """Indexes into `Episode.messages`, as in a turn."""
    told: list[str] = field(default_factory=list)
    """The pieces of its text so far, if it is streamed."""

    def cut_off(self, why: str) -> dict[str, Any]:
        """The answer as it is recorded if it ends here."""
        return {"shown": list(self.shown), "started": self.started, "text": "".join(self.told), "why": why}


@dataclass(slots=True)
class _Asked:
    """What a request asks for besides its messages."""

    goal: str
    actions: Sequence[Action]
    sampling: Sampling
    stop: Sequence[str]
    schema: Mapping[str, Any] | None
    tell: Callable[[str], object] | None
    demonstration: Demonstration | None
    forwarded: Forwarded | None
    plain: bool
    policy: Policy
    model: str


class Session:
    """One episode in progress. Several requests can be in flight at once."""

    def __init__(
        self,
        policy: Policy,
        task: Task,
        *,
        environment: str = "",
        memories: Sequence[Memory] = (),
        tools: Sequence[Tool] = (),
        recall: int = 5,
        sampling: Sampling | None = None,
        sampling_wins: bool = False,
        sole_user: bool = False,
        max_turns: int = 1000,
        watch: Callable[[Episode, Turn], object] | None = None,
        write: Callable[[Session], object] | None = None,
    ) -> None:
        """`sampling` is used where a request leaves a choice open, or with `sampling_wins`, wherever it is set.

        With `sole_user`, requests that name nobody are of the task's user, because nobody else can make any.

        `write` is called before the policy is asked, so that a kill doesn't lose the question, and when an answer was
        cut off.
        """
        self.policy, self.builder = policy, TurnBuilder(tools, memories, recall)
        self.sampling, self.sampling_wins = sampling or Sampling(), sampling_wins
        self.max_turns, self.watch, self.write, self._sole_user = max_turns, watch, write, sole_user
        self.episode = Episode(task=task, environment=environment)
        self.failure: AgentfwError | None = None
        """The error of the last answer, if it failed."""
        self.used = self._began = time.monotonic()
        """When the session was last used."""
        self.in_flight = 0
        """Number of requests that are being answered."""
        self.unfinished: list[Unfinished] = []
        """The answers that the policy is giving."""
        self._begun = 0
        self._tree = MessageTree()
        self._recalled: dict[Hashable, str] = {}
        self._said = set[int | None]()
        """Indexes of the messages that the memories may hear as what the user says."""
        self._taken = (0, 0, 0, 0)
        self._given, self._goes_on, self._joining = self.builder.tools, False, asyncio.Lock()

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
        schema: Mapping[str, Any] | None = None,
        tell: Callable[[str], object] | None = None,
        demonstration: Demonstration | None = None,
        forwarded: Forwarded | None = None,
        plain: bool = False,
        model: str = "",
        policy: Policy | None = None,
        carries_out: bool = True,
    ) -> Reply:
        """Let the policy answer a conversation. `tell` is called with each new piece of the reply's text.

        With a `schema`, the answer follows it and has no calls; only policies that can (`follows_schemas`) do that. The
        policy `scripted` follows the demonstration. With `forwarded`, the policy passes that on as it is, and the
        other arguments say what the record has. A `plain` answer goes on with the text of the only message. A `policy`
        answers in place of the session's own, and `model` is its name in the record.

        Memories take part only where the request names the user. They are asked once for each conversation, so that
        its later turns share their prefix. Without `carries_out`, calls of the session's own tools are in the reply.
        """
        if self.over:
            raise UsageError("this session has ended", fix="begin a new session")
        if not messages:
            raise UsageError("there is no message to answer", fix="send at least one message")
        self._check_turns(self.in_flight)
        user = user or (self.episode.task.user if self._sole_user else "")
        self.in_flight += 1
        try:
            goal = next((one.content for one in messages if one.role == "system"), "")
            given = (goal, actions, sampling or Sampling(), stop, schema, tell, demonstration, forwarded)
            asked = _Asked(*given, plain, policy or self.policy, model)
            reply = await self._answer(messages, user, asked, carries_out)
            self.failure = None
            return reply
        except AgentfwError as error:
            self.failure = error
            raise
        finally:
            self.in_flight -= 1
            self.used = time.monotonic()

    def tools(self, user: str) -> Mapping[str, Tool]:
        """The session's own tools for requests of a user, by name: those that it was given and those of memories."""
        return self.builder.tools if self._remembers(user) else self._given

    async def call(self, call: Call, user: str) -> Message:
        """Call one of the session's own tools. Returns the message with its answer."""
        tool = self.tools(user).get(call.name)
        refusal = False, f"there is no tool {call.name}"
        succeeded, text = refusal if tool is None else await tool.answer(call.arguments)
        if not succeeded:
            self.note("refused", call.name, {"id": call.id, "text": text})
        return Message("tool", text, answers=call.id)

    async def _answer(self, messages: Sequence[Message], user: str, asked: _Asked, carries_out: bool) -> Reply:
        await self._join(user)
        recalled = await self._recall(messages, user)
        path = self._tree.path(self._with_recalled(messages, user))
        self._show(path)
        for one in recalled:
            self.note("memory", "recalled", {**one.to_record(), "message": path[0].place})
        if self._remembers(user):
            self._note_said(path)
        own, given, told = self.tools(user) if asked.schema is None else {}, asked.actions, ""
        if asked.forwarded is not None:
            own, imposed = {}, asked.forwarded.sampled(self.sampling, self.sampling_wins)
            asked.forwarded = replace(asked.forwarded, recalled=self._recalled_for(messages), imposed=imposed)
        if both := sorted({action.name for action in given} & own.keys()):
            raise UsageError(f"the memory has a tool {', '.join(both)}, too", fix="give yours another name")
        for number in range(_MOST_CALLING + 1):
            # A policy that goes on and on with tools of the memory has to answer without them.
            own = own if number < _MOST_CALLING else {}
            asked.actions = (*given, *(tool.action for tool in own.values()))
            reply, answer = await self._turn(path, asked)
            calls = [call for call in reply.calls if call.name in own] if carries_out else []
            if not calls:
                break
            path = [*path, answer, *await self._carried_out(path, reply.turn, answer, calls, user)]
            if len(calls) < len(reply.calls):  # the others are for whoever asked
                left = tuple(call for call in reply.calls if call not in calls)
                return replace(reply, text=told + reply.text, calls=left)
            told += reply.text
            self._check_turns(self.in_flight - 1)
        return replace(reply, text=told + reply.text) if told else reply

    async def _carried_out(
        self, path: Sequence[Node], turn: Turn, answer: Node, calls: Sequence[Call], user: str
    ) -> Sequence[Node]:
        """Carry out calls of the session's own tools, out of the asker's sight."""
        answers = [await self.call(call, user) for call in calls]
        nodes = self._tree.carried_out(path, answer, {call.id: one for call, one in zip(calls, answers, strict=True)})
        self._show([answer, *nodes])
        for call, node in zip(calls, nodes, strict=True):
            about = {"turn": turn.index, "call": call.id, "name": call.name}
            self.note("memory", "called", {**about, "messages": [answer.place, node.place]})
        return nodes

    async def _turn(self, path: Sequence[Node], asked: _Asked) -> tuple[Reply, Node]:
        """Let the policy answer once."""
        last = path[-1]
        self._show(path)
        self._offer(asked.actions)
        answered = max((i for i, node in enumerate(path) if node.message.role == "assistant"), default=-1)
        started = self.now
        before = path[answered].generation if answered >= 0 else None
        if before is not None and before.model != asked.model:
            before = None  # its tokens are those of another model
        request = Request(
            [node.message for node in path],
            asked.actions,
            self._sampling(asked.sampling, last.asked),
            Moment(started, tuple(one for node in path[answered + 1 :] for one in _observed(node.message, started))),
            Brief(asked.goal, tuple(asked.actions), demonstration=asked.demonstration),
            self.episode.task,
            before,
            () if asked.actions else asked.stop,  # in a call, it would cut the arguments
            asked.schema,
            asked.plain,
        )
        last.asked += 1
        pieces = Pieces([action.name for action in asked.actions], asked.stop)
        passed = await self._generated(request, self._places(path), started, asked, pieces)
        for generation in passed.generations:
            generation.model = asked.model
        recorded = [self._record(path, request, each, started, asked.stop) for each in passed.generations]
        reply, answer = recorded[0]
        if asked.forwarded is not None:
            return replace(reply, passed=passed), answer
        if asked.tell is not None and (rest := pieces.rest(reply.text)):
            asked.tell(rest)
        return reply, answer

    async def _generated(
        self,
        request: Request,
        shown: tuple[int, ...],
        started: Time,
        asked: _Asked,
        pieces: Pieces,
    ) -> Passed:
        """Ask the policy. What was told of an answer that doesn't come to its end stays in the record."""
        if self.write is not None:
            self.write(self)
        self._begun += 1
        answer = Unfinished(self._begun, started, shown)
        self.unfinished.append(answer)

        def note(piece: str) -> None:
            answer.told.append(piece)
            if asked.tell is not None and (sure := pieces.take(piece)):
                asked.tell(sure)

        try:
            if asked.forwarded is not None:
                return await asked.policy.forward(request, replace(asked.forwarded, tell=answer.told.append))
            given = asked.policy.generate(request) if asked.tell is None else asked.policy.stream(request, note)
            return Passed((await given,))
        except BaseException as error:
            if answer.told:
                self.note("session", "cut_off", answer.cut_off(str(error) or "stopped"))
                if self.write is not None:
                    self.write(self)
            raise
        finally:
            self.unfinished.remove(answer)

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _show(self, path: Sequence[Node]) -> None:
        """Store the messages that are new, and note what the user and the tools say in them."""
        for node in path:
            if node.place is None:
                node.place = len(self.episode.messages)
                self.episode.messages.append(node.message)
                for one in _observed(node.message, self.now):
                    self.note("observation", one.name, {"text": one.text, **one.data})

    def _places(self, path: Sequence[Node]) -> tuple[int, ...]:
        return tuple(node.place for node in path if node.place is not None)

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
        self, path: Sequence[Node], request: Request, generation: Generation, started: float, stop: Sequence[str]
    ) -> tuple[Reply, Node]:
        index, names = len(self.episode.turns), {action.name for action in request.actions}
        parsed = self.builder.read(generation, request.sampling, names, f"call_{index}_")
        calls, failures, text = tuple(parsed.calls), tuple(parsed.failures), parsed.rest
        if calls or failures:
            text = _outside(text)
        cuts = [place for word in stop if word and (place := text.find(word)) >= 0]
        text = text[: min(cuts)] if cuts else text
        said = generation.said_beside(parsed)
        asked = {"stop": tuple(stop), "max_tokens": request.sampling.max_tokens}
        turn = generation.turn(
            index, started, self.now, self._places(path), calls, failures=failures, said=said, **asked
        )
        self.episode.turns.append(turn)
        finish: Finish = "calls" if calls else "length" if turn.finish == "length" else "stop"
        node = self._tree.answered(path, Message("assistant", generation.text, calls), text, generation)
        if self.watch is not None:
            self.watch(self.episode, turn)
        return Reply(turn, text, calls, finish, generation.pieces), node

    def _check_turns(self, others: int) -> None:
        if len(self.episode.turns) + others >= self.max_turns:
            raise UsageError(
                f"this session has had {self.max_turns} turns", fix="begin a new session, or raise max_turns"
            )

    # -- memories ------------------------------------------------------------------------------------------------------

    def _remembers(self, user: str) -> bool:
        """Whether memories take part for this user."""
        return bool(self.builder.memories and user and user == self.episode.task.user)

    async def _join(self, user: str) -> None:
        """Let the memories know of the episode, with the first request that they take part in."""
        if self._remembers(user):
            async with self._joining:
                if self.builder.task is None:
                    await self.builder.join(self.episode.task, goes_on=self._goes_on)

    async def _recall(self, messages: Sequence[Message], user: str) -> Sequence[Recollection]:
        """What the memories recall for a conversation that is new."""
        first = next((i for i, message in enumerate(messages) if message.role == "user"), None)
        if first is None or not self._remembers(user):
            return ()
        key = tuple(map(message_key, messages[: first + 1]))
        if key in self._recalled:
            return ()
        found = await self.builder.recall(messages[first].content, self.now)
        self._recalled[key] = "\n".join(self.builder.told(found))
        return found

    def _with_recalled(self, messages: Sequence[Message], user: str) -> Sequence[Message]:
        """The conversation, with what the memories recalled for the user in its system message."""
        recalled = self._recalled_for(messages) if self._remembers(user) else ""
        if not recalled:
            return messages
        if messages[0].role == "system":
            return [replace(messages[0], content=f"{messages[0].content}\n\n{recalled}"), *messages[1:]]
        return [Message("system", recalled), *messages]

    def _note_said(self, path: Sequence[Node]) -> None:
        """Note what the user says with this request. What is older in the conversation was said before."""
        answered = max((i for i, node in enumerate(path) if node.message.role == "assistant"), default=-1)
        before = path[answered].place if answered >= 0 else None
        for node in path[answered + 1 :]:
            if node.message.role == "user" and node.place not in self._said:
                self._said.add(node.place)
                self.note("memory", "said", {"message": node.place, "answer_to": before, "at": time.time()})

    def _recalled_for(self, messages: Sequence[Message]) -> str:
        """What was recalled for a conversation."""
        first = next((i for i, message in enumerate(messages) if message.role == "user"), len(messages))
        return self._recalled.get(tuple(map(message_key, messages[: first + 1])), "")

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
        data = {"value": value, "turn": turn, "correction": correction, "text": words or correction, "at": time.time()}
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
        self.note("memory", "changed")

    def end(self, finish: str = "ended", **outcome: float) -> Episode:
        """End the session. Returns the whole episode."""
        if not self.over:
            self.episode.finish, self.episode.ended = finish, self.now
            self.episode.outcome.update(outcome)
        return self.episode

    def news(self) -> Episode:
        """What was added since the last call. An episode is the sum of its news (see `extended`)."""
        news = news_since(self.episode, self._taken)
        self._taken = lengths(self.episode)
        return news

    def restore(self, episode: Episode) -> None:
        """Go on with an episode of an earlier process."""
        self.episode = episode
        self._began = time.monotonic() - max([0.0, *(event.time for event in episode.events)])
        self._goes_on = True
        self._recalled.update(_recalled_in(episode))
        called = dict[int, list[dict[str, Any]]]()
        for event in episode.events:
            if (event.kind, event.name) == ("memory", "called"):
                called.setdefault(event.data["turn"], []).append(event.data)
            if (event.kind, event.name) == ("memory", "said"):
                self._said.add(event.data["message"])
        for turn in episode.turns:
            path = self._tree.recorded(episode.messages, turn.shown)
            path[-1].asked += 1
            message, told = Message("assistant", turn.text, turn.calls), turn.text if turn.said is None else turn.said
            generation = Generation(turn.text, turn.calls, turn.count, turn.prompt_ids, turn.token_ids, turn.logprobs)
            generation.model = turn.model
            answer = self._tree.answered(path, message, told, generation)
            if carried_out := called.get(turn.index):
                places = [one["messages"][1] for one in carried_out]
                answers = {one["call"]: episode.messages[place] for one, place in zip(carried_out, places, strict=True)}
                answer.place = carried_out[0]["messages"][0]
                for node, place in zip(self._tree.carried_out(path, answer, answers), places, strict=True):
                    node.place = place
        self._taken = lengths(episode)


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


def _recalled_in(episode: Episode) -> Iterator[tuple[Hashable, str]]:
    """What was recalled for each conversation of a session, by the messages as they were sent."""
    found = dict[int, list[Recollection]]()
    for event in episode.events:
        if (event.kind, event.name) == ("memory", "changed"):
            found.clear()
        elif (event.kind, event.name) == ("memory", "recalled") and "message" in event.data:
            found.setdefault(event.data["message"], []).append(Recollection(event.data["text"]))
    for turn in episode.turns:
        shown = [episode.messages[place] for place in turn.shown]
        first = next((i for i, message in enumerate(shown) if message.role == "user"), None)
        if first is None or turn.shown[0] not in found:
            continue
        recalled = "\n".join(TurnBuilder.told(found[turn.shown[0]]))
        system = replace(shown[0], content=shown[0].content.removesuffix(recalled).removesuffix("\n\n"))
        sent = [*([system] if system.content else []), *shown[1 : first + 1]]
        yield tuple(map(message_key, sent)), recalled


def news_since(episode: Episode, before: tuple[int, int, int, int]) -> Episode:
    """What was added to an episode since it had these lengths."""
    events, messages, turns, actions = before
    return replace(
        episode,
        events=episode.events[events:],
        messages=episode.messages[messages:],
        turns=episode.turns[turns:],
        actions={seat: offered[actions:] for seat, offered in episode.actions.items()},
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


def lengths(episode: Episode) -> tuple[int, int, int, int]:
    """The number of events, messages, turns and offered actions. A session has one seat."""
    return len(episode.events), len(episode.messages), len(episode.turns), len(episode.actions.get("", ()))


def _observed(message: Message, now: float) -> Iterator[Observation]:
    """What a message of the user or of a tool says, as an observation."""
    if message.role == "user":
        yield Observation(now, "message", {"by": "user", "said": message.content}, message.content)
    elif message.role == "tool":
        yield Observation(now, "answer", {"call": message.answers}, message.content)


def _outside(rest: str) -> str:
    """The text outside of the calls. It is empty if only line breaks are left."""
    return rest if rest.strip() else ""
