"""Interfaces: when an agent is shown what happens in its world.

An interface decides *when* an agent is shown what became known, never what. The same agent and the same
environment run unchanged under each, and what differs in the outcome is what the interface costs.

    EventDriven()     at once, also while the agent is busy; it may break off what it is doing
    StepLoop()        when the agent is done with what it is doing: the usual observe-act loop
    Polling(every)    like the step loop, and besides at every multiple of `every`
    Reflex(rule)      at once, and before the agent is asked the rule has acted already

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
    """When observations are delivered; and what happens before they are."""

    def delivery(self, now: Time, busy: bool) -> Time | None:
        """When to show the agent what waits for it; None for as soon as it is no longer busy."""
        raise NotImplementedError

    def reflex(self, observation: Observation, rule: Rule) -> Iterable[Intervention]:
        """What is done about an observation before the agent knows of it. `rule` is the environment's own reflex."""
        return ()


@dataclass(frozen=True)
class EventDriven(Interface):
    def delivery(self, now: Time, busy: bool) -> Time | None:
        return now


@dataclass(frozen=True)
class StepLoop(Interface):
    def delivery(self, now: Time, busy: bool) -> Time | None:
        return None if busy else now


@dataclass(frozen=True)
class Polling(Interface):
    every: Time

    def __post_init__(self) -> None:
        if not 0 < self.every < inf:
            raise SettingsError(f"can't poll every {self.every}", fix="give a time above zero, such as polling:15")

    def delivery(self, now: Time, busy: bool) -> Time | None:
        steps = now / self.every
        if not busy or steps >= 2**53:  # multiples closer together than floats are: every moment is one
            return now
        # Not the ceiling: the quotient of a multiple can come out a little above its number.
        number = round(steps)
        when = number * self.every
        return when if when >= now else (number + 1) * self.every


@dataclass(frozen=True)
class Reflex(Interface):
    rule: Rule | None = None
    """None uses the environment's own `reflex`."""

    def delivery(self, now: Time, busy: bool) -> Time | None:
        return now

    def reflex(self, observation: Observation, rule: Rule) -> Iterable[Intervention]:
        return (self.rule or rule)(observation)


_NAMES = ("event_driven", "step_loop", "polling:EVERY", "reflex")


def parse_interface(text: str) -> Interface:
    """An interface from the words that a spec or a command line has for it."""
    name, _, argument = text.strip().lower().partition(":")
    name = name.replace("-", "_")  # of the name only: 1e-3 is a number
    if name == "polling":
        try:
            return Polling(float(argument))
        except ValueError:
            raise SettingsError(f'"{text}" says no interval', fix="write polling:15 to look every 15 units") from None
    plain = {"event_driven": EventDriven, "step_loop": StepLoop, "reflex": Reflex}.get(name)
    if plain is None or argument:
        raise UnknownNameError("interface", text, _NAMES)
    return plain()
