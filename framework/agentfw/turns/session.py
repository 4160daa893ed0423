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

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..environment import Environment, World
from ..episode import Call, Episode, Event, Intervention, Message, Observation, Task, Turn
from ..errors import AgentfwError, StorageError, UpstreamError, UsageError, not_implemented
from ..memory import Memory, Recollection
from ..policy import Policy
from ..request import Action, Brief, Forwarded, Generation, Moment, Passed, Request, Sampling
from ..timeline import Time
from ..tool import Tool
from .message_tree import MessageTree, Node, Recalled, after_answer, conversation_of, recalled_again, shown_messages
from .parsing import StreamedText
from .turn_builder import BeforeCall, TurnBuilder, TurnRecorder, extended, lengths, news_since, sampling_for

__all__ = ["Reply", "Session", "SessionEnvironment", "Unfinished", "extended", "lengths", "news_since"]

Finish = Literal["stop", "length", "calls"]
_Texts = Sequence[Sequence[str]]  # what a user said in each message, text by text
_SAME_SUBJECT = 0.5
"""Similarity from which on two texts of a user are about the same. Below, the memories are asked again."""
_MOST_CALLING = 16  # answers with calls of the session's own tools, for one request
_MOST_OF_REFUSAL = 2000  # bytes of what a server said with its refusal that are recorded
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
    at: float = field(default_factory=lambda: round(time.time(), 3))
    """As in a turn."""
    first: float | None = None

    def cut_off(self, why: str) -> dict[str, Any]:
        """The answer as it is recorded if it ends here."""
        return {"shown": list(self.shown), "started": self.started, "text": "".join(self.told), "why": why}


@dataclass(slots=True)
class _Exchange:
    request: Request
    """What all turns of an answer have in common."""
    policy: Policy
    model: str
    tell: Callable[[str], object] | None
    forwarded: Forwarded | None


class Session:
    """One episode in progress. Several requests can be in flight at once."""

    name: str
    """The name that it was given by whoever leads it."""
    episode: Episode
    """The record so far."""
    in_news: tuple[int, int, int, int]
    """How much of the episode was in its news so far: its `lengths` at the last call of `news`."""

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
        before_call: BeforeCall | None = None,
        record: Callable[[Episode], Episode] | None = None,
    ) -> None:
        """`sampling` is used where a request leaves a choice open, or with `sampling_wins`, wherever it is set.

        With `sole_user`, requests that name nobody are of the task's user, because nobody else can make any.

        `write` is called before the policy is asked, so that a kill doesn't lose the question, and when an answer was
        cut off. `record` makes what is recorded of its news.
        """
        self.name = task.query
        self.policy, self.builder = policy, TurnBuilder(tools, memories, recall)
        self.sampling, self.sampling_wins = sampling or Sampling(), sampling_wins
        self.max_turns, self.write, self._sole_user = max_turns, write, sole_user
        self.before_call, self._recorded = before_call, record
        self.episode = Episode(task=task, environment=environment)
        self._recorder = TurnRecorder(self.episode, watch)
        self.failure: AgentfwError | None = None
        """The error of the last answer, if it failed."""
        self.used = self._began = time.monotonic()
        self.in_flight = self._begun = 0  # requests that are being answered, and answers that were begun
        self.unfinished: list[Unfinished] = []
        """The answers that the policy is giving."""
        self._tree, self.in_news = MessageTree(), (0, 0, 0, 0)
        self._given, self._goes_on = self.builder.tools, False

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
        said: Sequence[Sequence[str]] | None = None,
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

        Memories take part only where the request names the user. They are asked once for each conversation, and again
        where the user comes to another subject, so that later turns share their prefix. `said` is what the user said in
        each message, several texts or none where a program wrote the messages. Default: the messages of the user are
        what they said. Without `carries_out`, calls of the session's own tools are in the reply.
        """
        if self.over:
            raise UsageError("this session has ended", fix="begin a new session")
        if not messages:
            raise UsageError("there is no message to answer", fix="send at least one message")
        self._check_turns(self.in_flight)
        user = user or (self.episode.task.user if self._sole_user else "")
        self.in_flight += 1
        at, began = round(time.time(), 3), self.now
        try:
            goal = next((one.content for one in messages if one.role == "system"), "")
            brief, task = Brief(goal, demonstration=demonstration), self.episode.task
            request = Request((), actions, sampling or Sampling(), None, brief, task, None, stop, schema, plain)
            asked = _Exchange(request, policy or self.policy, model, tell, forwarded)
            reply = await self._answer(messages, user, said, asked, carries_out)
            self.failure = None
            return reply
        except AgentfwError as error:
            self.failure = error
            if not isinstance(error, StorageError):  # which says that nothing more can be written
                about: dict[str, Any] = {"at": at, "seconds": round(self.now - began, 4)}
                if isinstance(error, UpstreamError):
                    said = error.content[:_MOST_OF_REFUSAL].decode("utf-8", "replace")
                    about |= {"status": error.status, **({"answer": said} if said else {})}
                self._note_failed(error.message, **about)
            raise
        finally:
            self.in_flight -= 1
            self.used = time.monotonic()

    def tools(self, user: str) -> Mapping[str, Tool]:
        """The session's own tools for requests of a user, by name: those that it was given and those of memories."""
        return self.builder.tools if self._remembers(user) else self._given

    async def call(self, call: Call, user: str, decided: tuple[bool, str] | None = None) -> Message:
        """Call one of the session's own tools, unless it is decided what it answers. Returns the message with it."""
        succeeded, text = decided or (False, f"there is no tool {call.name}")
        if decided is None and (tool := self.tools(user).get(call.name)) is not None:
            succeeded, text = await self._decided(call) or await tool.answer(call.arguments)
        if not succeeded:
            self.note("refused", call.name, {"id": call.id, "text": text})
        return Message("tool", text, answers=call.id)

    async def _decided(self, call: Call) -> tuple[bool, str] | None:
        return None if self.before_call is None else await self.before_call(self.episode.task, call, self.note)

    async def _answer(
        self, messages: Sequence[Message], user: str, said: _Texts | None, asked: _Exchange, carries_out: bool
    ) -> Reply:
        said = [(one.content,) for one in messages] if said is None else said
        said = [texts for one, texts in zip(messages, said, strict=True) if one.role == "user"]
        remembers = self._remembers(user)
        if self._goes_on and any((one.kind, one.name) == ("memory", "called") for one in self.episode.events):
            # An earlier process called tools, and only the memories know which are theirs.
            await self.builder.join(self.episode.task, goes_on=True)
        of_memories = self.builder.tools.keys() - self._given.keys()
        path = await self._remembering(messages, said) if remembers else self._tree.path(messages, of_memories)
        self._show(path)
        own, given, told = self.tools(user) if asked.request.schema is None else {}, asked.request.actions, ""
        if asked.forwarded is not None:
            own, recalled = {}, self._tree.recalled.get(conversation_of(messages)) if remembers else None
            asked.forwarded = replace(
                asked.forwarded,
                recalled="" if recalled is None else recalled.text,
                recalled_again=recalled_again(path),
                sampling=self.sampling,
                run_wins=self.sampling_wins,
            )
        if both := sorted({action.name for action in given} & own.keys()):
            raise UsageError(f"the memory has a tool {', '.join(both)}, too", fix="give yours another name")
        for number in range(_MOST_CALLING + 1):
            # A policy that goes on and on with tools of the memory has to answer without them.
            own = own if number < _MOST_CALLING else {}
            reply, answer = await self._turn(path, asked, (*given, *(tool.action for tool in own.values())))
            foreign = [call for call in reply.calls if carries_out and call.name not in own]
            decided = {call.id: found for call in foreign if (found := await self._decided(call)) is not None}
            calls = [call for call in reply.calls if carries_out and (call.name in own or call.id in decided)]
            if not calls:
                break
            # Carry out calls of the session's own tools, and those that are decided, out of the asker's sight.
            came_to = {call.id: await self.call(call, user, decided.get(call.id)) for call in calls}
            nodes = self._tree.carried_out(path, answer, came_to)
            self._show([answer, *nodes])
            for call, node in zip(calls, nodes, strict=True):
                about = {"turn": reply.turn.index, "call": call.id, "name": call.name}
                self.note("memory", "called", {**about, "messages": [answer.place, node.place]})
            path = [*path, answer, *nodes]
            if len(calls) < len(reply.calls):  # the others are for whoever asked
                left = tuple(call for call in reply.calls if call not in calls)
                return replace(reply, text=told + reply.text, calls=left)
            told += reply.text
            self._check_turns(self.in_flight - 1)
        return replace(reply, text=told + reply.text) if told else reply

    async def _turn(self, path: Sequence[Node], asked: _Exchange, actions: tuple[Action, ...]) -> tuple[Reply, Node]:
        wished, last, started = asked.request, path[-1], self.now
        new, messages = after_answer(path), shown_messages(path)
        self._recorder.offer(actions)
        request = replace(
            wished,
            messages=messages,
            actions=actions,
            sampling=sampling_for(
                wished.sampling, self.sampling, run_wins=self.sampling_wins, task=wished.task, asked=last.asked
            ),
            moment=Moment(started, tuple(one for node in path[new:] for one in _observed(node.message, started))),
            brief=replace(wished.brief, actions=actions),
            # The tokens of another model mean nothing to this one.
            before=path[new - 1].generations.get(asked.model) if new else None,
            stop=() if actions else wished.stop,  # in a call, it would cut the arguments
        )
        last.asked += 1
        names = [action.name for action in actions]
        pieces = None if asked.tell is None else StreamedText(asked.tell, names, wished.stop)
        if self.write is not None:
            self.write(self)
        self._begun += 1
        given = Unfinished(self._begun, started, tuple(node.place for node in path if node.place is not None))
        passed = await self._generated(request, given, asked, pieces)
        for generation in passed.generations:
            generation.model = asked.model
        recorded = [self._record(path, request, each, given, wished.stop) for each in passed.generations]
        reply, answer = recorded[0]
        if reply.turn.finish == "interrupted":
            took = round(reply.turn.ended - started, 4)
            self._note_failed("the model's server broke off its answer", at=given.at, seconds=took, status=502)
        if pieces is not None and asked.forwarded is None:
            pieces.end(reply.text)
        return (reply if asked.forwarded is None else replace(reply, passed=passed)), answer

    async def _generated(
        self, request: Request, answer: Unfinished, asked: _Exchange, pieces: StreamedText | None
    ) -> Passed:
        """Ask the policy. What was told of an answer that doesn't come to its end stays in the record."""
        self.unfinished.append(answer)

        def hear(piece: str) -> None:
            if answer.first is None:
                answer.first = round(self.now - answer.started, 4)
            answer.told.append(piece)

        def note(piece: str) -> None:
            hear(piece)
            if pieces is not None:
                pieces.take(piece)

        try:
            if asked.forwarded is not None:
                return await asked.policy.forward(request, replace(asked.forwarded, tell=hear))
            given = asked.policy.generate(request) if pieces is None else asked.policy.stream(request, note)
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
                node.place = self._recorder.place(node.message)
                for one in _observed(node.message, self.now):
                    self.note("observation", one.name, {"text": one.text, **one.data})

    def _record(
        self, path: Sequence[Node], request: Request, generation: Generation, given: Unfinished, stop: Sequence[str]
    ) -> tuple[Reply, Node]:
        names, ended = {action.name for action in request.actions}, self.now
        answer = self.builder.read(generation, request.sampling, names, f"call_{len(self.episode.turns)}_", stop=stop)
        turn = self._recorder.add(
            generation,
            answer,
            given.shown,
            given.started,
            ended,
            stop=stop,
            max_tokens=request.sampling.max_tokens,
            at=given.at,
            first=given.first,
        )
        is_whole = len(answer.text) == len(generation.text if answer.said is None else answer.said)
        finish: Finish = "calls" if answer.calls else "length" if turn.finish == "length" and is_whole else "stop"
        node = self._tree.answered(path, Message("assistant", generation.text, answer.calls), answer.text, generation)
        return Reply(turn, answer.text, answer.calls, finish, generation.pieces), node

    def _check_turns(self, others: int) -> None:
        if len(self.episode.turns) + others >= self.max_turns:
            raise UsageError(f"this session has had {self.max_turns} turns", fix="begin a new one, or raise max_turns")

    # -- memories ------------------------------------------------------------------------------------------------------

    def _remembers(self, user: str) -> bool:
        return bool(self.builder.memories and user and user == self.episode.task.user)

    async def _remembering(self, messages: Sequence[Message], said: _Texts) -> list[Node]:
        """The path of a conversation in which memories take part. What they recall and may hear is recorded."""
        # With the first request that they take part in, they learn of the episode.
        await self.builder.join(self.episode.task, goes_on=self._goes_on)
        recalled, conversation = list[Recollection](), conversation_of(messages)
        if conversation not in self._tree.recalled and (texts := next(filter(None, said), ())):
            recalled = await self.builder.recall("\n\n".join(texts), self.now)
            text = "\n".join(TurnBuilder.told(recalled))
            self._tree.recalled[conversation] = Recalled(text, subject="\n\n".join(texts))
        known = self._tree.recalled.get(conversation, Recalled(""))
        path = self._tree.path(known.shown_in(messages))
        again = () if recalled else await self._recall_again(known, path, said)
        self._show(path)
        for one in recalled:
            self.note("memory", "recalled", {**one.to_record(), "message": path[0].place})
        for one in again:
            self.note("memory", "recalled", {**one.to_record(), "message": path[-1].place, "again": True})
        self._note_said(path, said)
        return path

    async def _recall_again(self, known: Recalled, path: list[Node], said: _Texts) -> Sequence[Recollection]:
        """What the memories recall where the user comes to another subject. It is added at the end of the path.

        What stood before is never changed, so that a provider's cache of it holds.
        """
        users = [node for node in path if node.message.role == "user"]
        last = users[-1] if users else None
        if last is None or last not in path[after_answer(path) :]:
            return ()
        behind = [node for node in path[-1].below.values() if node.is_recalled and not node.is_forgotten]
        if behind:  # the same request once more
            path.append(behind[0])
            return ()
        text = "\n\n".join(said[-1])
        # After a restart, what was recalled for isn't known any more; what was said before is near it.
        before = known.subject or "\n\n".join(node.message.content for node in users[-2:-1])
        if not text or last.place in self._tree.said or not await self._is_new_subject(before, text):
            return ()
        known.subject = text
        told = "\n".join([known.text, *(text for _, text in recalled_again(path))])
        found = [one for one in await self.builder.recall(text, self.now) if f"- {one.text}" not in told]
        if found:
            path.append(self._tree.recall_behind(path[-1], "\n".join(TurnBuilder.told(found))))
        return found

    async def _is_new_subject(self, before: str, text: str) -> bool:
        """Whether a text is far from the one that was recalled for. Where no memory embeds, nobody can tell."""
        if not before or before == text:
            return before != text
        for memory in self.builder.memories:
            try:
                mine, theirs = (await memory.embed([text, before])).vectors
            except UsageError:
                continue
            length = math.hypot(*mine) * math.hypot(*theirs)
            return sum(one * other for one, other in zip(mine, theirs, strict=True)) < _SAME_SUBJECT * length
        return False

    def _note_said(self, path: Sequence[Node], said: _Texts) -> None:
        """Note what the user says with this request. What is older in the conversation was said before."""
        new = after_answer(path)
        before = path[new - 1].place if new else None
        asked = [node for node in path if node.message.role == "user"]
        for node, texts in zip(asked, said, strict=True):
            if texts and node in path[new:] and node.place not in self._tree.said:
                self._tree.said.add(node.place)
                about: dict[str, Any] = {"message": node.place, "answer_to": before, "at": time.time()}
                if tuple(texts) != (node.message.content,):
                    about["texts"] = list(texts)
                self.note("memory", "said", about)

    # -- the record ----------------------------------------------------------------------------------------------------

    def note(self, kind: str, name: str, data: dict[str, Any] | None = None) -> None:
        """Record an event."""
        self.episode.events.append(Event(self.now, kind, name, data or {}))

    def _note_failed(self, error: str, **about: Any) -> None:
        """Record a request that wasn't answered, or not to the end."""
        self.note("session", "failed", {"error": error, **about})
        if self.write is not None:
            self.write(self)

    def feedback(
        self, value: float, *, words: str = "", correction: str = "", turn: int | None = None, metric: str = ""
    ) -> None:
        """Record what the user thinks of an answer, or of the whole session: -1 is bad, 1 is good.

        With a metric, the value is one of it: true or false, or a number.
        """
        if self.over:
            raise UsageError("this session has ended", fix="give feedback before the end")
        if turn is not None and not 0 <= turn < len(self.episode.turns):
            raise UsageError(f"there is no turn {turn}", fix=f"count from 0; turns so far: {len(self.episode.turns)}")
        text = words or correction
        data = {"value": value, "turn": turn, "correction": correction, "text": text, "at": time.time()}
        data |= ({"metric": metric} if metric else {}) | ({"by": "user"} if text else {})
        self.note("observation", "feedback", data)
        self.used = time.monotonic()

    def remember(self, text: str) -> None:
        """Record what the user wants to be remembered. Memories learn it when the session ends."""
        if self.over:
            raise UsageError("this session has ended", fix="begin a new session")
        self.note("observation", "remember", {"by": "user", "text": text})
        self.used = time.monotonic()

    def forget_recalled(self) -> None:
        """Ask the memories again before the next answer."""
        self._tree.forget_recalled()
        self.note("memory", "changed")

    def end(self, finish: str = "ended", **outcome: float) -> Episode:
        """End the session. Returns the whole episode."""
        if not self.over:
            self.episode.finish, self.episode.ended = finish, self.now
            self.episode.outcome.update(outcome)
        return self.episode

    def news(self, since: tuple[int, int, int, int] | None = None) -> Episode:
        """What was added since the last call, or since these `lengths`. An episode is the sum of its news."""
        news = news_since(self.episode, self.in_news if since is None else since)
        if self._recorded is not None:
            news = self._recorded(news)
        self.in_news = lengths(self.episode)
        return news

    def restore(self, episode: Episode) -> None:
        """Go on with an episode of an earlier process."""
        self.episode = self._recorder.episode = episode
        self.name, self._goes_on = episode.task.query, True
        times = [*(event.time for event in episode.events), *(turn.ended for turn in episode.turns)]
        self._began = time.monotonic() - max(times, default=0.0)
        self._tree.restore(episode)
        self.in_news = lengths(episode)


class SessionEnvironment(Environment):
    """An environment whose agent is somebody else's program, which asks the policy through a session."""

    calls_tools: bool = False
    """Whether the session calls the tools of the run. A program has tools of its own."""

    async def play(self, session: Session) -> None:
        """Play the episode, and end the session."""
        raise not_implemented(self, "play")

    def begin(self, world: World, task: Task) -> None:
        wrong = f"{type(self).__name__} plays its episodes through sessions, so no agent of ours can be put into it"
        raise UsageError(wrong, fix="run it: agentfw run ENVIRONMENT")


def _observed(message: Message, now: float) -> Iterator[Observation]:
    if message.role == "user":
        yield Observation(now, "message", {"by": "user", "said": message.content}, message.content)
    elif message.role == "tool":
        yield Observation(now, "answer", {"call": message.answers}, message.content)
