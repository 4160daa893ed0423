"""Users with hidden tastes, who are offered things by the model `tiny-assistant`, for `gateway_learns.py`.

A program of theirs shows the model a card with five offers, as those that it was trained on, and the model calls one:

    offers for dining:
    noise: quiet=AC, lively=B, musical=DE
    ...

In each scenario a user likes the offers of one kind, such as the cheap ones. Most users like the same kind, and nobody
says so. A user mentions some of their tastes at the beginning, in passing. Half-way most users like another kind, and
mention it of the scenarios that they had mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from agentfw.seeds import Seeds


class Scenario(NamedTuple):
    noun: str
    names: Sequence[str]
    questions: Mapping[str, Sequence[str]]


def _scenario(noun: str, names: str, **questions: str) -> Scenario:
    return Scenario(noun, names.split(), {question: values.split() for question, values in questions.items()})


SCENARIOS = {
    "dining": _scenario(
        *("places", "Lumen Orchard Harbour Mill Lantern"),
        noise="quiet lively musical",
        price="cheap fair premium",
        cuisine="italian indian japanese",
    ),
    "music": _scenario(
        *("tracks", "Evergreen Skyline Passage Rivers Signal"),
        genre="jazz rock classical",
        volume="soft normal loud",
        era="vintage nineties current",
    ),
    "shopping": _scenario(
        *("shirts", "Aster Bramble Cedar Dune Elm"),
        style="plain colourful elegant",
        fabric="cotton wool linen",
        fit="slim regular wide",
    ),
    "mail": _scenario(
        *("letters", "Alpha Bravo Charlie Delta Foxtrot"),
        tone="formal friendly casual",
        length="concise balanced detailed",
        closing="signed thankful plain",
    ),
}
LETTERS = "ABCDE"
_CALL = re.compile(r'offer="([A-E])"')


class Taste(NamedTuple):
    """What somebody likes in a scenario: a value of one of its questions."""

    question: str
    value: str


Tastes = Mapping[str, Taste]


@dataclass(frozen=True, slots=True)
class Card:
    """Five offers of a scenario. Each value of each question is that of at least one of them."""

    scenario: str
    values: Mapping[str, Sequence[str]]
    """The values of the offers, by question."""
    fame: Sequence[int]
    wrong_thumb: bool
    seed: int
    """Of the policy's draw."""

    def __str__(self) -> str:
        scenario = SCENARIOS[self.scenario]
        lines = [f"offers for {self.scenario}:"]
        for question, values in scenario.questions.items():
            having = {
                value: "".join(
                    letter for letter, one in zip(LETTERS, self.values[question], strict=True) if one == value
                )
                for value in values
            }
            lines.append(f"{question}: {', '.join(f'{value}={letters}' for value, letters in having.items())}")
        lines.append("fame: " + ", ".join(f"{letter}{fame}" for letter, fame in zip(LETTERS, self.fame, strict=True)))
        named = zip(LETTERS, scenario.names, strict=True)
        return "\n".join([*lines, "names: " + ", ".join(f"{letter} {name}" for letter, name in named)])

    def liked(self, tastes: Tastes, choice: str) -> bool:
        """Whether somebody with these tastes likes this offer. No offer isn't liked."""
        taste = tastes[self.scenario]
        return bool(choice) and self.values[taste.question][LETTERS.index(choice)] == taste.value


@dataclass(frozen=True, slots=True)
class User:
    name: str
    tastes: tuple[Tastes, Tastes]
    """Before and after the change."""
    mentioned: Sequence[str]
    """Scenarios of which they mention their taste."""
    cards: Sequence[Card]

    def says(self, change: int) -> str:
        """What they mention at the beginning (0), and after the change (1)."""
        said = [(one, self.tastes[change][one].value, SCENARIOS[one].noun) for one in self.mentioned]
        return " ".join(f"For {scenario}, I prefer {value} {noun}." for scenario, value, noun in said)


def chosen(answer: str) -> str:
    """The letter of the offer that an answer calls, or nothing."""
    found = _CALL.search(answer)
    return found[1] if found else ""


def people(seeds: Seeds, count: int, cards: int, *, wrong: float, alike: float, mentioned: int) -> list[User]:
    """Users with so many cards each. Each taste is that of most users with the chance `alike`."""
    draw = seeds.random("tastes of most users")
    questions = {name: draw.choice(list(one.questions)) for name, one in SCENARIOS.items()}
    values = {name: draw.sample(SCENARIOS[name].questions[question], 2) for name, question in questions.items()}
    found = []
    for number in range(count):
        name = f"user-{number}"
        own = seeds.random(name)
        tastes = tuple(
            {
                one: Taste(questions[one], _value(own, one, questions[one], values[one][half], alike))
                for one in SCENARIOS
            }
            for half in (0, 1)
        )
        said = sorted(own.sample(list(SCENARIOS), mentioned))
        found.append(User(name, (tastes[0], tastes[1]), said, [_card(own, wrong) for _ in range(cards)]))
    return found


def _value(draw: Random, scenario: str, question: str, common: str, alike: float) -> str:
    others = [one for one in SCENARIOS[scenario].questions[question] if one != common]
    return common if draw.random() < alike else draw.choice(others)


def _card(draw: Random, wrong: float) -> Card:
    scenario = draw.choice(list(SCENARIOS))
    values = {}
    for question, all_values in SCENARIOS[scenario].questions.items():
        given = [*all_values, *draw.choices(all_values, k=len(LETTERS) - len(all_values))]
        values[question] = draw.sample(given, len(given))
    fame = [draw.randint(1, 10) for _ in LETTERS]
    return Card(scenario, values, fame, draw.random() < wrong, draw.randrange(2**31))
