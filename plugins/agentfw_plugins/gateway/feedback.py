"""Reads feedback: a number, a word or a correction."""

from __future__ import annotations

from typing import NamedTuple

from ..protocols import Body

__all__ = ["WORDS", "Feedback", "read_feedback"]

WORDS = {
    **dict.fromkeys(("good", "yes", "like", "up", "right", "+1", "👍"), 1.0),
    **dict.fromkeys(("bad", "no", "dislike", "down", "wrong", "-1", "👎"), -1.0),
}
"""Words for good (1) and bad (-1)."""


class Feedback(NamedTuple):
    """What somebody thinks of an answer, from -1 (bad) to 1 (good)."""

    value: float
    words: str = ""
    correction: str = ""
    turn: int | None = None


def read_feedback(body: Body) -> Feedback:
    """The feedback of a request. A correction without a value means that the answer was bad."""
    given = body.values.get("value")
    correction = body.text("correction", "")
    if isinstance(given, str):
        found = WORDS.get(given.strip().lower())
        if found is None:
            raise body.wrong("value", f"must be a number from -1 to 1, or one of {', '.join(WORDS)}")
    elif isinstance(given, bool):
        found = 1.0 if given else -1.0
    else:
        found = body.number("value", -1, 1)
    if found is None and not correction:
        raise body.wrong("value", "is required, unless there is a correction")
    value = -1.0 if found is None else found
    return Feedback(value, body.text("words", ""), correction, body.whole("turn", 0))
