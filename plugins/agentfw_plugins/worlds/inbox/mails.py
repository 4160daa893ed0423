"""A day at the inbox: its settings, its document and mails, and how it is scored.

Settings and scores are those of tables 17 and 19 of the engagement-process paper. A section's `tokens` say what
generating it took, so every policy writes the same document. Everything random about a mail is drawn when it arrives,
so a day is the same under every interface, whatever the assistant does.

    >>> round(balanced(document=1.0, mails=0.5), 3), round(balanced(document=0.8, mails=0.8), 3)
    (0.55, 0.8)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field, model_validator

from agentfw import Settings
from agentfw.seeds import Seeds
from agentfw.timeline import Time, Work

SLACK = {"high": (5.0, 15.0), "medium": (15.0, 25.0), "low": (25.0, 35.0)}
"""Minimum and maximum time until a mail of an urgency is due."""


class Durations(Settings):
    """Durations of everything except writing."""

    check_inbox: float = Field(0.1, ge=0, description="Checking which mails have arrived.")
    triage: float = Field(0.2, ge=0, description="Triage of the new mails.")
    open_message: float = Field(0.1, ge=0, description="Reading a mail.")
    handle_email: float = Field(1.0, ge=0, description="Handling and answering a mail.")
    set_reminder: float = Field(0.1, ge=0, description="Setting a reminder.")
    turning_back: float = Field(0.1, ge=0, description="Returning from the mails to the document.")


class InboxSettings(Settings, allow_inf_nan=False):
    horizon: float = Field(90.0, gt=0, description="Length of an episode.")
    rate: float = Field(0.2, ge=0, description="Mean number of mails per unit of time.")
    high: float = Field(0.4, ge=0, le=1, description="Share of mails of high urgency.")
    medium: float = Field(0.4, ge=0, le=1, description="Share of mails of medium urgency; the rest is low.")
    time_per_token: float = Field(0.05, gt=0, description="Time to write a token of the document or of an answer.")
    durations: Durations = Field(Durations(), description="Durations of everything else.")
    single: bool = Field(False, description="Write the document in one go instead of section by section.")

    @model_validator(mode="after")
    def _possible(self) -> InboxSettings:
        if self.high + self.medium > 1:
            raise ValueError(f"the shares high ({self.high:g}) and medium ({self.medium:g}) add up to more than 1")
        return self


@dataclass(frozen=True, slots=True)
class Section:
    """A section, which can be interrupted and resumed."""

    heading: str
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    asks: str
    sections: tuple[Section, ...]

    def in_one_go(self) -> Document:
        """The same document as one long section."""
        text = "\n\n".join(f"{section.heading}. {section.text}" for section in self.sections)
        tokens = sum(section.tokens for section in self.sections)
        return Document(self.title, self.asks, (Section(self.title, tokens, text),))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A mail that may arrive on any day."""

    sender: str
    subject: str
    body: str
    advice: Mapping[str, float]
    """Probability of each advice of the triage: `handle`, `open`, `remind` or `leave`."""

    def advised(self, draw: float) -> str:
        """The advice of the triage, from a number between 0 and 1.

        >>> Scenario("", "", "", {"handle": 0.7, "remind": 0.3}).advised(0.8)
        'remind'
        """
        for advice, chance in self.advice.items():
            draw -= chance
            if draw < 0:
                return advice
        return advice


@cache
def read_documents() -> tuple[Document, ...]:
    read = json.loads((files(__package__) / "documents.json").read_text("utf-8"))
    return tuple(Document(one["title"], one["asks"], tuple(Section(**of) for of in one["sections"])) for one in read)


@cache
def read_scenarios() -> Mapping[str, tuple[Scenario, ...]]:
    """The mails that may arrive, by urgency."""
    scenarios: dict[str, tuple[Scenario, ...]] = {}
    for one in json.loads((files(__package__) / "mails.json").read_text("utf-8")):
        scenario = Scenario(one["from"], one["subject"], one["body"], one["advice"])
        scenarios[one["urgency"]] = (*scenarios.get(one["urgency"], ()), scenario)
    return scenarios


@dataclass(slots=True)
class Mail:
    number: int
    scenario: Scenario
    urgency: str
    arrived: Time
    due: Time
    advice: str  # advice of the triage
    taken: bool = False
    handled: bool = False
    missed: bool = False
    weighed: bool = False
    waited: Time | None = None  # time until it was first read or handled, or until it was due if it never was
    handling: Work | None = field(default=None, repr=False)

    @property
    def waits(self) -> bool:
        return not (self.taken or self.missed)

    def __str__(self) -> str:
        return f"{self.number} from {self.scenario.sender}, {self.urgency} urgency: {self.scenario.subject}"

    def headline(self) -> dict[str, Any]:
        """The content of a notification."""
        told = {"from": self.scenario.sender, "subject": self.scenario.subject, "urgency": self.urgency}
        return {"message": self.number, **told}

    def entry(self) -> dict[str, Any]:
        """The content of an entry in the inbox."""
        return {**self.headline(), "due": round(self.due, 2)}


class Arrivals:
    """The mails of a day, in order of arrival."""

    def __init__(self, settings: InboxSettings, seeds: Seeds) -> None:
        self._settings = settings
        self._gaps, self._draw = seeds.random("arrivals"), seeds.random("contents")

        def dealt(scenarios: tuple[Scenario, ...]) -> Iterator[Scenario]:
            """Yield the scenarios in random order, each once before any is repeated."""
            while True:
                yield from self._draw.sample(scenarios, len(scenarios))

        self._decks = {urgency: dealt(some) for urgency, some in sorted(read_scenarios().items())}

    def gap(self) -> Time:
        """Time until the next mail."""
        return self._gaps.expovariate(self._settings.rate)

    def mail(self, number: int, now: Time) -> Mail:
        draw, high, medium = self._draw.random(), self._settings.high, self._settings.medium
        urgency = "high" if draw < high else "medium" if draw < high + medium else "low"
        due = now + self._draw.uniform(*SLACK[urgency])
        scenario = next(self._decks[urgency])
        return Mail(number, scenario, urgency, now, due, scenario.advised(self._draw.random()))


DOCUMENT = 4 * 0.4  # value of a complete document: four units of 0.4, for any number of sections
FINISHED = 0.8
HANDLED = 0.4
MISSED = -0.5
SWITCH = -0.005
INTERRUPTION = -0.005

_WEIGHTS = {"high": 1.2, "medium": 0.5, "low": 0.1}
_SHARE, _GAP = 0.6, 0.5  # weight of the document relative to the mails, and cost of their difference


def in_time(mails: Sequence[Mail]) -> float:
    """Share of mails handled in time, weighted by urgency; 1 if none arrived."""
    weight = sum(_WEIGHTS[mail.urgency] for mail in mails)
    return sum(_WEIGHTS[mail.urgency] for mail in mails if mail.handled) / weight if weight else 1.0


def balanced(document: float, mails: float) -> float:
    """Combine both; the further they are apart, the lower the result."""
    return _SHARE * document + (1 - _SHARE) * mails - _GAP * abs(document - mails)
