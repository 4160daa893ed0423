"""The answers of a gateway that were rated, as its sessions have them.

An answer is rated by the newest feedback on it, or else by that on its whole session. As in `agentfw train --from`, 0.5
or more is good, and -0.5 or less is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from agentfw import Episode
from agentfw.episode import Event

from ...rewards.measured import feedback_of
from .version_file import Removal

MOST = 400
"""The newest so many ratings are learned from: tastes change."""
_CLEAR = 0.5
_HELD_OUT = 3
"""One of so many conversations is held out."""


class Rating(NamedTuple):
    """An answer that somebody liked or disliked."""

    session: str
    user: str
    at: float
    """When it was rated, in seconds since 1970."""
    liked: bool
    version: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    held_out: bool
    """Whether versions are compared on it, and never trained. All conversations that begin alike are, or none."""
    whole: bool = True
    """Whether it came to its end. What was cut off at its maximum length is compared and judged, but not trained on."""


def read_ratings(episodes: Iterable[Episode], removals: Sequence[Removal] = ()) -> list[Rating]:
    """All ratings of these sessions that weren't taken out, the newest last."""
    found = [one for episode in episodes for one in rated(without_removed(episode, removals))]
    return sorted(found, key=lambda one: one.at)


def without_removed(episode: Episode, removals: Sequence[Removal]) -> Episode:
    """The session without feedback that was taken out."""

    def is_removed(event: Event) -> bool:
        task, at = episode.task, float(event.data.get("at", 0.0))
        return _is_feedback(event) and any(gone.holds(task.user, task.query, at) for gone in removals)

    return replace(episode, events=[event for event in episode.events if not is_removed(event)])


def fresh(ratings: Sequence[Rating], seen: float) -> int:
    """How many were given since that time."""
    return sum(one.at > seen for one in ratings)


def rated(episode: Episode) -> Iterator[Rating]:
    """The rated answers of a session. Answers that were interrupted or have no tokens don't count."""
    times = _times(episode)
    newest = {about: (value, at) for (about, value, _), at in zip(feedback_of(episode), times, strict=True)}
    first = next((one.content for one in episode.messages if one.role == "user"), "")
    held_out = blake2b(first.encode(errors="replace"), digest_size=8).digest()[0] % _HELD_OUT == 0
    for turn in episode.turns:
        value, at = newest.get(turn.index) or newest.get(None) or (0.0, 0.0)
        if abs(value) >= _CLEAR and turn.token_ids and turn.finish in ("stop", "length"):
            task = episode.task
            ids = turn.prompt_ids, turn.token_ids
            yield Rating(task.query, task.user, at, value > 0, turn.version, *ids, held_out, turn.finish == "stop")


def _times(episode: Episode) -> Iterator[float]:
    """When each feedback was given. Runs of earlier versions don't say."""
    for event in filter(_is_feedback, episode.events):
        yield float(event.data.get("at", 0.0))


def _is_feedback(event: Event) -> bool:
    is_named = (event.kind, event.name) == ("observation", "feedback")
    return is_named and isinstance(event.data.get("value"), int | float)
