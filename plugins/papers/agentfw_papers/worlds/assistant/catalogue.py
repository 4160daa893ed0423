"""The items that apps offer: each has a value of every question of its scenario, and a fame independent of them.

>>> from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
>>> catalogue = Catalogue(AssistantSettings())
>>> len(catalogue.items["dining"])
30

Domains are what people ask for: scenarios, their apps, the questions of taste in them, and words for all of it. The
file `domains.yaml` ships with the world. A file of your own of the same form replaces it.

    >>> domains = load_domains("")
    >>> domains["dining"].calls
    ('table_search', 'table_book')
    >>> domains["dining"].spoken("noise", "quiet", "test")
    ('quiet', 'hushed')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds

from .assistant_settings import AssistantSettings

_FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request."""

    name: str
    calls: tuple[str, str]
    """The call that searches, and the call that carries out."""
    dated: bool
    """Whether what is chosen belongs in the calendar."""
    noun: str
    names: tuple[str, ...]
    requests: tuple[str, ...]
    questions: Mapping[str, Mapping[str, tuple[str, ...]]]
    """The values of each question of taste, each with words for it."""

    def spoken(self, question: str, value: str, split: str) -> tuple[str, str]:
        """The words for a value that users of a split say."""
        words = self.questions[question][value]
        return words[0], words[2] if split == "test" else words[1]

    def asked(self, split: str) -> tuple[str, ...]:
        """The wordings of a request in a split."""
        return self.requests[1:] if split == "test" else self.requests[:-1]


Domains = Mapping[str, Scenario]


@lru_cache(maxsize=4)
def load_domains(path: str) -> Domains:
    """Read the scenarios of a file, or those that ship with the world."""
    import yaml

    where = Path(path).expanduser() if path else Path(__file__).parent / "domains.yaml"
    try:
        read = yaml.safe_load(where.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"environment.domains: can't read {where}: {error}", fix="pass a YAML file") from None
    if not isinstance(read, dict) or not read:
        raise SettingsError(f"environment.domains: {where} has no scenarios", fix=_FIX)
    found = {str(name): _scenario(where, str(name), values) for name, values in read.items()}
    calls = [call for scenario in found.values() for call in scenario.calls]
    if len(set(calls)) < len(calls):
        raise SettingsError(f"environment.domains: {where} names a call twice", fix="give each call its own name")
    return found


_FIX = "write calls, dated, noun, names, requests and questions, as in the domains.yaml that ships with the world"


def _scenario(where: Path, name: str, values: object) -> Scenario:
    try:
        if not isinstance(values, dict):
            raise TypeError("it is not a table")
        search, carry_out = values["calls"]
        questions = {
            str(question): {str(value): tuple(map(str, words)) for value, words in answers.items()}
            for question, answers in values["questions"].items()
        }
        found = Scenario(
            name,
            (str(search), str(carry_out)),
            bool(values["dated"]),
            str(values["noun"]),
            tuple(map(str, values["names"])),
            tuple(map(str, values["requests"])),
            questions,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"environment.domains: {where}, scenario {name}: {error!r}", fix=_FIX) from None
    for question, answers in questions.items():
        short = [value for value, words in answers.items() if len(words) < _FEWEST_WORDS]
        if len(answers) < 2 or short:
            what = f"{question}.{short[0]} has too few words" if short else f"{question} has only one value"
            raise SettingsError(
                f"environment.domains: {where}, scenario {name}: {what}",
                fix=f"give each question at least two values, and each value at least {_FEWEST_WORDS} words",
            )
    if not found.names or len(found.requests) < 2 or not questions:
        raise SettingsError(
            f"environment.domains: {where}, scenario {name} lacks names, requests or questions", fix=_FIX
        )
    return found


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
