"""Plays an agent and an environment on one timeline; the result is an episode.

    episode = await Engagement(Inbox(), agent, EventDriven()).run(Task(0, seed=7))

The world does not wait for the agent. One moment, in order: everything that is due happens. Then the interface is asked
whether to deliver what has become known, and the agent gets it as one set. Then time moves on. A decision takes effect
after the time that it took. Work that `holds` keeps the agent busy: an interface like the step loop delivers only
between such works. An agent that becomes free is asked what to do next, even if nothing new has happened.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any

from ..agent import Agent, Decision
from ..boundary.crossing import Layer
from ..boundary.guard import not_awaitable
from ..boundary.secrets import struck
from ..environment import Environment
from ..episode import Episode, Event, Intervention, Measure, Observation, Task, Turn
from ..errors import InterventionRefused, PluginError, TimelineError
from ..interfaces import EventDriven, Interface
from ..request import Generation, InFlight, Moment
from ..seeds import Seeds
from ..timeline import MAX_EVENTS, MAX_EVENTS_PER_INSTANT, Scheduled, Time, Timeline, Work
from .turn_builder import Answer, BeforeCall, TurnRecorder


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
        before_call: BeforeCall | None = None,
    ) -> None:
        self.environment, self.agent, self.interface = environment, agent, interface or EventDriven()
        self.horizon, self.max_turns, self.watch, self.before_call = horizon, max_turns, watch, before_call
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
        self._end("horizon" if timeline.next_time() < inf else "quiet")
        if len(episode.turns) < self._turns:
            wrong = f"the world {_name(self.environment)} has removed turns from the record of its episode"
            raise PluginError(wrong, fix="fix the environment: `world.episode` is to be read")
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
        self.finish, self.outcome, self.over = "", dict[str, float](), False
        self._works: dict[int, Work] = {}  # that the agent sees in progress, by number
        self._holding: set[Work] = set()  # that keeps the agent busy
        self._current_call = ""  # id of the call that is being carried out
        self._round = self._rounds = 0
        self._waiting: list[tuple[int, Observation]] = []
        self._thought: tuple[Work, Decision, Turn] | None = None
        self._calls: list[Intervention] = []
        self._ending = self._begun = self._landing = self._promised = self._freed = False
        self._ask = True
        self._poll: Scheduled | None = None
        self._wake: Scheduled | None = None
        self._interrupted: Generation | None = None
        self._turns, self._recorder = 0, TurnRecorder(episode, self.watch, seat=seat)
        timeline.when_stopped(lambda: self._end("left"))
        brief = struck(self.environment.brief())
        if self._time_per_token is not None:
            brief = replace(brief, time_per_token=self._time_per_token)
        self.world = SeatWorld(self, seeds.child("world", seat))
        not_awaitable(self.environment.begin(self.world, episode.task))  # type: ignore[func-returns-value]
        # Whose profile it is depends on the task, so the environment knows it only now.
        brief = replace(brief, profile=struck(dict(self.environment.profile() or brief.profile)))
        if not seat:
            episode.profile = dict(brief.profile)
        self.agent.begin(episode.task, brief)
        if both := sorted(self.agent.tools.keys() & {action.name for action in brief.actions}):
            wrong = f"a tool and an action of the world are both called {', '.join(both)}"
            raise PluginError(wrong, fix="leave the tool out, or give it a prefix")
        self._recorder.offer((*brief.actions, *(tool.action for tool in self.agent.tools.values())))
        self._begun = True
        self._consider()

    def deliver(self, observation: Observation) -> None:
        """Take in an observation. The interface says when the agent sees it."""
        if self.over:
            return
        observation = struck(observation)
        self._note("observation", observation.name, {"text": observation.text, **observation.data})
        # Before the reflex: what a reflex causes comes after what it reacts to.
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
        return bool(self._holding)

    # -- when the agent is shown what waits for it ---------------------------------------------------------------------

    def _consider(self, *, ask: bool = False, promised: bool = False) -> None:
        """Decide once, when this instant is over, whether there is something to show.

        `ask` says that the agent has asked to be woken, and `promised` that the interface has named this time.
        """
        self._ask = self._ask or ask
        if promised:
            self._poll, self._promised = None, True
        if not self._ending:
            self._ending = True
            self.timeline.after_instant(self._end_instant)

    async def _end_instant(self) -> None:
        """End an instant: call the tools that were asked for, then deliver what is due."""
        self._ending = False
        if self._calls and not self.over:
            calls, self._calls = self._calls, []
            # Call tools concurrently in real time. Each answer is observed after the world time that its tool takes.
            tools = self.agent.tools
            answers = await asyncio.gather(*map(self._told, calls))
            for call, (well, text) in zip(calls, answers, strict=True):
                data = {"tool": call.name, "well": well, "call": call.id}
                takes = tools[call.name].takes
                if takes > 0:
                    self._work(call.name, takes, self._answered(data, text), holds=False)
                else:
                    self._answered(data, text)(None)
        if len(self._holding) > (self._thought is not None):
            self._freed = False  # the agent has begun something else already
        ask = self._ask or (self._freed and self._thought is None)
        if self.over or not (self._waiting or ask):
            return
        now = self.timeline.now
        when = now if self._promised else self.interface.delivery(now, self.busy)
        self._promised = False
        if when is None:
            return  # asked again when the work that holds the agent has ended
        if when <= now:
            await self._deliver(ask)
        elif self._poll is None:
            self._poll = self.timeline.at(when, lambda: self._consider(promised=True))

    async def _deliver(self, woken: bool) -> None:
        if self._thought is not None:
            if not self.agent.attend([each for _, each in self._waiting], _in_flight(self._thought[0])):
                return  # the observations wait until the decision has taken effect
            self._break_off()
        if self._turns >= self.max_turns:
            self._end("turn_limit")
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
            wrong = f"the agent {_name(self.agent)} decided takes={decision.takes}, wake={decision.wake}"
            raise PluginError(wrong, fix="both are zero or more, and wake is finite or None")
        for recollection in decision.recalled:
            self._note("memory", "recalled", recollection.to_record())
        now, shown = self.timeline.now, self._recorder.places(decision.shown)
        answer = Answer(tuple(decision.interventions), tuple(decision.failures), said=decision.said)
        generation = decision.generation or Generation()
        self._turns += 1
        turn = self._recorder.add(generation, answer, shown, now, now + decision.takes, round=self._round)
        if decision.takes == 0:
            self._land(decision, turn)
        else:
            # Not among the works in progress: to the agent, its own thought isn't one of them.
            work = self._work("think", decision.takes, lambda _: self._land(decision, turn), holds=True, listed=False)
            self._thought = work, decision, turn

    def _break_off(self) -> None:
        """Interrupt the decision in progress. The record keeps what had been generated by now, and no more."""
        assert self._thought is not None
        thought, decision, turn = self._thought
        thought.cancel()
        self._thought = None
        generation, share = decision.generation or Generation(), thought.spent / thought.duration
        # The tiny addend: 3 tokens of 0.1 each take 0.30000000000000004, and all three are out by then.
        tokens = int(generation.length * share + 1e-9)
        self._interrupted = self._recorder.cut(turn, generation, tokens, self.timeline.now)

    # -- what the agent does -------------------------------------------------------------------------------------------

    def _land(self, decision: Decision, turn: Turn) -> None:
        self._thought = None
        if self.over:
            return
        if decision.wake is not None:
            self._wake = self.timeline.after(decision.wake, lambda: self._consider(ask=True))
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
            not_awaitable(self.environment.turned(copy(turn)))  # type: ignore[func-returns-value]
        self._consider()

    def _react(self, observation: Observation) -> None:
        for intervention in self.interface.reflex(observation, self.environment.reflex):
            if self.over:
                return
            self._note("reflex", intervention.name, dict(intervention.arguments))
            self._intervene(intervention)

    def _intervene(self, intervention: Intervention) -> None:
        before, self._current_call = self._current_call, intervention.id
        try:
            not_awaitable(self.environment.intervene(intervention))  # type: ignore[func-returns-value]
        except InterventionRefused as refusal:
            self._refuse(intervention.name, refusal, intervention.id)
        self._current_call = before

    def _refuse(self, name: str, refusal: InterventionRefused, call: str) -> None:
        self._note("refused", name, {"reason": str(refusal), "id": call})
        data = {"action": name, "reason": str(refusal), "call": call}
        self.deliver(Observation(self.timeline.now, "refused", data, f"{name} refused: {refusal}"))

    async def _told(self, call: Intervention) -> tuple[bool, str]:
        """What the agent is told of a call: by its tool, unless that is decided before."""
        decided = self.before_call and await self.before_call(self.episode.task, call, self._note)
        return decided or await self.agent.tools[call.name].answer(call.arguments)

    def _answered(self, data: Mapping[str, Any], text: str) -> Callable[[object], None]:
        return lambda _: self.deliver(Observation(self.timeline.now, "answer", data, text))

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _note(self, kind: str, name: str, data: dict[str, Any] | None = None) -> None:
        self.episode.events.append(Event(self.timeline.now, kind, name, data or {}, self.seat))

    def _work(
        self,
        name: str,
        duration: Time,
        finished: Callable[[Any], object] | None = None,
        *,
        holds: bool,
        listed: bool = True,
    ) -> Work:
        """Begin work whose changes are recorded as events. Its end may free the agent, who sees it if it is listed."""
        number, call = len(self.episode.events), self._current_call

        def carried_out(work: Work) -> None:
            try:
                if finished is not None:
                    not_awaitable(finished(work))
            except InterventionRefused as refusal:  # an action that takes time is refused when it is done
                self._refuse(name, refusal, call)

        def changed(work: Work, state: str) -> None:
            self._note("work", name, {"id": number, "state": state, "spent": work.spent, "holds": holds})
            if work.done or work.cancelled:
                self._works.pop(number, None)
            if holds and work.running:
                self._holding.add(work)
            elif holds:
                self._holding.discard(work)
                # An agent that puts its own work aside has just decided what to do, so it isn't asked.
                if (self._thought is None or self._thought[0] is not work) and (work.done or not self._landing):
                    self._freed = True
                self._consider()

        work = Work(self.timeline, name, duration, carried_out, changed)
        if listed:
            self._works[number] = work
        return work

    def _end(self, finish: str, outcome: Mapping[str, float] | None = None) -> None:
        """End the episode, unless it has ended. Without an outcome, the environment says what came of it."""
        if self.over:
            return
        outcome = self.environment.outcome() if outcome is None else outcome
        if self._thought is not None:
            self._break_off()
        self.over, self.finish, self.outcome = True, finish, dict(outcome)
        if self.seat:
            for work in list(self._works.values()):
                work.cancel()  # the clock that it shares goes on
        else:
            self.episode.outcome.update(outcome)
        self._ended()


class SeatWorld:
    """The `World` that an environment gets."""

    def __init__(self, engagement: Engagement, seeds: Seeds) -> None:
        line = engagement.timeline
        self._engagement, self.seeds = engagement, seeds
        self.timeline, self.episode, self.seat = line, engagement.episode, engagement.seat
        self.at, self.after, self.cancel = line.at, line.after, line.cancel
        self._generators: dict[str, random.Random] = {}
        if self.seat:  # the clock is shared: once this world is over, what it scheduled no longer happens
            self.at = lambda time, call: line.at(time, lambda: engagement.over or call())
            self.after = lambda delay, call: line.after(delay, lambda: engagement.over or call())

    @property
    def now(self) -> Time:
        return self.timeline.now

    def random(self, name: str) -> random.Random:
        """The generator of this name. It is made once: a new one would draw the same numbers again."""
        if name not in self._generators:
            self._generators[name] = self.seeds.random(name)
        return self._generators[name]

    def work(
        self, name: str, duration: Time, finished: Callable[[Work], object] | None = None, *, holds: bool = True
    ) -> Work:
        return self._engagement._work(name, duration, finished, holds=holds)

    def observe(self, name: str, data: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        self._engagement.deliver(Observation(self.timeline.now, name, data or {}, text))

    def utility(self, value: float, reason: str) -> None:
        self.episode.utility += value
        self._engagement._note("utility", reason, {"value": value})

    def measure(self, name: str, value: float) -> None:
        self.episode.measures.append(Measure(name, value, self.timeline.now, self._engagement._round))

    def round(self, number: int, of: int) -> None:
        self._engagement._round, self._engagement._rounds = number, of
        self._engagement._note("round", str(number), {"of": of})

    def finish(self, **outcome: float) -> None:
        self._engagement._end("finished", outcome)


def _name(component: object) -> str:
    return type(component.inside if isinstance(component, Layer) else component).__name__


def _in_flight(work: Work) -> InFlight:
    return InFlight(work.name, work.spent, work.duration, work.running)
