"""The users of the benchmark: organisations by split, five users each, one year per episode.

A split is a set of organisations, so no user, colleague or title is in two splits. Everything follows from the seed by
name, so each user can be generated alone: their id has seed, split, organisation and place in it.

The right answer of a conflict round is the event with the greatest total weight under the user's hidden principles,
ahead of every other by a margin. For each round an anchor is drawn from the week's regular events and labelled accepted
or declined by the role's ratio. Competitors come from pairing a principle, drawn in proportion to its weight, with a
conflict reason or a meeting that triggers it: worth less than an accepted anchor, or one of them, which a strong
principle speaks for, in place of a declined one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from random import Random

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds

from .event_attributes import LETTERS, Event, tags_of
from .organisation import Organisation, User, make_user
from .regular_year import PER_WEEK, ROUNDS, WEEKS, Maker, Round, Series, make_year, one_of
from .schema import Meeting, Reason, Schema, load_folder, shipped_schemas

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Calendar:
    """One user's year."""

    user: User
    series: tuple[Series, ...]
    events: tuple[Event, ...]  # the regular events, without conflicts, in order of time
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class Dataset:
    """Where users come from."""

    seed: int = 7
    schemas: Sequence[Schema] = field(default_factory=shipped_schemas)
    users_each: int = 5  # users of each organisation
    organisations: dict[str, int] = field(default_factory=lambda: {"train": 40, "validation": 4, "test": 2})
    """Number of organisations per split."""

    def users(self, split: str) -> list[str]:
        """The ids of a split's users."""
        return [
            f"{self.seed}-{split}-{number}-{place}"
            for number in range(self.organisations[split])
            for place in range(self.users_each)
        ]

    def organisation(self, split: str, number: int) -> Organisation:
        # Each split uses the archetypes in an order of its own.
        seeds, order = Seeds(self.seed).child("calendar", split), list(self.schemas)
        seeds.random("archetypes").shuffle(order)
        return Organisation.make(order[number % len(order)], seeds.child("organisation", number))

    def user(self, identity: str) -> User:
        """A user by id, with their organisation."""
        _, split, *numbers = identity.split("-")
        number, place = map(int, numbers)
        organisation = self.organisation(split, number)
        seeds = Seeds(self.seed).child("calendar", split, "organisation", number)
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
        seeds = Seeds(self.seed).child("calendar", user.id, "year", year)
        series, events = make_year(user, seeds.random("regular"))
        maker = RoundMaker(user, seeds.random("rounds", conflicts))
        found = maker.rounds(events, rounds, conflicts)
        return Calendar(user, tuple(series), tuple(events), tuple(found))


def schemas_of(folder: str | Path) -> tuple[Schema, ...]:
    """The schemas of a directory, or those that ship."""
    return load_folder(Path(folder)) if str(folder) else shipped_schemas()


# -- conflict rounds ---------------------------------------------------------------------------------------------------

_STRONG = 2  # minimum weight of a principle that justifies an accepted competitor
_TRIES = 400
_MARGIN = 1  # minimum lead of the accepted event over every other
_POOL = 3  # maximum number of competitors drawn per one needed, before the round is drawn again
_REGULAR, _SECOND, _TOUCHED = 0.35, 0.6, 0.4
"""Probabilities: that a competitor is another regular meeting of the user, of a second conflict reason and again of a
third, and that a reason applies to the anchor itself."""


class RoundMaker(Maker):
    """Generates the rounds of one user's year."""

    def __init__(self, user: User, generator: Random) -> None:
        super().__init__(user, generator)
        self.regular = [meeting for meeting in user.role.meetings if self.possible(meeting)]
        self.occasions = [meeting for meeting in self.schema.occasions if self.possible(meeting)]
        self.reasons = [self.schema.reasons[name] for name in user.role.reasons]
        # A regular meeting isn't announced today.
        self.reasons_for_regular = [reason for reason in self.reasons if "notice" not in reason.sets]
        self._pairs = self._pairings()
        self._names = list(self._pairs)
        self._cumulated = list(accumulate(abs(user.weights[name]) for name in self._names))
        self._made = 0

    def rounds(self, events: Sequence[Event], count: int, conflicts: int) -> list[Round]:
        """Generate the first `count` rounds of the year, with `conflicts` events each."""
        by_week: list[list[Event]] = [[] for _ in range(WEEKS)]
        for event in events:
            by_week[event.day // 7].append(event)
        found: list[Round] = []
        for week, regular in enumerate(by_week):
            if len(found) >= count:
                break
            for anchor in sorted(self.random.sample(regular, PER_WEEK), key=lambda event: (event.day, event.start)):
                found.append(self._round(len(found) + 1, week, anchor, conflicts))
        return found[:count]

    def _round(self, number: int, week: int, anchor: Event, conflicts: int) -> Round:
        """Draw until a round passes. An anchor that can't win (or lose) gets the other label after some tries."""
        accepts = self.random.random() < self.user.role.accepts
        for attempt in range(_TRIES):
            if attempt and attempt % 4 == 0:
                accepts = not accepts
            drawn = self._draw(number, week, anchor, conflicts, accepts)
            if drawn is not None and is_sound(drawn, self.user):
                return drawn
        raise self._impossible(f"no conflict round can be made in week {week + 1}")

    def _draw(self, number: int, week: int, anchor: Event, conflicts: int, accepts: bool) -> Round | None:
        """A candidate round, or None if the draw doesn't allow the label."""
        kept = replace(anchor, id=f"r{number}-0")
        if self.reasons_for_regular and self.random.random() < _TOUCHED:
            self.apply(one_of(self.reasons_for_regular, self.random), kept)
        budget, winner = _POOL * conflicts, kept
        if not accepts:
            # A competitor that beats the anchor, for which a strong principle speaks.
            least = self._value(kept) + _MARGIN
            for event in (self._competitor(kept) for _ in range(budget)):
                if self._value(event) < least or event.title == kept.title:
                    continue
                if any(self.user.weights[name] >= _STRONG for name in self._triggered(event)):
                    winner = event
                    break
            else:
                return None
        best, events = self._value(winner), [kept] if accepts else [kept, winner]
        titles = {event.title for event in events}
        for _ in range(budget):
            if len(events) == conflicts:
                break
            event = self._competitor(kept)
            if self._value(event) <= best - _MARGIN and event.title not in titles:
                titles.add(event.title)
                events.append(event)
        else:
            return None
        self.random.shuffle(events)
        for place, event in enumerate(events):
            event.id = f"r{number}-{LETTERS[place]}"
        tags = tuple(self._tags(event) for event in events)
        return Round(number, week, anchor.day, tuple(events), tags, events.index(winner), events.index(kept))

    def _competitor(self, anchor: Event) -> Event:
        """An event in the anchor's hour, made from a principle and something that triggers it."""
        for _ in range(_TRIES):
            (principle,) = self.random.choices(self._names, cum_weights=self._cumulated)
            cause = one_of(self._pairs[principle], self.random)
            if isinstance(cause, Meeting):
                meeting = cause
            else:  # a meeting that the reason fits: sometimes another regular one, else an occasion
                regular = [one for one in self.regular if one.topic in cause.topics]
                others = [one for one in regular if one.name != anchor.template]
                occasions = [one for one in self.occasions if one.topic in cause.topics]
                is_regular = others and (not occasions or self.random.random() < _REGULAR)
                meeting = one_of(others if is_regular else occasions or regular, self.random)
            self._made += 1
            event = self.event(meeting, f"c{self._made}", anchor.day, anchor.start)
            if meeting.cadence == "none":
                event.notice = one_of(("planned", "planned", "week"), self.random)
            elif self.random.random() < 0.5:
                event.series = "none"  # an extra date of a regular meeting
            if isinstance(cause, Reason) and not self.apply(cause, event):
                continue
            for _ in range(2):
                if self.random.random() < _SECOND:
                    self.apply(one_of(self.reasons, self.random), event)
            # A start near the anchor's, so that all events overlap in its second quarter of an hour.
            shared = anchor.start + (15 if anchor.minutes > 15 else 0)
            starts = [anchor.start + offset for offset in (-30, -15, 0, 0, 0, 15)]
            overlapping = [start for start in starts if start <= shared < start + event.minutes]
            fitting = [start for start in overlapping if 7 * 60 <= start <= 20 * 60 - event.minutes]
            if fitting:
                event.start = one_of(fitting, self.random)
                return event
        raise self._impossible(f"nothing can compete with {anchor.title}")

    def _impossible(self, what: str) -> SettingsError:
        return SettingsError(
            f"{self.schema.name}: {what} for a {self.user.role.title} ({_TRIES} tries)",
            fix="give the role more conflict reasons or occasions that its principles react to",
        )

    def _pairings(self) -> dict[str, list[Meeting | Reason]]:
        """The reasons and occasions that can trigger each of the user's principles."""
        found: dict[str, list[Meeting | Reason]] = {name: [] for name in self.user.weights}
        meetings = [*self.occasions, *self.regular]
        for reason in self.reasons:
            if (fitting := next((one for one in meetings if one.topic in reason.topics), None)) is None:
                continue
            event = self.event(fitting, "", 0, 0)
            before = self._triggered(event)
            if self.apply(reason, event):
                for name in self._triggered(event):
                    if name not in before:
                        found[name].append(reason)
        for meeting in meetings:
            # What a meeting triggers may depend on how many attend, so a few are drawn.
            draws = [self._triggered(self.event(meeting, "", 0, 0)) for _ in range(3)]
            for name in set[str]().union(*draws):
                found[name].append(meeting)
        return {name: causes for name, causes in found.items() if causes}

    def _triggered(self, event: Event) -> list[str]:
        """The user's principles that an event triggers."""
        tags = self._tags(event)
        return [name for name in self.user.weights if self.user.principles[name].triggers(tags)]

    def _tags(self, event: Event) -> dict[str, str]:
        return tags_of(event, self.user.person, self.user.relations)

    def _value(self, event: Event) -> int:
        return self.user.value(self._tags(event))


def is_sound(shown: Round, user: User) -> bool:
    """Whether titles and tags differ, and a single principle would prefer an event to the one that is kept. A title
    that says 1:1 is true."""
    titles, tags = ({event.title.casefold() for event in shown.events}, {tuple(one.items()) for one in shown.tags})
    if len(titles) != len(tags) or len(titles) != len(shown.events):
        return False
    if any("1:1" in event.title and event.size != 2 for event in shown.events):
        return False
    kept = shown.tags[shown.accepted]
    return any(
        weight * (user.principles[name].triggers(one) - user.principles[name].triggers(kept)) > 0
        for one in shown.tags
        for name, weight in user.weights.items()
    )
