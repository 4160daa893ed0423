"""The documents and mails of the inbox, read from the JSON files in this folder.

Documents are fixed. A section's `tokens` say what generating it took, thinking included, and writing replays that. So
every policy and interface writes the same document.

    >>> library = read_library()
    >>> len(library.documents), len(library.scenarios["high"])
    (12, 12)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["Document", "Library", "Scenario", "Section", "read_library"]


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


@dataclass(frozen=True, slots=True)
class Library:
    documents: tuple[Document, ...]
    scenarios: Mapping[str, tuple[Scenario, ...]]
    """By urgency."""


@cache
def read_library() -> Library:
    documents = tuple(
        Document(one["title"], one["asks"], tuple(Section(**section) for section in one["sections"]))
        for one in _read("documents.json")
    )
    scenarios: dict[str, list[Scenario]] = {}
    for one in _read("mails.json"):
        scenario = Scenario(one["from"], one["subject"], one["body"], one["advice"])
        scenarios.setdefault(one["urgency"], []).append(scenario)
    return Library(documents, {urgency: tuple(some) for urgency, some in scenarios.items()})


def _read(name: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads((files(__package__) / name).read_text("utf-8"))
    return read
