"""The mails of one day: when each arrives, what it says, and what happened to it.

Everything random about a mail is drawn when it arrives, including the advice of the triage. So a day is the same under
every interface, whatever the assistant does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentfw.seeds import Seeds
from agentfw.timeline import Time, Work

from .inbox_settings import InboxSettings
from .library import Scenario, read_library

__all__ = ["Arrivals", "Mail"]


@dataclass(slots=True)
class Mail:
    number: int
    scenario: Scenario
    urgency: str
    arrived: Time
    due: Time
    advice: str
    """Advice of the triage."""
    taken: bool = False
    handled: bool = False
    missed: bool = False
    weighed: bool = False
    waited: Time | None = None
    """Time until it was first read or handled, or until it was due if it never was."""
    handling: Work | None = field(default=None, repr=False)

    @property
    def waits(self) -> bool:
        return not (self.taken or self.missed)

    def __str__(self) -> str:
        return f"{self.number} from {self.scenario.sender}, {self.urgency} urgency: {self.scenario.subject}"

    def headline(self) -> dict[str, Any]:
        """The content of a notification."""
        return {
            "message": self.number,
            "from": self.scenario.sender,
            "subject": self.scenario.subject,
            "urgency": self.urgency,
        }

    def entry(self) -> dict[str, Any]:
        """The content of an entry in the inbox."""
        return {**self.headline(), "due": round(self.due, 2)}


class Arrivals:
    """The mails of a day, in order of arrival."""

    def __init__(self, settings: InboxSettings, seeds: Seeds) -> None:
        self._settings = settings
        self._gaps, self._draw = seeds.random("arrivals"), seeds.random("contents")
        self._decks = {urgency: _dealt(some, self._draw) for urgency, some in sorted(read_library().scenarios.items())}

    def gap(self) -> Time:
        """Time until the next mail."""
        return self._gaps.expovariate(self._settings.rate)

    def mail(self, number: int, now: Time) -> Mail:
        draw, high, medium = self._draw.random(), self._settings.high, self._settings.medium
        urgency = "high" if draw < high else "medium" if draw < high + medium else "low"
        due = now + self._draw.uniform(*self._settings.slack(urgency))
        scenario = next(self._decks[urgency])
        return Mail(number, scenario, urgency, now, due, scenario.advised(self._draw.random()))


def _dealt(scenarios: tuple[Scenario, ...], draw: random.Random) -> Iterator[Scenario]:
    """Shuffled scenarios, each used once before any is repeated."""
    while True:
        yield from draw.sample(scenarios, len(scenarios))
