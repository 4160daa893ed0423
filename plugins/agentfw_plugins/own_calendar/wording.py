"""Attributes of events in words for the person whose calendar it is.

Policies and the hub use the benchmark's names, such as "outreach" and "called by oneself +0.2". A person reads what
they mean. What isn't one of these names, such as the reason of a language model, stays as it is.

    reworded("learning, B: outreach")                      # "a training or talk, B: for customers or partners"
    weighed(["due today +0.8", "outreach -0.2"])           # more weight for "due today"; less weight for ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..worlds.calendar.attribute_words import in_words
from ..worlds.calendar.choice_model import FEATURES

__all__ = ["COUNTED", "phrase", "reworded", "weighed"]

COUNTED = re.compile(r"(.+) ([+-]\d+\.\d)")
"""A strategy that was counted from decisions: what it is about, and its weight."""
_PHRASES = {
    "by=self": "called by yourself",
    "by=partner": "called by somebody from outside",
    "by=report": "called by somebody of your team",
    "who=partner": "somebody from outside comes",
    "who=report": "somebody of your team comes",
    "size=1": "nobody else is invited",
    "size=8+": "eight or more people",
    "min=90+": "90 minutes or more",
    "topic=delivery": "everyday work",
    "topic=steering": "about strategy or budgets",
    "topic=outreach": "for customers or partners",
    "topic=learning": "a training or talk",
    "topic=people": "about staff",
    "topic=social": "a meal or get-together",
    "topic=personal": "private",
    "topic=admin": "paperwork",
    "place=room": "no other place",
    "notice=week": "announced this week",
    "notice=today": "announced today",
}


def phrase(feature: str) -> str:
    """One attribute, such as `topic=outreach`."""
    return _PHRASES.get(feature) or in_words(feature)


_BY_NAME = {in_words(feature): phrase(feature) for feature in (*FEATURES, *_PHRASES)}


def reworded(reason: str) -> str:
    """The reason of a proposal, with the letters of events before what speaks against them."""
    parts = (re.fullmatch(r"([A-E]: )?(.*)", part, re.S) for part in reason.split(", "))
    return ", ".join(f"{part[1] or ''}{_BY_NAME.get(part[2], part[2])}" for part in parts if part)


def weighed(strategies: Iterable[str]) -> str:
    """What counts more and less than it did, and strategies that a model wrote."""
    more, less, written = list[str](), list[str](), list[str]()
    for strategy in strategies:
        counted = COUNTED.fullmatch(strategy)
        if counted is None:
            written.append(strategy)
        else:
            (more if counted[2].startswith("+") else less).append(f'"{_BY_NAME.get(counted[1], counted[1])}"')
    said = [f"{name} weight for {', '.join(some)}" for name, some in (("more", more), ("less", less)) if some]
    return "; ".join([*said, *written])
