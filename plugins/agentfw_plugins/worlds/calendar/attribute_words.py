"""Visible attributes of an event in words, for the reason of a proposal and for what is remembered of a user.

Every feature has exactly one phrase.

    >>> in_words("due=today"), in_words("who=client")
    ('due today', 'a client comes')
"""

from __future__ import annotations

from collections.abc import Mapping

from .event_attributes import RELATIONS

__all__ = ["in_words"]

_SOMEBODY = {"superior": "a superior", "report": "somebody of the own team", "peer": "a colleague"}
_SOMEBODY |= {relation: f"a {relation}" for relation in RELATIONS if relation not in _SOMEBODY}

_WORDS: Mapping[str, str] = {
    "by=self": "called by oneself",
    **{f"by={relation}": f"called by {somebody}" for relation, somebody in _SOMEBODY.items()},
    **{f"who={relation}": f"{somebody} comes" for relation, somebody in _SOMEBODY.items()},
    "who=family": "family",
    "who=friend": "with friends",
    "who=doctor": "about health",
    "by=family": "called by family",
    "by=friend": "called by a friend",
    "by=doctor": "called by a doctor",
    "size=1": "alone",
    "size=2": "just two people",
    "size=3-4": "three or four people",
    "size=5-7": "five to seven people",
    "size=8+": "eight and more people",
    "min=-30": "half an hour at most",
    "min=45-75": "about an hour",
    "min=90+": "ninety minutes and more",
    "topic=delivery": "the work itself",
    "topic=people": "about people",
    "urgency=low": "not urgent",
    "urgency=high": "urgent",
    "due=week": "due this week",
    "due=today": "due today",
    "place=room": "in a room",
    "place=video": "by video",
    "place=phone": "by phone",
    "place=onsite": "somewhere else",
    "series=any": "part of a series",
    "notice=week": "called this week",
    "notice=today": "called today",
    "hold=optional": "optional",
    "hold=fixed": "can't be moved",
    "hold=must": "must be attended",
}


def in_words(feature: str) -> str:
    """A feature of `choice_model.FEATURES` as a phrase."""
    return _WORDS.get(feature) or feature.partition("=")[2]
