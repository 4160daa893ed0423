"""Baselines on a user's rounds: random choice and each simple rule.

They play the same rounds as the run, from the same tags, so that a run's table compares like with like. They need no
agent and take a few milliseconds per user.

    references(calendar, generator)["random"]["aer"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from .dataset import Calendar
from .error_figures import episode_figures, rank_distance
from .simple_rules import RULES

__all__ = ["RULE_TITLES", "references"]

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
    answers = [shown.answer for shown in calendar.rounds]
    return {name: _figures(answers, some) for name, some in rankings.items()}


def _figures(answers: Sequence[str], rankings: Sequence[Sequence[str]]) -> dict[str, float]:
    played = list(zip(answers, rankings, strict=True))
    errors = [float(ranking[0] != answer) for answer, ranking in played]
    distances = [rank_distance(answer, ranking, len(ranking)) for answer, ranking in played]
    return episode_figures(errors, distances, invalid=0)
