"""What a person's words say about why an event was kept, as features of the choice model.

    reasons("der Kunde geht vor", events, "B")     # ["+who=client"], if a client comes to B, but not to A

The words name attributes; which events have them decides the direction. What the kept event has and another hasn't
speaks for it, and what it hasn't and another has speaks against that one. So "no client comes" and "a client comes"
need not be told apart, and what all events have, or none, says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentfw_plugins.worlds.calendar.choice_model import FEATURES, matrix

from .words import named

__all__ = ["reasons"]


def reasons(why: str, events: Sequence[Mapping[str, str]], accepted: str) -> list[str]:
    """The features that a reason is about, each with `+` for what is valued and `-` for what is disliked."""
    words = named(why, "reasons")
    letters = [event["letter"] for event in events]
    found = []
    for name, has in zip(FEATURES, matrix(events).T, strict=True):
        if name in words:
            values = [bool(value) for value in has]
            if len(set(values)) == 2:
                found.append(f"{'+' if values[letters.index(accepted)] else '-'}{name}")
    return found
