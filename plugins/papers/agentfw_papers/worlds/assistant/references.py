"""What simple players reach, so that a figure can be placed: from a random choice up to one that knows the truth.

They all do everything else right, so they differ only in what they choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from .catalogue import Item
from .errands import Errand, Errands, Part


def figures_of_players(errand: Errand, errands: Errands) -> Mapping[str, Mapping[str, float]]:
    """The figures of each player in one errand."""
    person = errand.person
    players: dict[str, Callable[[Item], float] | None] = {
        "random": None,
        "most famous": lambda item: item.fame,
        "knows the truth": lambda item: person.truth(item, errand.social),
    }
    if any(person.tastes.values()):
        players |= _who_know_tastes(errand, errands)
    return {
        name: _figures(fmean(_chosen(errand, part, value) for part in errand.parts)) for name, value in players.items()
    }


def _who_know_tastes(errand: Errand, errands: Errands) -> Mapping[str, Callable[[Item], float]]:
    """Players that know some of the tastes. There are none in a log of your own."""
    person = errand.person
    circle = errands.people.circle(person.circle)

    def stated(item: Item) -> float:
        known = person.stated[item.scenario]
        return sum(item.tags[question] == value for question, value in known.items())

    def of_circle(item: Item) -> float:
        return sum(item.tags[question] == value for question, value in circle[item.scenario].items())

    return {"stated profile": stated, "knows the circle": of_circle}


def _chosen(errand: Errand, part: Part, value: Callable[[Item], float] | None) -> float:
    """What the choice of a player is worth: the mean over the offers between which it can't decide."""
    possible = [item for item in part.offers if part.possible(item)]
    most = max(map(value, possible)) if value is not None else 0.0
    best = [item for item in possible if value is None or value(item) == most]
    return fmean(errand.worth(part, item) for item in best)


def _figures(satisfaction: float) -> dict[str, float]:
    return {"judge": (10 + 5 * satisfaction) / 15, "satisfaction": satisfaction, "procedure": 5.0, "proactive": 5.0}
