"""Builds and records turns, for agents in a world and for sessions that are led from outside.

A turn is made in three steps, and each of them is here: what the policy is asked with, how its answer is read, and how
the answer gets into the record. So a memory acts alike wherever a policy answers, a call is a call only where the model
made it as one, and the exact tokens are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..episode import Call, Episode, Event, Message, Task, Turn
from ..errors import UsageError
from ..memory import Memory, Query, Recollection
from ..request import Action, Generation, Sampling
from ..seeds import Seeds
from ..timeline import Time
from ..tool import Tool
from .parsing import parse_calls

BeforeCall = Callable[[Task, Call, Callable[[str, str, dict[str, Any]], object]], Awaitable[tuple[bool, str] | None]]
"""Is asked before each tool call, and given what notes an event. It answers as the tool would, or None: call it."""

__all__ = ["Answer", "BeforeCall", "TurnBuilder", "TurnRecorder", "extended", "lengths", "news_since", "sampling_for"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy has answered, as it was read."""

    calls: tuple[Call, ...] = ()
    failures: tuple[str, ...] = ()
    """Calls that couldn't be read, in words."""
    text: str = ""
    """The text outside of the calls, up to the stop sequence: what is told to whoever asked."""
    said: str | None = None
    """The text outside of the calls, as a turn has it. None: the whole text."""


class TurnBuilder:
    """The turns of one episode: what the memories recall for it, which tools there are, and how an answer is read."""

    def __init__(self, tools: Sequence[Tool] = (), memories: Sequence[Memory] = (), recall: int = 5) -> None:
        self.memories = memories
        self.task: Task | None = None
        """The episode, once the memories know of it."""
        self._joining = asyncio.Lock()
        self.tools: Mapping[str, Tool] = {tool.action.name: tool for tool in tools}
        """The tools, by name. Those of the memories are among them once the episode has begun."""
        self._given, self._limit = tools, recall

    def begin(self, task: Task, profile: Mapping[str, str] | None = None) -> None:
        """Tell the memories that an episode begins, and take their tools."""
        for memory in self.memories:
            memory.begin(task)
            if profile:
                memory.introduce(task.user, profile)
        self._take(task, [tool for memory in self.memories for tool in memory.tools(task)])

    async def join(self, task: Task, *, goes_on: bool = False) -> None:
        """Like `begin`, once, while others are served. The memories know already of an episode that goes on."""
        async with self._joining:
            if self.task is None:
                for memory in self.memories if not goes_on else ():
                    memory.begin(task)
                self._take(task, [tool for memory in self.memories for tool in await memory.offered(task)])

    def _take(self, task: Task, tools: Sequence[Tool]) -> None:
        names = [tool.action.name for tool in (*self._given, *tools)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"two tools are called {', '.join(twice)}", fix="leave one of them out")
        self.task, self.tools = task, dict(zip(names, (*self._given, *tools), strict=True))

    async def recall(
        self, text: str, now: Time = 0, round: int = 0, scenarios: tuple[str, ...] = ()
    ) -> list[Recollection]:
        """What the memories recall in a situation, in their order."""
        if self.task is None or not self.memories:
            return []
        query = Query(text, self.task, now, round, self._limit, scenarios)
        return [found for memory in self.memories for found in await memory.recall(query)]

    @staticmethod
    def told(found: Iterable[Recollection]) -> list[str]:
        """The lines with which a policy is told what was recalled."""
        lines = [f"- {one.text}" for one in found]
        return ["You remember:", *lines] if lines else []

    @staticmethod
    def read(
        generation: Generation,
        sampling: Sampling,
        names: Collection[str],
        ids: str,
        *,
        plain: bool = False,
        stop: Sequence[str] = (),
    ) -> Answer:
        """Read an answer. With `plain`, only what the policy itself told apart is a call.

        Calls without ids of their own, such as those that are parsed from text, get ids that begin with `ids`, which is
        new in the conversation.
        """
        # A policy that reports nothing else has sampled as requested.
        if generation.temperature is None:
            generation.temperature = sampling.temperature
        if generation.top_p is None:
            generation.top_p = sampling.top_p
        calls, failures, rest = list[Call](), list[str](), generation.text
        if names and not plain:
            parsed = parse_calls(generation.text, names, generation.in_text)
            calls, failures, rest = parsed.calls, parsed.failures, parsed.rest
        if plain or generation.calls or generation.failures:
            spelled = [call.name for call in calls] == [call.name for call in generation.calls]
            calls, failures = list(generation.calls), [] if plain else list(generation.failures)
            rest = rest if spelled else generation.text
        rest = rest if generation.said is None else generation.said
        known = {call.id for call in generation.calls} - {""}
        if not known or len(known) < len(generation.calls):
            calls = [replace(call, id=f"{ids}{number}") for number, call in enumerate(calls)]
        outside = rest if rest.strip() else ""  # line breaks between calls are nothing
        text = outside if calls or failures else rest
        text = text[: min((place for word in stop if word and (place := text.find(word)) >= 0), default=None)]
        return Answer(tuple(calls), tuple(failures), text, None if rest == generation.text else outside)


class TurnRecorder:
    """Writes the turns of one seat into the record of an episode. Each message is stored once."""

    def __init__(
        self, episode: Episode, watch: Callable[[Episode, Turn], object] | None = None, *, seat: str = ""
    ) -> None:
        """`watch` is called with each turn as soon as it is recorded."""
        self.episode, self.watch, self.seat = episode, watch, seat
        self._places: dict[int, int] = {}
        self._before: tuple[list[Message], tuple[int, ...]] = [], ()

    def offer(self, actions: Iterable[Action]) -> None:
        """Note which actions can be called."""
        offered = self.episode.actions.setdefault(self.seat, [])
        for one in actions:
            action = {"name": one.name, "description": one.description, "parameters": dict(one.parameters)}
            if action not in offered:
                offered.append(action)

    def place(self, message: Message) -> int:
        """Store a message. Returns its index."""
        self.episode.messages.append(message)
        return len(self.episode.messages) - 1

    def places(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The indexes of the messages of a conversation, of which those that are new are stored."""
        shown, (before, places) = list(messages), self._before
        # Most of a conversation is that of the turn before. It may be long, so that part is compared as a whole.
        if shown[: len(before)] != before:
            places = ()
        new = []
        for message in shown[len(places) :]:
            if id(message) not in self._places:
                self._places[id(message)] = self.place(message)  # kept alive, so that no other message gets its id
            new.append(self._places[id(message)])
        self._before = shown, (*places, *new)
        return self._before[1]

    def add(
        self,
        generation: Generation,
        answer: Answer,
        shown: tuple[int, ...],
        started: Time,
        ended: Time,
        *,
        round: int = 0,
        stop: Sequence[str] = (),
        max_tokens: int | None = None,
        at: float | None = None,
        first: float | None = None,
    ) -> Turn:
        """Record an answer as the next turn."""
        turn = Turn(
            index=len(self.episode.turns),
            started=started,
            ended=ended,
            round=round,
            shown=shown,
            text=generation.text,
            calls=answer.calls,
            failures=answer.failures,
            count=generation.length,
            prompt_ids=tuple(generation.prompt_ids),
            token_ids=tuple(generation.token_ids),
            logprobs=tuple(generation.logprobs),
            version=generation.version,
            finish=generation.finish,
            temperature=1.0 if generation.temperature is None else generation.temperature,
            top_p=1.0 if generation.top_p is None else generation.top_p,
            seat=self.seat,
            usage=generation.usage,
            said=answer.said,
            constrained=generation.constrained,
            stop=tuple(stop),
            max_tokens=max_tokens,
            model=generation.model,
            at=at,
            first=first,
        )
        self.episode.turns.append(turn)
        for did in generation.hooks:
            self.episode.events.append(Event(ended, "hook", did["hook"], {**did, "turn": turn.index}, self.seat))
        if self.watch is not None:
            self.watch(self.episode, turn)
        return turn

    @staticmethod
    def cut(turn: Turn, generation: Generation, tokens: int, now: Time) -> Generation:
        """A turn was interrupted: keep what had been generated by now, and no more. Returns what was kept."""
        kept = generation.cut(tokens)
        turn.ended, turn.finish, turn.calls, turn.failures, turn.said = now, "interrupted", (), (), None
        turn.text, turn.count = kept.text, kept.length
        turn.token_ids, turn.logprobs = tuple(kept.token_ids), tuple(kept.logprobs)
        return kept


def sampling_for(wished: Sampling, run: Sampling, *, run_wins: bool, task: Task, asked: int) -> Sampling:
    """The sampling of a request: that of the run holds where the request leaves a choice open, or if it wins.

    Who asks the same thing again gets another sample, unless they set a seed. `asked` counts how often they did.
    """
    first, second = (run, wished) if run_wins else (wished, run)
    limits = [limit for limit in (wished.max_tokens, run.max_tokens) if limit is not None]
    seed = run.seed if wished.seed is None or run_wins else wished.seed
    if asked and (wished.seed is None or run_wins):
        seed = Seeds(task.seed if run.seed is None else run.seed).integer("again", asked)
    return Sampling(
        temperature=second.temperature if first.temperature is None else first.temperature,
        top_p=second.top_p if first.top_p is None else first.top_p,
        max_tokens=min(limits, default=None),
        seed=seed,
    )


def first_part(episode: Episode, until: tuple[int, int, int, int]) -> Episode:
    """An episode in progress as it was when it had these lengths."""
    return replace(_cut(episode, [slice(length) for length in until]), finish="")


def news_since(episode: Episode, before: tuple[int, int, int, int]) -> Episode:
    """What was added to an episode since it had these lengths."""
    return _cut(episode, [slice(length, None) for length in before])


def _cut(episode: Episode, parts: Sequence[slice]) -> Episode:
    events, messages, turns, actions = parts
    return replace(
        episode,
        events=episode.events[events],
        messages=episode.messages[messages],
        turns=episode.turns[turns],
        actions={seat: offered[actions] for seat, offered in episode.actions.items()},
    )


def extended(episode: Episode, news: Episode) -> Episode:
    """An episode with its next news."""
    return replace(
        news,
        events=[*episode.events, *news.events],
        messages=[*episode.messages, *news.messages],
        turns=[*episode.turns, *news.turns],
        actions={
            seat: episode.actions.get(seat, []) + news.actions.get(seat, [])
            for seat in (*episode.actions, *news.actions)
        },
    )


def lengths(episode: Episode) -> tuple[int, int, int, int]:
    """The number of events, messages, turns and offered actions. A session has one seat."""
    return len(episode.events), len(episode.messages), len(episode.turns), len(episode.actions.get("", ()))
