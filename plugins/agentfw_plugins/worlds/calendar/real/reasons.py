"""What a person's words say about why an event was kept, as features of the choice model.

    reasons("der Kunde geht vor", events, "B")     # ["+who=client"], if a client comes to B only

The words name attributes; which events have them decides the direction. What only the kept event has speaks for it,
and what only others have speaks against them. So "no client comes" and "a client comes" need not be told apart, and
what all events have, or none, says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..choice_model import FEATURES, matrix
from .words import named

__all__ = ["reasons"]


def reasons(why: str, events: Sequence[Mapping[str, str]], accepted: str) -> list[str]:
    """The features that a reason is about, each with `+` for what is valued and `-` for what is disliked."""
    words = named(why, "reasons")
    found = []
    for name, has in zip(FEATURES, matrix(events).T, strict=True):
        if name in words:
            kept = any(value for value, event in zip(has, events, strict=True) if event["letter"] == accepted)
            others = any(value for value, event in zip(has, events, strict=True) if event["letter"] != accepted)
            if kept != others:
                found.append(f"{'+' if kept else '-'}{name}")
    return found
