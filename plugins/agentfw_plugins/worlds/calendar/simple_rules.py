"""Simple rules that rank events without knowing the user.

They read the same tags as everybody else. Ties go to the event that is shown first, whose place carries no information.

    >>> RULES["earliest"]([{"letter": "A", "start": "10:15"}, {"letter": "B", "start": "10:00"}])
    ['B', 'A']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .event_attributes import CHOICES

__all__ = ["RULES", "Rule"]

Shown = Sequence[Mapping[str, str]]
Rule = Callable[[Shown], list[str]]

_SENIORITY = ("nobody", "vendor", "partner", "report", "peer", "client", "superior")


def _by(key: Callable[[Mapping[str, str]], object]) -> Rule:
    """Rank by value, in descending order."""

    def rule(events: Shown) -> list[str]:
        # sorted is stable, also in reverse, so among equals the first stays first.
        return [event["letter"] for event in sorted(events, key=key, reverse=True)]  # type: ignore[arg-type]

    return rule


def _earliness(event: Mapping[str, str]) -> int:
    hour, _, minute = event["start"].partition(":")
    return -(int(hour) * 60 + int(minute))


def _urgency(event: Mapping[str, str]) -> tuple[int, int, int]:
    return tuple(CHOICES[tag].index(event[tag]) for tag in ("urgency", "due", "notice"))  # type: ignore[return-value]


def _seniority(event: Mapping[str, str]) -> tuple[int, int]:
    ranks = [_SENIORITY.index(relation) for relation in event["who"].split(",")]
    return max(ranks), _SENIORITY.index(event["by"]) if event["by"] in _SENIORITY else 0


RULES: dict[str, Rule] = {
    "earliest": _by(_earliness),
    "most_attendees": _by(lambda event: int(event["size"])),
    "most_urgent": _by(_urgency),
    "most_senior": _by(_seniority),
    "regular_first": _by(lambda event: event["series"] != "none"),
    "first_shown": lambda events: [event["letter"] for event in events],
}
