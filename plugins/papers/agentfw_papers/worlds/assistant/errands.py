"""What a user asks for on a day: one choice or several, with the faults that get in the way.

>>> from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
>>> errands = Errands(AssistantSettings())
>>> errand = errands.errand("test 3", day=2)
>>> len(errand.parts), len(errand.parts[0].offers)
(1, 5)

What users say and do afterwards: they accept or reject, give stars, and sometimes say what they would have liked.

Three sentences in ten are worded so that `said_wishes.py` doesn't understand them. A model that extracts skills can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from agentfw.seeds import Seeds

from .assistant_settings import AssistantSettings
from .catalogue import Catalogue, Item, Scenario, load_domains
from .people import People, Person

Fault = Literal["", "hiccup", "gone", "outage"]
"""hiccup: the first try fails, the second works. gone: the first choice is taken. outage: only a mail to them works."""
_KEPT = 4096
"""Maximum number of errands that are kept."""
_FAULTS: tuple[Fault, ...] = ("hiccup", "gone", "outage")


@dataclass(frozen=True, slots=True)
class Part:
    """One choice of an errand."""

    scenario: Scenario
    offers: tuple[Item, ...]
    fault: Fault
    excluded: str
    """A value that a guest can't have, which stands in a mail only. Empty without such a mail."""

    def possible(self, item: Item) -> bool:
        return not self.excluded or self.excluded not in item.tags.values()


@dataclass(frozen=True, slots=True)
class Errand:
    """What one user asks for on one day."""

    person: Person
    day: int
    query: str
    text: str
    social: bool
    parts: tuple[Part, ...]
    _worths: dict[str, dict[str, float]] = field(default_factory=dict, repr=False, compare=False)

    def worth(self, part: Part, item: Item) -> float:
        """What a choice is worth, from 0 for the least to 1 for the best of the possible offers."""
        return self.worths(part)[item.id]

    def worths(self, part: Part) -> Mapping[str, float]:
        """What each offer is worth, by the item's id."""
        found = self._worths.get(part.scenario.name)
        if found is None:
            truth = {item.id: self.person.truth(item, self.social) for item in part.offers if part.possible(item)}
            least, most = min(truth.values()), max(truth.values())
            found = {
                item.id: ((truth[item.id] - least) / (most - least) if most > least else 1.0)
                if item.id in truth
                else 0.0
                for item in part.offers
            }
            self._worths[part.scenario.name] = found
        return found


class Errands:
    """The errands of one world. They depend on nothing but the world's seed, the user and the day."""

    def __init__(self, settings: AssistantSettings) -> None:
        self.settings, self.people, self.catalogue = settings, People(settings), Catalogue(settings)
        self.domains = load_domains(settings.domains)
        self._seeds = Seeds(settings.world).child("errands")
        self._made: dict[tuple[str, int], Errand] = {}

    def turn(self, split: str, index: int) -> tuple[str, int]:
        """Whose turn it is, and on which day. Every user has one request a day."""
        users, number = self.settings.users(split), index + self.settings.skip
        return f"{split} {number % users}", number // users + 1

    def knows(self, user: str, split: str) -> bool:
        """Whether somebody is a user of a split."""
        return user.startswith(f"{split} ")

    def query(self, user: str, day: int) -> str:
        """The name of what a user asks for on a day. Users with the same query are shown the same offers."""
        generator = self._seeds.random("scenario", user, day)
        names = [generator.choice(list(self.domains))]
        if self.settings.difficulty == "hard":
            others = [name for name in self.domains if name not in names]
            names += generator.sample(others, min(len(others), generator.choice((1, 2))))
        return f"{'+'.join(names)} {user.split()[0]} {day}"

    def errand(self, user: str, day: int) -> Errand:
        """What a user asks for on a day. All samples of a task share it."""
        found = self._made.get((user, day))
        if found is None:
            while len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            found = self._made[user, day] = self._make(user, day)
        return found

    def _make(self, user: str, day: int) -> Errand:
        person, query = self.people.person(user, day), self.query(user, day)
        shared, own = self._seeds.random("offers", query), self._seeds.random("errand", user, day)
        split = user.split()[0]
        scenarios = [self.domains[name] for name in query.split()[0].split("+")]
        social = own.random() < self.settings.social
        faults = self._faults(len(scenarios), own)
        parts = tuple(
            self._part(scenario, fault, social, shared, own) for scenario, fault in zip(scenarios, faults, strict=True)
        )
        text = " ".join(own.choice(scenario.asked(split)) for scenario in scenarios)
        return Errand(person, day, query, text + (" I'm not coming alone." if social else ""), social, parts)

    # Helpers

    def _faults(self, parts: int, generator: Random) -> list[Fault]:
        drawn: list[Fault] = [""] * parts
        if self.settings.difficulty == "hard":
            for place in generator.sample(range(parts), min(parts, generator.choice((1, 2)))):
                drawn[place] = generator.choice(_FAULTS)
        elif generator.random() < self.settings.faults:
            drawn[0] = generator.choice(_FAULTS)
        return drawn

    def _part(self, scenario: Scenario, fault: Fault, social: bool, shared: Random, own: Random) -> Part:
        offers = tuple(self.catalogue.offers(scenario.name, shared))
        excluded = ""
        if social and self.settings.difficulty == "hard":
            # The most famous offer is a trap: it has what the guest can't have. Some offer must be left.
            famous = max(offers, key=lambda item: item.fame)
            values = [one for one in famous.tags.values() if any(one not in item.tags.values() for item in offers)]
            excluded = own.choice(values) if values else ""
        return Part(scenario, offers, fault, excluded)


_MISSED = 0.3
"""Share of the sentences that `said_wishes.py` doesn't understand."""
_WRONG = ("I'd rather have {want} {noun}.", "Next time, {want} {noun} please.", "I prefer {want} {noun}.")
_RIGHT = ("I like {want} {noun}.", "We really like {want} {noun}.", "I love {want} {noun}.")
_WRONG_MISSED = ("Hmm, {had}? That isn't really me.", "Was there nothing {want}?", "I was hoping for something {want}.")
_RIGHT_MISSED = ("{want}, just right!", "How well you know me: {want}.", "Ah, {want}. Splendid.")


@dataclass(frozen=True, slots=True)
class Reaction:
    """How a user takes it."""

    verdicts: dict[str, str]
    """accepted or rejected, by scenario."""
    said: str
    """Empty where the user says nothing."""
    stars: float
    """From 1 to 5, or NaN where the user gives none."""


def react(
    errand: Errand, chosen: Sequence[tuple[Part, Item]], generator: Random, *, speaks: float, stars: float
) -> Reaction:
    verdicts = {}
    for part, item in chosen:
        better = sum(errand.worth(part, other) < errand.worth(part, item) for other in part.offers)
        place = better / (len(part.offers) - 1)
        accepts = generator.random() < 1 / (1 + math.exp(-8 * (place - 0.5)))
        verdicts[part.scenario.name] = "accepted" if accepts else "rejected"
    heard, given = generator.random() < speaks, generator.random() < stars
    said = ""
    if heard and chosen:
        part, item = generator.choice(chosen)
        said = _sentence(errand, part.scenario, item, generator)
    if not given or not chosen:
        return Reaction(verdicts, said, math.nan)
    person = errand.person
    worth = sum(errand.worth(part, item) for part, item in chosen) / len(chosen)
    rating = 3 + 2 * (person.centre + person.scale * (worth - 0.5))
    return Reaction(verdicts, said, float(min(5, max(1, round(rating)))))


def _sentence(errand: Errand, scenario: Scenario, item: Item, generator: Random) -> str:
    """A sentence about one question: one on which the choice was wrong, else one on which it was right."""
    person, split = errand.person, errand.person.name.split()[0]
    tastes, weights = person.tastes[scenario.name], person.weights[scenario.name]
    if not tastes:
        return ""
    wrong = [question for question, value in tastes.items() if item.tags[question] != value]
    asked = wrong or list(tastes)
    (question,) = generator.choices(asked, [weights[one] for one in asked])
    want = generator.choice(scenario.spoken(question, tastes[question], split))
    had = scenario.questions[question][item.tags[question]][0]
    missed = generator.random() < _MISSED
    wordings = (_WRONG_MISSED if missed else _WRONG) if wrong else (_RIGHT_MISSED if missed else _RIGHT)
    # A third of the wordings is heard only from users of the split test, and another only from the others.
    known = wordings[1:] if split == "test" else wordings[:-1]
    said = generator.choice(known).format(want=want, had=had, noun=scenario.noun)
    return said[0].upper() + said[1:]
