"""An environment whose every call goes through a guard, so that what it raises names the call.

engagement = Engagement(GuardedEnvironment(environment, guard, task.id), agent)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real

from ...environment import Brief, Environment, World
from ...episode import Intervention, Observation, Task, Turn
from ...errors import InterventionRefused, one_line
from ...request import Moment
from ..plain_calls import plain
from .creation import Guard
from .guarded import listed

__all__ = ["GuardedEnvironment"]

Demonstration = Callable[[Moment], Iterable[Intervention | str]]

_MOST = 10_000
"""Things that a demonstration may do at one moment."""


class GuardedEnvironment(Environment):
    """Asks another environment on behalf of one episode.

    What the environment has scheduled is called by the timeline and not here: a guard around the episode has that.
    """

    def __init__(self, environment: Environment, guard: Guard, episode: str) -> None:
        self.guarded, self.guard = environment, guard
        self._calling = partial(guard.calling, episode=episode)

    def begin(self, world: World, task: Task) -> None:
        with self._calling("begin()"):
            plain(self.guarded.begin(world, task))  # type: ignore[func-returns-value]

    def brief(self) -> Brief:
        with self._calling("brief()"):
            brief = plain(self.guarded.brief())
            self.guard.require(isinstance(brief, Brief), f"gave a {type(brief).__name__}, not a Brief")
            goal, takes = plain(brief.goal), plain(brief.time_per_token)
            self.guard.require(isinstance(goal, str), f"has a goal of type {type(goal).__name__}, not text")
            self.guard.require(isinstance(takes, Real), f"has a time per token of type {type(takes).__name__}")
            self.guard.require(0 <= float(takes) < math.inf, f"says that a token takes {takes}")
        # A policy follows it, and isn't to blame for it.
        return replace(brief, demonstration=brief.demonstration and self._demonstrated(brief.demonstration))

    def profile(self) -> Mapping[str, str]:
        with self._calling("profile()"):
            return dict(plain(self.guarded.profile()))

    def intervene(self, intervention: Intervention) -> None:
        refused: InterventionRefused | None = None
        with self._calling("intervene()"):
            try:
                plain(self.guarded.intervene(intervention))  # type: ignore[func-returns-value]
            except InterventionRefused as refusal:
                refused = refusal
        if refused is not None:
            raise refused

    def turned(self, turn: Turn) -> None:
        with self._calling("turned()"):
            plain(self.guarded.turned(turn))  # type: ignore[func-returns-value]

    def outcome(self) -> Mapping[str, float]:
        with self._calling("outcome()"):
            return dict(plain(self.guarded.outcome()))

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        with self._calling("reflex()"):
            return listed(plain(self.guarded.reflex(observation)), Intervention, self.guard)

    def _demonstrated(self, demonstration: Demonstration) -> Demonstration:
        def demonstrated(moment: Moment) -> Iterable[Intervention | str]:
            with self._calling("demonstrate()"):
                answers: list[Intervention | str] = []
                for each in plain(demonstration(moment)):  # which may have no end
                    is_answer = isinstance(each, (Intervention, str))
                    self.guard.require(
                        is_answer, f"demonstrated {one_line(repr(each))}, neither an Intervention nor text"
                    )
                    answers.append(each)
                    self.guard.require(len(answers) <= _MOST, f"demonstrated more than {_MOST:,} things at one moment")
            return answers

        return demonstrated
