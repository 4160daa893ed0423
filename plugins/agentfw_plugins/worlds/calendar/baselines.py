"""The figures of the benchmark (error rates, rank distance, error reduction), its baselines, and its rewards.

    >>> rank_distance("B", ["C", "B", "A"], 3), error_reduction([1, 1, 0, 1, 0, 0, 0, 1])
    (0.5, 0.5)

Baselines play the same rounds as the run, from the same tags, so that a run's table compares like with like. The
rewards of a round are numbers from 0 to 1, read from the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from pydantic import Field

from agentfw import Episode, RewardModel, Score, Settings

from ...rewards.measured import Measured
from .dataset import Calendar
from .event_attributes import RULES

CHECKPOINTS = (1, 25, 50, 75, 104)


def average_errors(errors: Sequence[float]) -> dict[str, float]:
    """The mean error over the first N rounds, for each checkpoint N that was reached, and over all rounds."""
    found = {f"aer@{count}": sum(errors[:count]) / count for count in CHECKPOINTS if count <= len(errors)}
    return {**found, "aer": sum(errors) / len(errors)} if errors else found


def rank_distance(answer: str, ranking: Sequence[str], events: int) -> float:
    """ORD: 1 if the right answer is ranked first, 0 if it is last or not ranked."""
    if answer not in ranking or events < 2:
        return 0.0
    return max(0.0, 1.0 - list(ranking).index(answer) / (events - 1))


def quarters(errors: Sequence[float]) -> list[float]:
    """The mean error of each quarter. A remainder belongs to the two in the middle."""
    size = max(1, len(errors) // 4)
    middle = errors[size : len(errors) - size]
    half = len(middle) // 2
    parts = (errors[:size], middle[:half], middle[half:], errors[-size:])
    return [sum(part) / len(part) if len(part) else 0.0 for part in parts]


def error_reduction(errors: Sequence[float]) -> float:
    """(first - last) / first over the first and the last quarter. If the first quarter has no errors, the result is 0
    if the last has none either, else -1."""
    if not errors:
        return 0.0
    parts = quarters(errors)
    first, last = parts[0], parts[-1]
    if first == 0:
        return 0.0 if last == 0 else -1.0
    return (first - last) / first


def episode_figures(errors: Sequence[float], distances: Sequence[float], invalid: int) -> dict[str, float]:
    """All figures of an episode. An episode without rounds gets the worst."""
    played = max(1, len(errors))
    averages = average_errors(errors) if errors else {"aer": 1.0}
    return {
        "error": averages["aer"],
        **averages,
        "ord": sum(distances) / played,
        "error_reduction": error_reduction(errors),
        "invalid": invalid / played,
    }


RULE_TITLES: Mapping[str, str] = {
    "earliest": "earliest first",
    "most_attendees": "most attendees first",
    "most_urgent": "most urgent first",
    "most_senior": "most senior first",
    "regular_first": "regular meeting first",
}
"""The simple rules shown beside a run, and their titles."""


def references(calendar: Calendar, generator: Random) -> dict[str, dict[str, float]]:
    """The figures of each baseline on one user's rounds."""
    rankings: dict[str, list[Sequence[str]]] = {"random": [], **{title: [] for title in RULE_TITLES.values()}}
    for shown in calendar.rounds:
        letters = shown.letters
        events = [{"letter": letter, **tags} for letter, tags in zip(letters, shown.tags, strict=True)]
        rankings["random"].append(generator.sample(letters, len(events)))
        for rule, title in RULE_TITLES.items():
            rankings[title].append(RULES[rule](events))
    found = {}
    for name, some in rankings.items():
        played = [(shown.answer, ranking) for shown, ranking in zip(calendar.rounds, some, strict=True)]
        errors = [float(ranking[0] != answer) for answer, ranking in played]
        distances = [rank_distance(answer, ranking, len(ranking)) for answer, ranking in played]
        found[name] = episode_figures(errors, distances, invalid=0)
    return found


class CalendarFormat(Measured):
    """1 if the decision names an event of the round and ranks all of them."""

    component, measure = "calendar_format", "format"


class CalendarDecision(Measured):
    """1 if the event was kept that the user keeps."""

    component, measure, track = "calendar_decision", "error", "personal"

    def value(self, measured: float) -> float:
        return 1.0 - measured


class CalendarRanking(Measured):
    """Rank of the right event: 1 first, 0 last."""

    component, measure, track = "calendar_ranking", "ord", "personal"


class CalendarHubSettings(Settings):
    tools: tuple[str, ...] = Field(("strategy_hub",), description="Tools that belong to the memory.")
    actions: tuple[str, ...] = Field(
        ("update",), description="Values of a call's `action` that count; empty for any call. The paper counts updates."
    )


class CalendarHub(RewardModel):
    """1 if the memory was called successfully in the round."""

    def __init__(self, settings: CalendarHubSettings | None = None) -> None:
        self.settings = settings or CalendarHubSettings()

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores, actions = list[Score](), self.settings.actions
        for episode in group:
            failed, used = episode.failed_calls, set[int]()
            for turn in episode.turns:
                for call in turn.calls if turn.finish != "interrupted" else ():
                    counts = not actions or call.arguments.get("action") in actions
                    if call.name in self.settings.tools and counts and call.id not in failed:
                        used.add(turn.round)
            rounds = sorted({measure.round for measure in episode.measures if measure.name == "error"})
            scores += [Score(episode.id, "calendar_hub", float(number in used), "base", number) for number in rounds]
        return scores
