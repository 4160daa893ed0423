"""The people whom the assistant serves: their hidden tastes, and the little that is known beforehand.

People of one circle have similar tastes. A taste is a favourite value of a question, with a weight, and a second
choice that is worth half of it. Besides, fame is worth something to everyone, to some more than to others.

Without second choices, most offers would meet none of three tastes, and a random choice would be worth less than the
middle between the least and the best offer.

    >>> people = People(AssistantSettings())
    >>> ana = people.person("test 0")
    >>> ana == people.person("test 0"), ana.circle in range(6)
    (True, True)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from random import Random

from agentfw.seeds import Seeds

from .assistant_settings import AssistantSettings
from .catalogue import Item, load_domains

_SOCIAL = 0.15
"""Added to the weight of fame where guests come."""
_SECOND = 0.5
"""What a second choice is worth, beside 1 for the favourite."""
_ABOUT = (
    ("gardens", "hiking", "maps"),
    ("cinema", "novels", "theatre"),
    ("chess", "puzzles", "physics"),
    ("football", "cycling", "running"),
    ("baking", "markets", "herbs"),
    ("painting", "pottery", "design"),
)
_WORK = ("nurse", "teacher", "engineer", "shopkeeper", "student", "lawyer", "carpenter", "pilot")
_TRUE_WORD = 0.8
"""Probability that a word about a person fits their circle."""


@dataclass(frozen=True, slots=True)
class Person:
    """One user. Everything but the profile is hidden from the agent."""

    name: str
    circle: int
    tastes: Mapping[str, Mapping[str, str]]
    """The favourite value, by scenario and question."""
    second: Mapping[str, Mapping[str, str]]
    """The second choice, by scenario and question."""
    weights: Mapping[str, Mapping[str, float]]
    conformity: float
    centre: float
    """Added to the stars that the person gives."""
    scale: float
    """Spread of the stars that the person gives."""
    stated: Mapping[str, Mapping[str, str]]
    """What the person once said that they like, by scenario and question. Some of it no longer holds."""
    profile: Mapping[str, str]

    def interest(self, item: Item) -> float:
        """Weighted mean of how well an item answers each question, from 0 to 1."""
        tastes, second = self.tastes[item.scenario], self.second[item.scenario]
        weights, tags = self.weights[item.scenario], item.tags
        met = 0.0
        for question, value in tastes.items():
            if tags[question] == value:
                met += weights[question]
            elif tags[question] == second[question]:
                met += _SECOND * weights[question]
        return met / sum(weights.values())

    def truth(self, item: Item, social: bool = False) -> float:
        """What an item is really worth to the person, from 0 to 1."""
        fame = min(1.0, self.conformity + (_SOCIAL if social else 0.0))
        return (1 - fame) * self.interest(item) + fame * item.fame


class People:
    """All users of one world. A name is a split and a number."""

    def __init__(self, settings: AssistantSettings) -> None:
        self.settings, self.domains = settings, load_domains(settings.domains)
        self.seeds = Seeds(settings.world).child("people")
        self._known: dict[str, Person] = {}
        self._circles = [self._orders(circle) for circle in range(settings.circles)]

    def names(self, split: str) -> list[str]:
        return [f"{split} {number}" for number in range(self.settings.users(split))]

    def circle(self, number: int) -> Mapping[str, Mapping[str, str]]:
        """The favourites of a circle, by scenario and question."""
        orders = self._circles[number]
        return {name: {question: order[0] for question, order in some.items()} for name, some in orders.items()}

    def person(self, name: str, day: int = 0) -> Person:
        """A person as they are on a day."""
        if name not in self._known:
            self._known[name] = self._make(name)
        person = self._known[name]
        drift = self.settings.drift_day
        return self._changed(person) if drift is not None and day >= drift else person

    # Helpers

    def _orders(self, circle: int) -> dict[str, dict[str, list[str]]]:
        """The values of each question in the order in which a circle likes them."""
        generator = self.seeds.random("circle", circle)
        return {
            name: {question: _shuffled(values, generator) for question, values in scenario.questions.items()}
            for name, scenario in self.domains.items()
        }

    def _make(self, name: str) -> Person:
        settings, generator = self.settings, self.seeds.random("person", name)
        circle = generator.randrange(settings.circles)
        tastes: dict[str, dict[str, str]] = {}
        second: dict[str, dict[str, str]] = {}
        weights: dict[str, dict[str, float]] = {}
        stated: dict[str, dict[str, str]] = {}
        words = _ABOUT[circle % len(_ABOUT)]
        liked = [
            generator.choice(words if generator.random() < _TRUE_WORD else generator.choice(_ABOUT)) for _ in (1, 2)
        ]
        profile = {
            "about": f"{generator.randint(20, 70)} years old, {generator.choice(_WORK)}, likes {' and '.join(liked)}"
        }
        for scenario in self.domains.values():
            mine: dict[str, str] = {}
            next_best: dict[str, str] = {}
            said: dict[str, str] = {}
            for question, values in scenario.questions.items():
                agrees, any_order = generator.random() < settings.agreement, _shuffled(values, generator)
                order = self._circles[circle][scenario.name][question] if agrees else any_order
                mine[question], next_best[question] = order[:2]
                if generator.random() < settings.stated:
                    others = self._others(scenario.name, question, mine[question])
                    old = generator.random() < settings.outdated
                    said[question] = generator.choice(others) if old else mine[question]
            tastes[scenario.name], second[scenario.name] = mine, next_best
            weights[scenario.name] = {question: generator.uniform(0.5, 1.5) for question in mine}
            stated[scenario.name] = said
            if said:
                profile[scenario.name] = f"likes {', '.join(said.values())} {scenario.noun}"
        return Person(
            name,
            circle,
            tastes,
            second,
            weights,
            conformity=generator.uniform(0, settings.conformity),
            centre=generator.gauss(0, 0.15),
            scale=generator.lognormvariate(0, 0.7),
            stated=stated,
            profile=profile,
        )

    def _changed(self, person: Person) -> Person:
        """The person after the drift: of some questions they have another favourite, and no longer like the old one."""
        generator = self.seeds.random("drift", person.name)
        tastes = {name: dict(some) for name, some in person.tastes.items()}
        second = {name: dict(some) for name, some in person.second.items()}
        for name, some in tastes.items():
            for question, old in some.items():
                if generator.random() < self.settings.drift:
                    new, *rest = _shuffled(self._others(name, question, old), generator)
                    some[question], second[name][question] = new, rest[0] if rest else old
        return replace(person, tastes=tastes, second=second)

    def _others(self, scenario: str, question: str, value: str) -> list[str]:
        return [one for one in self.domains[scenario].questions[question] if one != value]


def _shuffled(values: Collection[str], generator: Random) -> list[str]:
    return generator.sample(list(values), len(values))
