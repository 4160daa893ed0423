"""Rewards that are read off the record: utility, format, feedback, and figures that the environment recorded.

class Correct(Measured):
    component = measure = "correct"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from agentfw import Episode, RewardModel, Score
from agentfw.episode import Event
from agentfw.errors import UsageError
from agentfw.scores import Track

__all__ = [
    "METRIC_NAME",
    "Feedback",
    "Format",
    "Measured",
    "Metric",
    "Utility",
    "Words",
    "feedback_of",
    "is_feedback",
    "turn_of",
    "words_of",
]

METRIC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_TEST = re.compile(r"(?P<name>[^<>=]*)(?:(?P<sign>>=|<=)(?P<bound>-?\d+(?:\.\d+)?))?")


class Measured(RewardModel):
    """A score per round for which the environment recorded the measure."""

    component = ""
    measure = ""
    track: Track = "base"

    def value(self, measured: float) -> float:
        return measured

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(name, self.component, self.value(measure.value), self.track, measure.round)
            for episode, name in ((episode, episode.id) for episode in group)
            for measure in episode.measures
            if measure.name == self.measure and measure.round
        ]


class Utility(RewardModel):
    """What the environment itself paid over the episode: one score, the sum of its utilities."""

    components = ("utility",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(episode.id, "utility", episode.utility) for episode in group]


class Format(RewardModel):
    """1 for each turn that could be parsed and carried out, else 0.

    An interrupted turn isn't scored, because nobody knows what it would have become.
    """

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            refused = {str(event.data.get("id")) for event in episode.events if event.kind == "refused"}
            for turn in episode.turns:
                if turn.finish != "interrupted":
                    well = not turn.failures and not any(call.id in refused for call in turn.calls)
                    scores.append(Score(episode.id, "format", float(well), round=turn.round or None, turn=turn.index))
        return scores


class Feedback(RewardModel):
    """What the user said, from -1 (bad) to 1 (good): one score for each answer that was rated, and one for the session.

    The newest feedback on an answer counts, and so does the newest on the session as a whole. A session that nobody has
    rated has no score. Feedback with a metric is a component of its name, `metric:NAME`, that isn't in the reward.
    """

    components = ("feedback",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            newest = {
                (event.data.get("metric") or "", turn_of(event, episode)): float(event.data["value"])
                for event in episode.events
                if is_feedback(event)
            }
            for (metric, turn), value in newest.items():
                name = f"metric:{metric}" if metric else "feedback"
                scores.append(Score(episode.id, name, value, "personal", turn=turn, counts=not metric))
        return scores


class Metric(NamedTuple):
    """The feedback that is looked at, and when it is good.

    >>> Metric.read("stars>=4").liking(5), Metric.read("solved").liking(False), Metric.read("").liking(0.5)
    (1.0, -1.0, 0.5)
    """

    name: str = ""
    """Empty for feedback without a metric: whether somebody likes an answer."""
    sign: str = ""
    bound: float = 0.0

    @classmethod
    def read(cls, text: str) -> Self:
        """Read NAME, NAME>=NUMBER or NAME<=NUMBER."""
        found = _TEST.fullmatch(text.replace(" ", ""))
        if found is None or (text and not METRIC_NAME.fullmatch(found["name"])):
            raise UsageError(f'"{text}" names no metric', fix='use its name, or a bound, such as "stars>=4"')
        return cls(found["name"], found["sign"] or "", float(found["bound"] or 0))

    def liking(self, value: float) -> float:
        """A value as what is thought of an answer, from -1 (bad) to 1 (good)."""
        if self.sign:
            return 1.0 if (value >= self.bound if self.sign == ">=" else value <= self.bound) else -1.0
        return (1.0 if value else -1.0) if isinstance(value, bool) else max(-1.0, min(1.0, float(value)))


def feedback_of(episode: Episode, metric: Metric | None = None) -> Iterator[tuple[int | None, float, str, float]]:
    """The feedback on an episode by its time: the turn (None for all), the value from -1 to 1, the correction, and
    when it was given."""
    metric = metric or Metric()
    given = (event for event in episode.events if is_feedback(event, metric.name))
    for event in sorted(given, key=lambda event: float(event.data.get("at", 0.0))):  # annotations stand at the end
        value, correction = metric.liking(event.data["value"]), str(event.data.get("correction") or "")
        yield turn_of(event, episode), value, correction, float(event.data.get("at", 0.0))


def is_feedback(event: Event, metric: str | None = None) -> bool:
    """Whether an event is feedback, on a metric if one is given. It is empty for feedback that names none."""
    is_named = (event.kind, event.name) == ("observation", "feedback")
    is_rated = is_named and isinstance(event.data.get("value"), int | float)
    return is_rated and metric in (None, event.data.get("metric") or "")


def turn_of(event: Event, episode: Episode) -> int | None:
    """The turn that an event is about; None if it is about the whole episode."""
    turn = event.data.get("turn")
    return turn if isinstance(turn, int) and 0 <= turn < len(episode.turns) else None


class Words(NamedTuple):
    """What was said of an answer."""

    comment: str = ""
    correction: str = ""


def words_of(event: Event) -> Words:
    """The words of feedback; empty if it has none, or if this event is none."""
    if (event.kind, event.name) != ("observation", "feedback"):
        return Words()
    comment, correction = (str(event.data.get(name) or "").strip() for name in ("text", "correction"))
    return Words("" if comment == correction else comment, correction)
