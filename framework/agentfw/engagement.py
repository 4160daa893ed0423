"""Plays an agent and an environment on one timeline; the result is an episode.

The world does not wait for the agent. While the agent decides, and while what it began is in flight,
things go on happening; the interface says when it is shown them, and the agent says whether it breaks off for them.

    episode = await Engagement(Inbox(), agent, EventDriven()).run(Task(0, seed=7))

One moment in order: everything that is due at this time happens; then the interface is asked whether to show what has
become known, and the agent is shown it as one set; then time moves on. What an agent decides takes effect after the
time that deciding took. Work that `holds` keeps the agent busy: an interface like the step loop delivers only between
such works. Who is free again is asked what next, whether or not the world has anything to say.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any

from .agent import Agent, Decision
from .environment import Environment
from .episode import Episode, Event, Intervention, Measure, Message, Observation, Task, Turn
from .errors import InterventionRefused, PluginError, TimelineError
from .interfaces import EventDriven, Interface
from .plain_calls import plain
from .request import Generation, InFlight, Moment
from .secrets import struck
from .seeds import Seeds
from .timeline import MAX_EVENTS, MAX_EVENTS_PER_INSTANT, Scheduled, Time, Timeline, Work

__all__ = ["Engagement"]


class Engagement:
    """One agent in one world. Run it, or start it on a timeline that somebody else drives."""

    def __init__(
        self,
        environment: Environment,
        agent: Agent,
        interface: Interface | None = None,
        *,
        time_per_token: Time | None = None,
        horizon: Time = inf,
        max_turns: int = 10_000,
        max_events: float = MAX_EVENTS,
        max_events_per_instant: float = MAX_EVENTS_PER_INSTANT,
        watch: Callable[[Episode, Turn], object] | None = None,
    ) -> None:
        self.environment, self.agent, self.interface = environment, agent, interface or EventDriven()
        self.horizon, self.max_turns, self.watch = horizon, max_turns, watch
        self._time_per_token = time_per_token
        self._max_events, self._max_events_per_instant = max_events, max_events_per_instant

    async def run(self, task: Task, seeds: Seeds | None = None) -> Episode:
        """Play the whole episode. A world that schedules more than `max_events` is taken for one that never ends."""
        timeline = Timeline(max_events=self._max_events, max_events_per_instant=self._max_events_per_instant)
        episode = Episode(task=task)
        try:
            self.start(timeline, episode, seeds or Seeds(task.seed), ended=timeline.stop)
            await timeline.run(self.horizon)
        except TimelineError as error:
            raise TimelineError(f"the world {_name(self.environment)}: {error.message}", fix=error.fix) from error
        if not self.over:
            self._end("horizon" if timeline.next_time() < inf else "quiet", self.environment.outcome())
        if len(episode.turns) < self._turns:
            raise PluginError(
                f"the world {_name(self.environment)} has removed turns from the record of its episode",
                fix="fix the environment: `world.episode` is to be read",
            )
        episode.finish, episode.rounds = self.finish, self._rounds
        episode.ended = timeline.now
        return episode

    def start(
        self,
        timeline: Timeline,
        episode: Episode,
        seeds: Seeds,
        *,
        seat: str = "",
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """Take a seat on a timeline: begin the world and ask the agent once this instant is over."""
        self.timeline, self.episode, self.seat, self._ended = timeline, episode, seat, ended
        self.finish, self.outcome = "", dict[str, float]()
        self._waiting: list[tuple[int, Observation]] = []
        self._works: dict[int, _Tracked] = {}
        self._held: set[_Tracked] = set()
        self._thought: tuple[_Tracked, Decision, Turn] | None = None
        self._calls: list[Intervention] = []
        self._carrying = ""
        self._settling = self._begun = self._landing = self._promised = False
        self._ask, self._freed, self.over = True, False, False
        self._poll: Scheduled | None = None
        self._wake: Scheduled | None = None
        self._interrupted: Generation | None = None
        self._round = self._rounds = self._turns = 0
        self._shown: dict[int, int] = {}
        self._told: tuple[list[Message], tuple[int, ...]] = [], ()
        timeline.when_stopped(self._leave)
        brief = struck(self.environment.brief())
        if self._time_per_token is not None:
            brief = replace(brief, time_per_token=self._time_per_token)
        self.world = _World(self, seeds.child("world", seat))
        plain(self.environment.begin(self.world, episode.task))  # type: ignore[func-returns-value]
        # Whose profile it is depends on the task, so the environment knows it only now.
        brief = replace(brief, profile=struck(dict(self.environment.profile() or brief.profile)))
        if not seat:
            episode.profile = dict(brief.profile)
        self.agent.begin(episode.task, brief)
        both = sorted(self.agent.tools.keys() & {action.name for action in brief.actions})
        if both:
            raise PluginError(
                f"a tool and an action of the world are both called {', '.join(both)}",
                fix="leave the tool out, or give it a prefix",
            )
        offered = (*brief.actions, *(tool.action for tool in self.agent.tools.values()))
        episode.actions[seat] = [
            {"name": one.name, "description": one.description, "parameters": dict(one.parameters)} for one in offered
        ]
        self._begun = True
        self._consider()

    def deliver(self, observation: Observation) -> None:
        """Something became known; the interface says when the agent sees it."""
        if self.over:
            return
        observation = struck(observation)
        self._note("observation", observation.name, {"text": observation.text, **observation.data})
        # First in line: what a reflex brings about became known after what it answers.
        self._waiting.append((len(self.episode.events) - 1, observation))
        self._consider()
        if observation.name in ("refused", "not_understood"):
            return  # a reflex that was refused must not answer its own refusal for ever
        if self._begun:
            self._react(observation)
        else:  # a world that is still being set up can't be acted on
            self.timeline.after(0, lambda: self._react(observation))

    @property
    def busy(self) -> bool:
        return bool(self._held)

    # -- when the agent is shown what waits for it ---------------------------------------------------------------------

    def _consider(self) -> None:
        """Perhaps there is something to show: that is decided when this instant is over, and once."""
        if not self._settling:
            self._settling = True
            self.timeline.after_instant(self._settle)

    async def _settle(self) -> None:
        """This instant is over: carry out what was asked of tools, then show what is to be shown."""
        self._settling = False
        if self._calls and not self.over:
            calls, self._calls = self._calls, []
            await self._call(calls)
        if len(self._held) > (self._thought is not None):
            self._freed = False  # it was taken hold of again at once
        ask = self._ask or (self._freed and self._thought is None)
        if self.over or not (self._waiting or ask):
            return
        now = self.timeline.now
        when = now if self._promised else self.interface.delivery(now, self.busy)
        self._promised = False
        if when is None:
            return  # the end of what holds the agent will bring us here again
        if when <= now:
            await self._deliver(ask)
        elif self._poll is None:
            self._poll = self.timeline.at(when, self._polled)

    def _polled(self) -> None:
        self._poll, self._promised = None, True
        self._consider()

    async def _deliver(self, woken: bool) -> None:
        """Show the agent this moment, and take its decision."""
        if self._thought is not None:
            thought = self._thought[0]
            if not self.agent.attend([observation for _, observation in self._waiting], _in_flight(thought)):
                return  # they wait until the thought has landed
            self._break_off()
        if self._turns >= self.max_turns:
            self._end("turn_limit", self.environment.outcome())
            return
        waiting, self._waiting = self._waiting, []
        self._ask = self._freed = False
        for entry in (self._wake, self._poll):
            if entry is not None:
                self.timeline.cancel(entry)
        self._wake = self._poll = None
        moment = Moment(
            now=self.timeline.now,
            observations=tuple(observation for _, observation in waiting),
            in_flight=tuple(_in_flight(work) for work in self._works.values()),
            interrupted=self._interrupted,
            round=self._round,
            rounds=self._rounds,
            woken=woken,
        )
        self._interrupted = None
        self._note("seen", "", {"events": [index for index, _ in waiting]})
        decision = await self.agent.act(moment)
        if not (decision.takes >= 0 and 0 <= (decision.wake or 0) < inf):
            raise PluginError(
                f"the agent {_name(self.agent)} decided takes={decision.takes}, wake={decision.wake}",
                fix="both are zero or more, and wake is finite or None",
            )
        for recollection in decision.recalled:
            self._note("memory", "recalled", recollection.to_record())
        turn = self._turn(decision)
        if decision.takes == 0:
            self._land(decision, turn)
        else:
            work = _Tracked(self, "think", decision.takes, lambda work: self._land(decision, turn), holds=True)
            self._thought = (work, decision, turn)

    def _turn(self, decision: Decision) -> Turn:
        now = self.timeline.now
        generation = decision.generation or Generation()
        turn = generation.turn(
            len(self.episode.turns),
            now,
            now + decision.takes,
            self._places(decision.shown),
            tuple(decision.interventions),
            failures=tuple(decision.failures),
            said=decision.said,
            round=self._round,
            seat=self.seat,
        )
        self._turns += 1
        self.episode.turns.append(turn)
        if self.watch is not None:
            self.watch(self.episode, turn)
        return turn

    def _places(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Where each stands in the record, which keeps every message once."""
        told, (before, places) = list(messages), self._told
        # Most of a conversation was told on the turn before, and is compared as a whole: it may be long.
        if told[: len(before)] != before:
            places = ()
        new = []
        for message in told[len(places) :]:
            if id(message) not in self._shown:
                self._shown[id(message)] = len(self.episode.messages)
                self.episode.messages.append(message)  # kept, so that its id stays its own
            new.append(self._shown[id(message)])
        self._told = told, (*places, *new)
        return self._told[1]

    def _break_off(self) -> None:
        """Interrupt the decision in the making: what was out stays, and is all that there is of it."""
        assert self._thought is not None
        thought, decision, turn = self._thought
        thought.cancel()
        self._thought = None
        generation = decision.generation or Generation()
        share = thought.spent / thought.duration
        # The tiny addend: 3 tokens of 0.1 each take 0.30000000000000004, and all three are out by then.
        kept = generation.cut(int(generation.length * share + 1e-9))
        turn.ended, turn.finish, turn.calls, turn.failures = self.timeline.now, "interrupted", (), ()
        turn.said = None
        turn.text, turn.count = kept.text, kept.length
        turn.token_ids, turn.logprobs = tuple(kept.token_ids), tuple(kept.logprobs)
        self._interrupted = kept

    # -- what the agent does -------------------------------------------------------------------------------------------

    def _land(self, decision: Decision, turn: Turn) -> None:
        """A decision takes effect."""
        self._thought = None
        if self.over:
            return
        if decision.wake is not None:
            self._wake = self.timeline.after(decision.wake, self._woken)
        self._landing = True
        for intervention in decision.interventions:
            if self.over:
                break
            self._note("intervention", intervention.name, {**intervention.arguments, "id": intervention.id})
            if intervention.name in self.agent.tools:
                self._calls.append(intervention)
            else:
                self._intervene(intervention)
        self._landing = False
        if decision.failures and not self.over:
            text = "not understood: " + "; ".join(decision.failures)
            self.deliver(Observation(self.timeline.now, "not_understood", {"failures": list(decision.failures)}, text))
        if not self.over:
            plain(self.environment.turned(copy(turn)))  # type: ignore[func-returns-value]
        self._consider()

    def _woken(self) -> None:
        self._wake = None
        self._ask = True
        self._consider()

    def _react(self, observation: Observation) -> None:
        """Do what the interface's reflex does about it, before the agent knows."""
        for intervention in self.interface.reflex(observation, self.environment.reflex):
            if self.over:
                return
            self._note("reflex", intervention.name, dict(intervention.arguments))
            self._intervene(intervention)

    def _intervene(self, intervention: Intervention) -> None:
        before, self._carrying = self._carrying, intervention.id
        try:
            plain(self.environment.intervene(intervention))  # type: ignore[func-returns-value]
        except InterventionRefused as refusal:
            self._refuse(intervention.name, refusal, intervention.id)
        self._carrying = before

    def _refuse(self, name: str, refusal: InterventionRefused, call: str) -> None:
        self._note("refused", name, {"reason": str(refusal), "id": call})
        data = {"action": name, "reason": str(refusal), "call": call}
        self.deliver(Observation(self.timeline.now, "refused", data, f"{name} refused: {refusal}"))

    async def _call(self, calls: Sequence[Intervention]) -> None:
        """Call tools side by side in real time; each answer is observed after the time that the tool takes here."""
        tools = self.agent.tools
        answers = await asyncio.gather(*(tools[call.name].answer(call.arguments) for call in calls))
        for call, (well, text) in zip(calls, answers, strict=True):
            data = {"tool": call.name, "well": well, "call": call.id}
            takes = tools[call.name].takes
            if takes > 0:
                work = _Tracked(self, call.name, takes, self._answered(data, text), holds=False)
                self._works[work.number] = work
            else:
                self._answered(data, text)(None)

    def _answered(self, data: Mapping[str, Any], text: str) -> Callable[[object], None]:
        return lambda _: self.deliver(Observation(self.timeline.now, "answer", data, text))

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _note(self, kind: str, name: str, data: dict[str, Any] | None = None) -> None:
        self.episode.events.append(Event(self.timeline.now, kind, name, data or {}, self.seat))

    def _work_changed(self, work: _Tracked, state: str) -> None:
        self._note("work", work.name, {"id": work.number, "state": state, "spent": work.spent, "holds": work.holds})
        if work.done or work.cancelled:
            self._works.pop(work.number, None)
        if not work.holds:
            return
        if work.running:
            self._held.add(work)
            return
        self._held.discard(work)
        # Who puts something aside by its own decision needn't be asked what next: that is the decision's business.
        if (self._thought is None or self._thought[0] is not work) and (work.done or not self._landing):
            self._freed = True
        self._consider()

    def _end(self, finish: str, outcome: Mapping[str, float]) -> None:
        if self.over:
            return
        if self._thought is not None:
            self._break_off()
        self.over, self.finish, self.outcome = True, finish, dict(outcome)
        if self.seat:
            for work in list(self._works.values()):
                work.cancel()  # the clock that it shares goes on
        else:
            self.episode.outcome.update(outcome)
        self._ended()

    def _leave(self) -> None:
        """Somebody stopped the clock: what was in the making is cut where it is."""
        if not self.over:
            self._end("left", self.environment.outcome())


class _World:
    """What an engagement is to its environment: the `World` protocol."""

    def __init__(self, engagement: Engagement, seeds: Seeds) -> None:
        line = engagement.timeline
        self._engagement, self._line, self.seeds = engagement, line, seeds
        self.timeline, self.episode, self.seat = line, engagement.episode, engagement.seat
        self.at, self.after, self.cancel = line.at, line.after, line.cancel
        self._generators: dict[str, random.Random] = {}
        if self.seat:
            self.at, self.after = self._at_seat, self._after_seat

    def _at_seat(self, time: Time, call: Callable[[], object]) -> Scheduled:
        return self._line.at(time, lambda: self._engagement.over or call())

    def _after_seat(self, delay: Time, call: Callable[[], object]) -> Scheduled:
        """Others share the clock: when this world is over, what it scheduled must not go on for ever."""
        return self._line.after(delay, lambda: self._engagement.over or call())

    @property
    def now(self) -> Time:
        return self._line.now

    def random(self, name: str) -> random.Random:
        """Asked for again it goes on: a generator that began anew each time would always draw the same."""
        found = self._generators.get(name)
        if found is None:
            found = self._generators[name] = self.seeds.random(name)
        return found

    def work(
        self, name: str, duration: Time, finished: Callable[[Work], object] | None = None, *, holds: bool = True
    ) -> Work:
        work = _Tracked(self._engagement, name, duration, finished, holds=holds)
        self._engagement._works[work.number] = work
        return work

    def observe(self, name: str, data: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        self._engagement.deliver(Observation(self._line.now, name, data or {}, text))

    def utility(self, value: float, reason: str) -> None:
        self._engagement.episode.utility += value
        self._engagement._note("utility", reason, {"value": value})

    def measure(self, name: str, value: float) -> None:
        engagement = self._engagement
        engagement.episode.measures.append(Measure(name, value, self._line.now, engagement._round))

    def round(self, number: int, of: int) -> None:
        self._engagement._round, self._engagement._rounds = number, of
        self._engagement._note("round", str(number), {"of": of})

    def finish(self, **outcome: float) -> None:
        self._engagement._end("finished", outcome)


class _Tracked(Work):
    """Work that the engagement keeps track of: each change is an event, and its end may free the agent."""

    __slots__ = ("_call", "_engagement", "holds", "number")

    def __init__(
        self,
        engagement: Engagement,
        name: str,
        duration: Time,
        finished: Callable[[Any], object] | None,
        *,
        holds: bool,
    ) -> None:
        super().__init__(engagement.timeline, name, duration, finished)
        self._engagement, self.holds, self._call = engagement, holds, engagement._carrying
        self.number = len(engagement.episode.events)
        engagement._work_changed(self, "started")

    def interrupt(self) -> None:
        if self.running:
            super().interrupt()
            self._engagement._work_changed(self, "interrupted")

    def resume(self) -> None:
        if not (self.running or self.done or self.cancelled):
            super().resume()
            self._engagement._work_changed(self, "resumed")

    def cancel(self) -> None:
        if not (self.done or self.cancelled):
            Work.interrupt(self)
            self.cancelled = True
            self._engagement._work_changed(self, "cancelled")

    def complete(self) -> None:
        if not (self.done or self.cancelled):
            finished, self._finished = self._finished, None
            super().complete()
            self._engagement._work_changed(self, "finished")
            if finished is not None:
                try:
                    plain(finished(self))
                except InterventionRefused as refusal:  # of an action that takes time: it is refused at its end
                    self._engagement._refuse(self.name, refusal, self._call)


def _name(component: object) -> str:
    return type(getattr(component, "guarded", component)).__name__


def _in_flight(work: Work) -> InFlight:
    return InFlight(work.name, work.spent, work.duration, work.running)
