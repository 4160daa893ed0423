"""What is known of a person, in sentences with the decisions behind each.

    statements(decisions)[0].said(texts)        # "clients before superiors: 4 of 5 times"

A sentence compares two attributes: how often an event with the first was kept and one with the second declined, among
the decisions in which only one event had each. What a person pins counts like several decisions; what they forget
counts no more. At first, health, family and what can't be moved go before work, as most people want it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfw_plugins.worlds.calendar.choice_model import FEATURES, matrix
from agentfw_plugins.worlds.calendar.event_attributes import NEUTRAL

from ..language.texts import Texts

PINNED = 6
"""Number of decisions that a pinned sentence counts like."""
_FEWEST = 2
_LEAST_SHARE = 0.6
_SHOWN = 12
_COMPARED = tuple(name for name in FEATURES if name in Texts.of().compared)


@dataclass(frozen=True, slots=True)
class Preference:
    """One attribute before another, as features of the choice model."""

    first: str
    second: str

    def said(self, texts: Texts) -> str:
        return texts("preference", first=texts.compared[self.first], second=texts.compared[self.second])


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, and what is behind it."""

    preference: Preference
    decisions: tuple[Mapping[str, Any], ...]
    """All decisions that compare the two, also those that speak against it."""
    agreeing: int
    pinned: bool

    def said(self, texts: Texts) -> str:
        times = texts("times", agreeing=self.agreeing, all=len(self.decisions))
        times = times if self.decisions else texts("not_decided")
        times = texts("pinned", times=times) if self.pinned else times
        return texts("statement", preference=self.preference.said(texts), times=times)


AT_FIRST = ("+hold=fixed",)
"""What is assumed before anything was decided, as reasons. Health and family are in the prior of `linear`."""


def statements(decisions: Sequence[Mapping[str, Any]], pinned: Sequence[Preference] = ()) -> list[Statement]:
    """The clearest sentences, those that are pinned first."""
    compared: dict[tuple[str, str], list[tuple[bool, Mapping[str, Any]]]] = {}
    for decision in decisions:
        for first, second in _comparisons(decision):
            name = min((first, second), (second, first))
            compared.setdefault(name, []).append(((first, second) == name, decision))
    found = []
    for (first, second), some in compared.items():
        agreeing = sum(agrees for agrees, _ in some)
        preference = Preference(first, second) if agreeing * 2 >= len(some) else Preference(second, first)
        count = max(agreeing, len(some) - agreeing)
        found.append(Statement(preference, tuple(decision for _, decision in some), count, False))
    own = [_pinned(preference, found) for preference in pinned]
    said = {frozenset((one.preference.first, one.preference.second)) for one in own}
    clear = [
        one
        for one in sorted(found, key=_clarity, reverse=True)
        if len(one.decisions) >= _FEWEST
        and one.agreeing >= _LEAST_SHARE * len(one.decisions)
        and frozenset((one.preference.first, one.preference.second)) not in said
    ]
    behind: set[str] = set()
    chosen = []
    for one in clear:
        ids = {str(decision["id"]) for decision in one.decisions}
        if len(ids - behind) >= _FEWEST:  # the same decisions in other words say nothing new
            behind |= ids
            chosen.append(one)
    return [*own, *chosen[:_SHOWN]]


def assumed_round() -> dict[str, Any]:
    """What is assumed at first as a decision between two events that are alike."""
    return {"events": [{**_PLAIN, "letter": letter} for letter in "AB"], "accepted": "A", "reasons": list(AT_FIRST)}


def pinned_round(preference: Preference) -> dict[str, Any]:
    """A preference as a decision between two events that differ in nothing else."""
    events = [
        {**_PLAIN, **_tags(name), "letter": letter} for letter, name in zip("AB", _sides(preference), strict=True)
    ]
    return {"events": events, "accepted": "A", "reasons": []}


def _pinned(preference: Preference, found: Sequence[Statement]) -> Statement:
    for one in found:
        if one.preference == preference:
            return Statement(preference, one.decisions, one.agreeing, True)
        if (one.preference.second, one.preference.first) == _sides(preference):
            return Statement(preference, one.decisions, len(one.decisions) - one.agreeing, True)
    return Statement(preference, (), 0, True)


def _clarity(one: Statement) -> tuple[int, int]:
    """How much the decisions say, and then: people are clearer than topics."""
    people = sum(name.startswith("who=") for name in _sides(one.preference))
    return one.agreeing * 2 - len(one.decisions), people


def _comparisons(decision: Mapping[str, Any]) -> set[tuple[str, str]]:
    """(attribute of the kept event, attribute of another): what each of them has and the other hasn't."""
    rows = matrix(decision["events"])
    letters = [event["letter"] for event in decision["events"]]
    kept = rows[letters.index(decision["accepted"])]
    found = set()
    for row in rows:
        ahead = [name for name in _COMPARED if kept[_PLACES[name]] > row[_PLACES[name]]]
        behind = [name for name in _COMPARED if row[_PLACES[name]] > kept[_PLACES[name]]]
        found |= {(first, second) for first in ahead for second in behind}
    return found


_PLACES = {name: place for place, name in enumerate(FEATURES)}
_PLAIN = {**NEUTRAL, "by": "self", "who": "nobody", "size": "3", "min": "60", "topic": "delivery", "place": "room"}
_VALUES = {"series=any": "weekly", "size=8+": "8"}


def _sides(preference: Preference) -> tuple[str, str]:
    return preference.first, preference.second


def _tags(name: str) -> dict[str, str]:
    tag, _, value = name.partition("=")
    return {tag: _VALUES.get(name, value)}
