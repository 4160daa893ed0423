"""A synthetic organisation: its people, who reports to whom, and contacts from outside.

Relations are always read from the chart and never stored with an event, so they can't contradict each other.

    >>> from agentfw.seeds import Seeds
    >>> from agentfw_plugins.worlds.calendar.schema import shipped_schemas
    >>> lab = Organisation.make(shipped_schemas()[2], Seeds(7))
    >>> postdoc = next(person for person in lab.people.values() if person.role == "postdoc")
    >>> lab.relations(postdoc.id)[postdoc.boss]
    'superior'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from agentfw.seeds import Seeds

from .event_attributes import OUTSIDE
from .principles import vocabulary
from .schema import Schema

__all__ = ["Organisation", "Person"]

_CONTACTS = 3
"""People from each kind of outside party."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody inside, or a contact outside."""

    id: str
    name: str
    role: str
    """The role inside; client, partner or vendor for a contact."""
    boss: str = ""
    firm: str = ""
    """Where a contact is from."""

    @property
    def first_name(self) -> str:
        return self.name.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Organisation:
    """An organisation generated from a schema."""

    name: str
    schema: Schema
    people: Mapping[str, Person]
    contacts: Mapping[str, Person]

    @classmethod
    def make(cls, schema: Schema, seeds: Seeds) -> Organisation:
        generator = seeds.random("organisation")
        name = f"{generator.choice(schema.first)} {generator.choice(schema.second)}"
        names = _names(generator)
        people: dict[str, Person] = {}
        for role in _from_the_top(schema):
            bosses = [person.id for person in people.values() if person.role == schema.roles[role].reports_to]
            count = generator.randint(*schema.roles[role].people)
            # Round robin, so that each boss has one report before any has two.
            first = generator.randrange(len(bosses)) if bosses else 0
            for index in range(count):
                boss = bosses[(first + index) % len(bosses)] if bosses else ""
                person = Person(f"{role}-{index + 1}", next(names), role, boss)
                people[person.id] = person
        contacts: dict[str, Person] = {}
        for kind in OUTSIDE:
            firms = generator.sample(schema.outsiders[kind].firms, min(_CONTACTS, len(schema.outsiders[kind].firms)))
            # A law firm has partners of its own: ids inside and outside must differ.
            prefix = f"outside-{kind}" if kind in schema.roles else kind
            for index in range(_CONTACTS):
                contact = Person(f"{prefix}-{index + 1}", next(names), kind, firm=firms[index % len(firms)])
                contacts[contact.id] = contact
        return cls(name, schema, people, contacts)

    def chain(self, person: str) -> list[str]:
        """Everybody above a person, the nearest first."""
        found: list[str] = []
        boss = self.people[person].boss
        while boss:
            found.append(boss)
            boss = self.people[boss].boss
        return found

    def relations(self, user: str) -> dict[str, str]:
        """The relation of everybody else to a user: superior, report, peer, client, partner or vendor."""
        above = set(self.chain(user))
        found = {}
        for person in self.people:
            if person != user:
                below = user in self.chain(person)
                found[person] = "superior" if person in above else "report" if below else "peer"
        found.update((contact.id, contact.role) for contact in self.contacts.values())
        return found

    def person(self, identity: str) -> Person:
        return self.people.get(identity) or self.contacts[identity]


def _from_the_top(schema: Schema) -> list[str]:
    """Roles ordered so that each boss comes before their reports."""
    done: list[str] = []
    waiting = list(schema.roles)
    while waiting:
        ready = [name for name in waiting if schema.roles[name].reports_to in ("", *done)]
        done += ready
        waiting = [name for name in waiting if name not in ready]
    return done


class _names:
    """An endless supply of unique first names, so that "1:1 with Mira" is unambiguous."""

    def __init__(self, generator: Random) -> None:
        words = vocabulary()
        self._first = generator.sample(words.first_names, len(words.first_names))
        self._last = generator.sample(words.last_names, len(words.last_names))
        self._given = 0

    def __next__(self) -> str:
        place = self._given
        self._given += 1
        repeat = place // len(self._first)
        first = self._first[place % len(self._first)]
        return f"{first} {self._last[(place + repeat * 7) % len(self._last)]}"
