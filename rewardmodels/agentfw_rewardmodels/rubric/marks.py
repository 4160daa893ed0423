"""Reads the scores out of a judge's answer.

    >>> marks, repaired = read_marks('Here you are: {"scores": [{"id": 1, "score": "0.5"}, {"id": 2, "score": 1,}]}', 2)
    >>> [mark.score for mark in marks], repaired
    ([0.5, 1.0], True)
    >>> read_marks('{"scores": [{"id": 1, "score": 7}]}', 1)
    Traceback (most recent call last):
    ...
    agentfw_rewardmodels.rubric.marks.Unusable: the score of 1 is 7, and must be a number from 0 to 1

Any unambiguous answer is accepted, whatever its shape. Others are refused, in words that the judge can read. No text
raises any other exception.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentfw_rewardmodels.json_in_text import json_values

__all__ = ["Mark", "Unusable", "read_marks"]


@dataclass(frozen=True, slots=True)
class Mark:
    """The score of one attempt, and the reason for it."""

    score: float
    why: str = ""


class Unusable(Exception):
    """Raised for an answer without usable scores. The message is written for the judge."""


def read_marks(text: str, count: int) -> tuple[tuple[Mark, ...], bool]:
    """Return the marks of the attempts 1 to `count`, and whether the answer had to be repaired."""
    problem = Unusable("it contains no JSON object")
    for value, repaired in json_values(text):
        try:
            return _marks(value, count), repaired
        except Unusable as error:
            problem = error
    raise problem


def _marks(value: object, count: int) -> tuple[Mark, ...]:
    """Return the marks in a JSON value: a list of objects, an object by id, or a list of numbers under `scores`."""
    named = isinstance(value, dict) and "scores" in value
    if isinstance(value, dict):
        value = value["scores"] if named else [value] if "score" in value else value
    if isinstance(value, dict):
        rows = [(_id(name), row) for name, row in value.items()]
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        rows = [(_id(row.get("id", 1 if count == 1 else None)), row) for row in value]
    elif isinstance(value, list) and named and len(value) == count:
        rows = list(enumerate(value, start=1))
    else:
        raise Unusable("it is not a JSON object with a list of scores")
    found: dict[int, Mark] = {}
    for number, row in rows:
        if number is None or not 1 <= number <= count:
            raise Unusable(f"it scores an unknown attempt; the ids are 1 to {count}")
        if number in found:
            raise Unusable(f"it scores {number} twice")
        found[number] = _mark(number, row)
    if missing := [str(number) for number in range(1, count + 1) if number not in found]:
        raise Unusable(f"it has no score for {', '.join(missing)}")
    return tuple(found[number] for number in range(1, count + 1))


def _mark(number: int, row: object) -> Mark:
    given, why = (row.get("score"), row.get("why", "")) if isinstance(row, dict) else (row, "")
    try:
        score = math.nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not 0 <= score <= 1:
        raise Unusable(f"the score of {number} is {str(given)[:40]}, and must be a number from 0 to 1")
    return Mark(score, why if isinstance(why, str) else "")


def _id(value: object) -> int | None:
    """Return an id as a number, also if it was written as text."""
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
