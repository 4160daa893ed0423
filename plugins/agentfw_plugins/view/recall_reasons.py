"""Says in words why a memory recalled something. A memory may say it itself, or with figures.

>>> because({"points": {"words": 0.42, "user": 0.13, "time": 0.0}, "path": "found by its words"})
'it has the words of what was asked (+0.42), it is like this user (+0.13)'
>>> because({"rule": "never before nine", "age": 3})
'rule never before nine, age 3'
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["because"]

_WORDS = {
    "vectors": "it means what was asked",
    "words": "it has the words of what was asked",
    "user": "it is like this user",
    "community": "it belongs to the user's circle of skills",
    "neighbours": "what stands beside it is like what was asked",
    "owner": "its owner was named",
    "time": "it became true at the time that was named",
    "fact": "it states the fact that was asked for",
    "complement": "it completes what else was recalled",
    "conflict": "it contradicts what else was recalled",
    "rating": "of how the user rated answers with it",
}
"""What each part of a score of the skill graph means. Other memories may use the same names."""
_LEAST = 0.005
"""What adds less isn't a reason."""
_LONGEST = 200


def because(why: object) -> str:
    """The reasons, what adds most first."""
    if not isinstance(why, Mapping):
        return ""
    points = why.get("points")
    if isinstance(points, Mapping):
        adds = {str(name): float(value) for name, value in points.items() if isinstance(value, int | float)}
        ordered = sorted((name for name in adds if abs(adds[name]) >= _LEAST), key=lambda name: -abs(adds[name]))
        if ordered:
            return ", ".join(f"{_WORDS.get(name, name)} ({adds[name]:+.2f})" for name in ordered)
    said = {str(name): _value(value) for name, value in why.items() if value and name != "skill"}
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = "" if isinstance(value, Mapping) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
