"""What users say and do afterwards: they accept or reject, give stars, and sometimes say what they would have liked.

Three sentences in ten are worded so that `said_wishes.py` doesn't understand them. A model that extracts skills can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from .catalogue import Item
from .domains import Scenario
from .errands import Errand, Part

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
