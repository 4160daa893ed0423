"""Interfaces: when observations reach the agent.

An interface decides *when* an agent is shown new observations, never which ones. The same agent and the same
environment run unchanged under each, so a difference in the outcome is the effect of the interface.

    >>> Polling(15).delivery(now=31, busy=True), StepLoop().delivery(now=31, busy=True)
    (45, None)
    >>> parse_interface("polling:15")
    Polling(every=15.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from .episode import Intervention, Observation
from .errors import SettingsError, UnknownNameError
from .timeline import Time

__all__ = ["EventDriven", "Interface", "Polling", "Reflex", "StepLoop", "parse_interface"]

Rule = Callable[[Observation], Iterable[Intervention]]


class Interface:
    """Base class of interfaces."""

    def delivery(self, now: Time, busy: bool) -> Time | None:
        """Time at which to show the agent its waiting observations. None: when it is free. Default: at once."""
        return now

    def reflex(self, observation: Observation, rule: Rule) -> Iterable[Intervention]:
        """The reaction to an observation, before the agent sees it. `rule` is the environment's own reflex."""
        return ()


@dataclass(frozen=True)
class EventDriven(Interface):
    """Delivers at once, even while the agent is busy; the agent may interrupt what it is doing."""


@dataclass(frozen=True)
class StepLoop(Interface):
    """Delivers when the agent has finished its current decision: the usual observe-act loop."""

    def delivery(self, now: Time, busy: bool) -> Time | None:
        return None if busy else now


@dataclass(frozen=True)
class Polling(Interface):
    """Delivers like the step loop, and also at every multiple of `every`."""

    every: Time

    def __post_init__(self) -> None:
        if not 0 < self.every < inf:
            raise SettingsError(f"can't poll every {self.every}", fix="use an interval above zero, such as polling:15")

    def delivery(self, now: Time, busy: bool) -> Time | None:
        steps = now / self.every
        if not busy or steps >= 2**53:  # above 2**53, multiples are closer together than floats
            return now
        # Not math.ceil: the quotient of an exact multiple can be rounded up.
        number = round(steps)
        when = number * self.every
        return when if when >= now else (number + 1) * self.every


@dataclass(frozen=True)
class Reflex(Interface):
    """Delivers at once, after a fixed rule has already reacted."""

    rule: Rule | None = None  # None: the environment's own `reflex`

    def reflex(self, observation: Observation, rule: Rule) -> Iterable[Intervention]:
        return (self.rule or rule)(observation)


_NAMES = ("event_driven", "step_loop", "polling:EVERY", "reflex")


def parse_interface(text: str) -> Interface:
    """Parse an interface from its text in a spec or on the command line."""
    name, _, argument = text.strip().lower().partition(":")
    name = name.replace("-", "_")  # only in the name: 1e-3 is a number
    if name == "polling":
        try:
            return Polling(float(argument))
        except ValueError:
            raise SettingsError(f'"{text}" has no interval', fix="write polling:15 to look every 15 units") from None
    plain = {"event_driven": EventDriven, "step_loop": StepLoop, "reflex": Reflex}.get(name)
    if plain is None or argument:
        raise UnknownNameError("interface", text, _NAMES)
    return plain()
