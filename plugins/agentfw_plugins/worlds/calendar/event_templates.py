"""Makes events for one user from the templates of a schema: title, attendees, duration, place.

Templates are filled from the user's own organisation chart. A title never names somebody who doesn't attend, and a
meeting that needs people whom the user doesn't have isn't made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

from .event_attributes import RELATIONS, Event
from .organisation import Organisation
from .schema import Meeting, Reason
from .users import User

__all__ = ["Maker", "one_of", "pick"]

Key = TypeVar("Key")


def pick(shares: Mapping[Key, float], generator: Random) -> Key:
    """Draw a key with a probability proportional to its share."""
    left = generator.random() * sum(shares.values())
    for key, share in shares.items():
        left -= share
        if left < 0:
            return key
    return key


def one_of(choices: Sequence[Key], generator: Random) -> Key:
    """A faster `generator.choice`; generating rounds calls it a million times."""
    return choices[int(generator.random() * len(choices))]


class Maker:
    """Makes events for one user."""

    def __init__(self, user: User, generator: Random) -> None:
        self.user, self.random = user, generator
        self.organisation: Organisation = user.organisation
        self.schema = user.organisation.schema
        self.circle: dict[str, list[str]] = {name: [] for name in RELATIONS}
        for person, relation in user.relations.items():
            self.circle[relation].append(person)
        chain = user.organisation.chain(user.person)
        self.circle["superior"] = chain  # the nearest first

    def _one_of(self, choices: Sequence[Key]) -> Key:
        return one_of(choices, self.random)

    def possible(self, meeting: Meeting) -> bool:
        """Whether the user has all the people that the meeting needs."""
        needed = [name for name, (least, _) in meeting.who.items() if least]
        needed += [meeting.by] if meeting.by != "self" else []
        return all(self.circle[name] for name in needed)

    def event(self, meeting: Meeting, identity: str, day: int, start: int) -> Event:
        """Make an event from a template, without any conflict."""
        attendees: list[str] = []
        by = self.user.person
        if meeting.by != "self":
            by = self._one(meeting.by, attendees)
        for relation, (least, most) in meeting.who.items():
            for _ in range(self.random.randint(least, most)):
                self._one(relation, attendees)
        place = pick(meeting.place, self.random)
        title = self._one_of(meeting.titles)
        return Event(
            id=identity,
            title=self.filled(title, attendees),
            day=day,
            start=start,
            minutes=pick(meeting.minutes, self.random),
            topic=meeting.topic,
            by=by,
            attendees=tuple(attendees),
            place=place,
            location=self.location(place),
            template=meeting.name,
            series=meeting.cadence,
            hold=meeting.hold,
        )

    def apply(self, reason: Reason, event: Event) -> bool:
        """Turn an event into a competitor. False if people are missing for it or it would contradict itself."""
        if event.topic not in reason.topics:
            return False
        attendees = list(event.attendees)
        named: dict[str, str] = {}
        if reason.only:
            if not self.circle[reason.only]:
                return False
            attendees = []
            named[reason.only] = self._one(reason.only, attendees)
            event.by = self._one_of([self.user.person, attendees[0]])
            # The person named in the title may no longer attend.
            event.title = self.filled(
                self._one_of(("{person} and you", "A word with {person}", "{project}: with {person}")), attendees
            )
        for relation, (least, most) in reason.adds.items():
            wanted = self.random.randint(least, most)
            free = [person for person in self.circle[relation] if person not in attendees]
            if len(free) < max(1, least):
                return False
            for _ in range(wanted):
                person = self._one(relation, attendees)
                if person:
                    named.setdefault(relation, person)
        if event.minutes + reason.longer > 240:
            return False
        event.attendees = tuple(attendees)
        event.minutes += reason.longer
        for attribute, value in reason.sets.items():
            setattr(event, attribute, value)
        if "place" in reason.sets:
            event.location = self.location(event.place)
        if event.notice == "today":
            # An event called today can't belong to a long-standing series.
            event.series = "none"
        words = {name: self.called(person) for name, person in named.items()}
        event.note = self._one_of(reason.notes).format(**words, project=self._one_of(self.schema.projects))
        event.reasons = (*event.reasons, reason.name)
        return True

    def location(self, place: str) -> str:
        if place == "room":
            return self._one_of(self.schema.rooms)
        if place == "onsite":
            return self._one_of(self.schema.sites)
        return "video call" if place == "video" else "by phone"

    def called(self, person: str) -> str:
        """A person's name in a title: the first name, or the firm for people from outside."""
        found = self.organisation.person(person)
        return found.firm or found.first_name

    def filled(self, title: str, attendees: Sequence[str]) -> str:
        """Fill the slots of a title."""
        words = {"project": self._one_of(self.schema.projects)}
        for person in reversed(attendees):
            words[self.user.relations[person]] = words["person"] = self.called(person)
        return title.format(**words)

    def _one(self, relation: str, attendees: list[str]) -> str:
        """Add one more person of a relation: the nearest superior first, others at random. '' if nobody is left."""
        free = [person for person in self.circle[relation] if person not in attendees]
        if not free:
            return ""
        person = free[0] if relation == "superior" and self.random.random() < 0.7 else self._one_of(free)
        attendees.append(person)
        return person
