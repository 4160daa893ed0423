"""A synthetic organisation and its users: people, their bosses, contacts from outside, and what each user values.

Relations are always read from the chart and never stored with an event, so they can't contradict each other. Knowing
the role isn't knowing the user: each weight is drawn around the role's, some change sign, some are dropped, and some
that the role doesn't have are added. The weights are hidden from every agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds

from .event_attributes import OUTSIDE
from .schema import Principle, Role, Schema, vocabulary

_CONTACTS = 3  # people from each kind of outside party


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody inside, or a contact outside."""

    id: str
    name: str
    role: str  # the role inside; client, partner or vendor for a contact
    boss: str = ""
    firm: str = ""  # where a contact is from


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
        name = f"{generator.choice(schema.names.first)} {generator.choice(schema.names.second)}"
        words = vocabulary()
        first_names, last_names = (generator.sample(some, len(some)) for some in (words.first_names, words.last_names))

        def endless_names() -> Iterator[str]:
            """First names are unique, so that "1:1 with Mira" is unambiguous."""
            for place in count():
                repeat, turn = divmod(place, len(first_names))
                yield f"{first_names[turn]} {last_names[(place + repeat * 7) % len(last_names)]}"

        names = endless_names()
        people: dict[str, Person] = {}
        # Roles ordered so that each boss comes before their reports.
        done: list[str] = []
        waiting = list(schema.roles)
        while waiting:
            ready = [name for name in waiting if schema.roles[name].reports_to in ("", *done)]
            if not ready:
                raise SettingsError(f"{schema.name}: {waiting[0]} reports to itself", fix="change its reports_to")
            done += ready
            waiting = [name for name in waiting if name not in ready]
        for role in done:
            bosses = [person.id for person in people.values() if person.role == schema.roles[role].reports_to]
            size = generator.randint(*schema.roles[role].people)
            # Round robin, so that each boss has one report before any has two.
            first = generator.randrange(len(bosses)) if bosses else 0
            for index in range(size):
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
        others = {
            person: "superior" if person in above else "report" if user in self.chain(person) else "peer"
            for person in self.people
            if person != user
        }
        return others | {contact.id: contact.role for contact in self.contacts.values()}


# How far users differ from their role, as in the published benchmark.
_SPREAD = (-1, 0, 1)  # equally likely changes of a weight
_FLIPS, _DROPS, _ADDS = (1, 1), (0, 1), (1, 2)  # how many principles change sign, are dropped and are added
_STRENGTHS = (-4, -3, -2, 2, 3, 4, 5)  # possible weights of an added principle
_LARGEST = 6


@dataclass(frozen=True, slots=True)
class User:
    """One user of the benchmark."""

    id: str
    person: str
    organisation: Organisation
    weights: Mapping[str, int]
    relations: Mapping[str, str]
    principles: Mapping[str, Principle]  # the user's principles, by name

    @property
    def name(self) -> str:
        return self.organisation.people[self.person].name

    @property
    def role(self) -> Role:
        return self.organisation.schema.roles[self.organisation.people[self.person].role]

    def value(self, tags: Mapping[str, str]) -> int:
        """The value of an event to this user: the sum of the weights of the principles that it triggers."""
        return sum(weight for name, weight in self.weights.items() if self.principles[name].triggers(tags))


def make_user(organisation: Organisation, person: str, seeds: Seeds, identity: str) -> User:
    role = organisation.schema.roles[organisation.people[person].role].principles
    known, generator = organisation.schema.principles, seeds.random("weights")
    names = list(role)
    generator.shuffle(names)
    # Two of the role's principles always stay, or the user would have no role.
    room = max(0, len(names) - 2)
    flips = min(room, generator.randint(*_FLIPS))
    drops = min(room - flips, generator.randint(*_DROPS))
    flipped, dropped = set(names[:flips]), set(names[flips : flips + drops])
    weights: dict[str, int] = {}
    for name, weight in role.items():
        if name in dropped:
            continue
        sign = 1 if weight > 0 else -1
        size = min(_LARGEST, max(1, abs(weight) + generator.choice(_SPREAD)))
        weights[name] = size * (-sign if name in flipped else sign)
    others = [name for name in known if name not in role]
    for name in generator.sample(others, min(len(others), generator.randint(*_ADDS))):
        weights[name] = generator.choice(_STRENGTHS)
    # Somebody who values only one thing has nothing to weigh, so they also get what the role values most.
    for name in sorted(role, key=lambda name: -role[name]):
        if sum(weight > 0 for weight in weights.values()) >= 2:
            break
        weights[name] = role[name]
    held = {name: principle for name, principle in known.items() if name in weights}
    in_order = {name: weights[name] for name in held}
    return User(identity, person, organisation, in_order, organisation.relations(person), held)
