"""The items that apps offer: each has a value of every question of its scenario, and a fame independent of them.

>>> from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
>>> catalogue = Catalogue(AssistantSettings())
>>> len(catalogue.items["dining"])
30
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from agentfw.seeds import Seeds

from .assistant_settings import AssistantSettings
from .domains import Scenario, load_domains


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be chosen."""

    id: str
    scenario: str
    name: str
    tags: Mapping[str, str]
    """Its value of each question."""
    words: tuple[str, ...]
    """The catalogue's words for these values."""
    fame: float
    """From 0 for the least to 1 for the most famous item of the scenario."""

    @property
    def text(self) -> str:
        return f"{self.name}: {', '.join(self.words)}" if self.words else self.name


class Catalogue:
    """All items of one world."""

    def __init__(self, settings: AssistantSettings) -> None:
        seeds = Seeds(settings.world).child("catalogue")
        self._offers = settings.offers
        self.items: dict[str, tuple[Item, ...]] = {
            name: tuple(_items(scenario, settings.items, seeds.random(name)))
            for name, scenario in load_domains(settings.domains).items()
        }
        self.by_id: dict[str, Item] = {item.id: item for items in self.items.values() for item in items}

    def offers(self, scenario: str, generator: Random) -> list[Item]:
        """What a search finds."""
        return generator.sample(self.items[scenario], self._offers)


def _items(scenario: Scenario, count: int, generator: Random) -> Sequence[Item]:
    ranks = list(range(count))
    generator.shuffle(ranks)
    found = []
    for number in range(count):
        tags = {question: generator.choice(list(values)) for question, values in scenario.questions.items()}
        base, more = scenario.names[number % len(scenario.names)], number // len(scenario.names)
        # Zipf-like: the k-th most famous item has 1/k of the fame of the first, on a scale of roots.
        fame = (1.0 / (1 + ranks[number])) ** 0.5
        words = tuple(scenario.questions[question][value][0] for question, value in tags.items())
        found.append(
            Item(f"{scenario.name}-{number}", scenario.name, f"{base} {more + 1}" if more else base, tags, words, fame)
        )
    return found
