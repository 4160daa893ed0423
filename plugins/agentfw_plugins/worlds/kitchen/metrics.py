"""Figures of the kitchen that stand in the record: when signals were seen, and what polling would have cost.

The one rule: an environment doesn't know the interface that it is played under, so what depends on that is read from
the record afterwards.
"""

from __future__ import annotations

from math import floor

from agentfw.episode import Episode
from agentfw.timeline import Time

from .observations import SIGNALS

__all__ = ["polls", "sight_delays"]


def sight_delays(episode: Episode) -> list[Time]:
    """How long after each signal the agent was shown it; until the end where it never was."""
    waiting: dict[int, Time] = {}
    found: list[Time] = []
    for number, event in enumerate(episode.events):
        if event.seat:
            continue
        if event.kind == "observation" and event.name in SIGNALS:
            waiting[number] = event.time
        elif event.kind == "seen":
            found += [event.time - waiting.pop(one) for one in event.data["events"] if one in waiting]
    return [*found, *(episode.ended - time for time in waiting.values())]


def polls(episode: Episode, every: Time) -> int:
    """How often somebody who looks every so many ticks looks while the tutor explains."""
    count, began = 0, 0.0
    for event in episode.events:
        # The tutor's own seat: it explains from the moment at which it begins to speak.
        if event.kind == "work" and event.seat.rpartition("/")[2] == "tutor":
            if event.data["state"] == "started":
                began = event.time
            else:
                count += floor(event.time / every) - floor(began / every)
    return count
