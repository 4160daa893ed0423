"""The users of the benchmark: organisations by split, five users each, one year per episode.

A split is a set of organisations, so no user, colleague or title is in two splits. Everything follows from the seed by
name, so each user can be generated alone.

    dataset = Dataset(seed=7)
    user = dataset.user("7-test-0-3")
    calendar = dataset.calendar(user)             # the regular year and 104 conflict rounds

A user's id says where they come from: seed, split, organisation, place in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentfw.errors import UnknownNameError, UsageError
from agentfw.seeds import Seeds

from .event_attributes import LETTERS, Event
from .organisation import Organisation, User, make_user
from .regular_year import ROUNDS, Round, Series, make_year
from .round_maker import RoundMaker
from .schema import Schema, load_folder, shipped_schemas

SPLITS = ("train", "validation", "test")
_IDENTITY = re.compile(r"(\d+)-(train|validation|test)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Calendar:
    """One user's year."""

    user: User
    series: tuple[Series, ...]
    events: tuple[Event, ...]
    """The regular events, without conflicts, in order of time."""
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class Dataset:
    """Where users come from."""

    seed: int = 7
    schemas: Sequence[Schema] = field(default_factory=shipped_schemas)
    users_each: int = 5
    """Users of each organisation."""
    organisations: dict[str, int] = field(default_factory=lambda: {"train": 40, "validation": 4, "test": 2})
    """Number of organisations per split."""

    def users(self, split: str) -> list[str]:
        """The ids of a split's users."""
        if split not in SPLITS:
            raise UnknownNameError("split", split, SPLITS)
        return [
            f"{self.seed}-{split}-{number}-{place}"
            for number in range(self.organisations[split])
            for place in range(self.users_each)
        ]

    def organisation(self, split: str, number: int) -> Organisation:
        # Each split uses the archetypes in an order of its own.
        order = list(self.schemas)
        Seeds(self.seed).child("calendar", split).random("archetypes").shuffle(order)
        return Organisation.make(order[number % len(order)], self._seeds(split, number))

    def user(self, identity: str) -> User:
        """A user by id, with their organisation."""
        found = _IDENTITY.fullmatch(identity)
        if found is None or int(found[1]) != self.seed:
            raise UsageError(
                f'"{identity}" is no user of this data set', fix=f"users are called like {self.seed}-test-0-3"
            )
        split, number, place = found[2], int(found[3]), int(found[4])
        organisation = self.organisation(split, number)
        seeds = self._seeds(split, number)
        # The person who is user number `place`. Each role is used once before any is used twice.
        generator = seeds.random("users")
        rows: list[list[str]] = []
        for role in organisation.schema.user_roles:
            people = [person.id for person in organisation.people.values() if person.role == role.name]
            generator.shuffle(people)
            rows.append(people)
        generator.shuffle(rows)
        order = [people[turn] for turn in range(max(map(len, rows))) for people in rows if turn < len(people)]
        # A small organisation has fewer people than users are asked for: then a person is there again, as another
        # character.
        return make_user(organisation, order[place % len(order)], seeds.child("user", place), identity)

    def calendar(self, user: User, *, year: int = 0, rounds: int = ROUNDS, conflicts: int = 5) -> Calendar:
        """A year of a user. A second year of the same user has other meetings and conflicts but the same principles."""
        if not 1 <= rounds <= ROUNDS or not 2 <= conflicts <= len(LETTERS):
            raise UsageError(
                f"{rounds} rounds of {conflicts} events can't be made",
                fix=f"a year has 1 to {ROUNDS} rounds of 2 to {len(LETTERS)} events",
            )
        seeds = Seeds(self.seed).child("calendar", user.id, "year", year)
        series, events = make_year(user, seeds.random("regular"))
        maker = RoundMaker(user, series, seeds.random("rounds", conflicts))
        found = maker.rounds(events, rounds, conflicts)
        return Calendar(user, tuple(series), tuple(events), tuple(found))

    def _seeds(self, split: str, number: int) -> Seeds:
        return Seeds(self.seed).child("calendar", split, "organisation", number)


def schemas_of(folder: str | Path) -> tuple[Schema, ...]:
    """The schemas of a directory, or those that ship."""
    return load_folder(Path(folder)) if str(folder) else shipped_schemas()
