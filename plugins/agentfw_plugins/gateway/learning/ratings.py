"""The answers of a gateway that were rated, as its sessions have them.

An answer is rated by the newest feedback on it, or else by that on its whole session. As in `agentfw train --from`, 0.5
or more is good, and -0.5 or less is bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from agentfw import Episode, Turn
from agentfw.episode import Event

from ...rewards.measured import Metric, feedback_of, is_feedback
from .version_file import Removal, State

MOST = 400
"""The newest so many ratings are learned from: tastes change."""
_CLEAR = 0.5
_HELD_OUT = 3  # one of so many conversations is held out


class Rating(NamedTuple):
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


def read_ratings(episodes: Iterable[Episode], removals: Sequence[Removal] = (), metric: str = "") -> list[Rating]:
    """All ratings of these sessions that weren't taken out, the newest last. `metric` is what they are about."""
    found = [one for episode in episodes for one in rated(without_removed(episode, removals), Metric.read(metric))]
    return sorted(found, key=lambda one: one.at)


def without_removed(episode: Episode, removals: Sequence[Removal]) -> Episode:
    def is_removed(event: Event) -> bool:
        task, at = episode.task, float(event.data.get("at", 0.0))
        return is_feedback(event) and any(gone.holds(task.user, task.query, at) for gone in removals)

    return replace(episode, events=[event for event in episode.events if not is_removed(event)])


def comparable(ratings: Sequence[Rating], state: State) -> list[Rating]:
    """Without held-out answers of versions whose weights are deleted: nobody can say how likely they were."""
    gone = {one.name for one in state.versions if not one.adapter}
    return [one for one in ratings if not (one.held_out and one.version in gone)]


def fresh(ratings: Sequence[Rating], seen: float) -> int:
    return sum(one.at > seen for one in ratings)


def rated(episode: Episode, metric: Metric) -> Iterator[Rating]:
    first = next((one.content for one in episode.messages if one.role == "user"), "")
    held_out = blake2b(first.encode(errors="replace"), digest_size=8).digest()[0] % _HELD_OUT == 0
    for turn, value, at in _values(episode, metric):
        if not why_not(turn, value):
            task = episode.task
            ids = turn.prompt_ids, turn.token_ids
            yield Rating(task.query, task.user, at, value > 0, turn.version, *ids, held_out, turn.finish == "stop")


def left_out(episodes: Iterable[Episode], removals: Sequence[Removal], metric: str) -> Counter[str]:
    """How many rated answers teach no version, by why."""
    found = Counter[str]()
    for episode in episodes:
        for turn, value, _ in _values(without_removed(episode, removals), Metric.read(metric)):
            found[why_not(turn, value) or why_not_taught(turn)] += 1
    del found[""]
    return found


def why_not(turn: Turn, value: float) -> str:
    """Why the rating of an answer doesn't count for a version, in words. Empty if it does."""
    if abs(value) < _CLEAR:
        return f"it is neither good ({_CLEAR:g} or more) nor bad ({-_CLEAR:g} or less)"
    if turn.model:
        return "another model gave the answer"
    if turn.finish not in ("stop", "length"):
        return "the answer was interrupted"
    if not turn.token_ids:
        return "the tokens of the answer aren't recorded: its model doesn't give them"
    return ""


def why_not_taught(turn: Turn) -> str:
    """Why versions are compared by an answer and don't learn from it. Empty if they do."""
    return "" if turn.finish == "stop" else "the answer was cut off at its maximum of tokens: raise max_tokens"


def why_ignored(episode: Episode, metric: str, about: Mapping[str, Any]) -> str:
    """Why feedback teaches no version, where versions learn from `metric`. `about` is the data of its event."""
    looked = Metric.read(metric)
    if (about.get("metric") or "") != looked.name:
        return f"versions learn from {f'the metric {looked.name}' if looked.name else 'feedback without a metric'}"
    place, value = about.get("turn"), looked.liking(about["value"])
    turns = episode.turns if place is None else episode.turns[place : place + 1]
    if not turns:
        return "there is no answer yet"
    whys = [why_not(turn, value) or why_not_taught(turn) for turn in turns]
    return "" if "" in whys else whys[0]


def _values(episode: Episode, metric: Metric) -> Iterator[tuple[Turn, float, float]]:
    """The answers that were rated, with what is thought of them and since when. Their own rating comes first."""
    newest = {about: (value, at) for about, value, _, at in feedback_of(episode, metric)}
    for turn in episode.turns:
        if (found := newest.get(turn.index) or newest.get(None)) is not None:
            yield (turn, *found)
