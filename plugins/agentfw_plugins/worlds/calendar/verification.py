"""The five checks that every conflict round must pass.

Nothing from the generator is trusted: relations are read from the chart again, tags and values are recomputed. A round
that fails is rejected with the check that it failed; none is repaired.

    role_realism     topics, cadences and durations are those of the role's own schema
    organisation     who attends is on the chart or among the contacts, and stands to the user as the line says
    coherence        the events overlap, and something speaks for one that isn't kept
    alignment        the kept event is the best under the hidden principles, by the margin, and a principle justifies it
    metadata         titles are different and filled in, places fit, nothing contradicts itself
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .event_attributes import CHOICES, LETTERS, Event, event_line, parse_line, tags_of
from .rounds import Round
from .schema import Meeting
from .users import User

__all__ = ["POINTS", "Problem", "verify"]

POINTS = ("role_realism", "organisation", "coherence", "alignment", "metadata")
_EARLIEST, _LATEST = 7 * 60, 20 * 60


@dataclass(frozen=True, slots=True)
class Problem:
    """The check that failed, and why."""

    kind: str
    detail: str


def verify(shown: Round, user: User, margin: int = 1) -> Problem | None:
    """The first problem of a round, or None."""
    checks = (
        ("role_realism", _role_realism),
        ("organisation", _organisation),
        ("metadata", _metadata),
        ("coherence", _coherence),
    )
    for kind, check in checks:
        for detail in check(shown, user):
            return Problem(kind, detail)
    for detail in _alignment(shown, user, margin):
        return Problem("alignment", detail)
    return None


def _role_realism(shown: Round, user: User) -> Iterator[str]:
    schema = user.organisation.schema
    templates = {meeting.name: meeting for meeting in (*user.role.meetings, *schema.occasions)}
    for event in shown.events:
        meeting = templates.get(event.template)
        if meeting is None:
            yield f"{event.title}: a {user.role.title} has no meeting {event.template}"
            continue
        if event.topic != meeting.topic:
            yield f"{event.title}: its topic is {event.topic}, the schema's is {meeting.topic}"
        if event.series not in ("none", meeting.cadence):
            yield f"{event.title}: {event.series}, but the schema says {meeting.cadence}"
        unknown = [name for name in event.reasons if name not in user.role.reasons]
        if unknown:
            yield f"{event.title}: {unknown[0]} is no conflict reason of this role"
        elif any(event.topic not in schema.reasons[name].topics for name in event.reasons):
            yield f"{event.title}: {', '.join(event.reasons)} can't be said of a {event.topic} event"
        elif not _plausible_minutes(event, meeting, user):
            yield f"{event.title}: {event.minutes} minutes is no duration of {meeting.name}"


def _plausible_minutes(event: Event, meeting: Meeting, user: User) -> bool:
    """Whether the duration fits the template, within a quarter of an hour, plus what its reasons add."""
    longer = sum(user.organisation.schema.reasons[name].longer for name in event.reasons)
    return any(abs(event.minutes - longer - minutes) <= 15 for minutes in meeting.minutes)


def _organisation(shown: Round, user: User) -> Iterator[str]:
    company = user.organisation
    chain = company.chain(user.person)
    for event, tags in zip(shown.events, shown.tags, strict=True):
        people = list(event.attendees)
        strangers = [person for person in people if person not in company.people and person not in company.contacts]
        if strangers or user.person in people:
            yield f"{event.title}: {strangers[0] if strangers else user.person} can't be among the attendees"
            return
        if len(set(people)) != len(people):
            yield f"{event.title}: somebody is invited twice"
        if event.by not in (user.person, *people):
            yield f"{event.title}: its organiser doesn't come"
            return
        relations = {}
        for person in people:
            inside = person in company.people
            relations[person] = (
                company.contacts[person].role
                if not inside
                else "superior"
                if person in chain
                else "report"
                if user.person in company.chain(person)
                else "peer"
            )
        if tags_of(event, user.person, relations) != tags:
            yield f"{event.title}: the line doesn't say what the chart says of who comes"


def _metadata(shown: Round, user: User) -> Iterator[str]:
    titles = [event.title for event in shown.events]
    if len({title.casefold() for title in titles}) != len(titles):
        yield "two events have one title"
    for letter, event, tags in zip(LETTERS, shown.events, shown.tags, strict=False):
        if not event.title.strip() or "{" in event.title + event.note or "|" in event.title:
            yield f"{event.title!r} is no title"
            continue
        if parse_line(event_line(letter, event.shown, tags)) != (letter, event.shown, tags):
            yield f"{event.title}: its line doesn't read back"
        for attribute, choices in CHOICES.items():
            if attribute != "by" and getattr(event, attribute) not in choices:
                yield f"{event.title}: {attribute} can't be {getattr(event, attribute)}"
        for contradiction in _contradictions(event):
            yield f"{event.title}: {contradiction}"


def _contradictions(event: Event) -> Iterator[str]:
    remote = {"video": "video call", "phone": "by phone"}
    if (event.place in remote) != (event.location in remote.values()) or not event.location:
        yield f"it is {event.place} and takes place {event.location or 'nowhere'}"
    if event.series != "none" and event.notice == "today":
        yield "it is a series and was called today"
    if event.topic == "personal" and event.attendees:
        yield "it is personal and others come"
    if event.topic != "personal" and not event.attendees:
        yield "nobody comes"
    if "1:1" in event.title and event.size != 2:
        yield f"it is a 1:1 of {event.size} people"
    if not 15 <= event.minutes <= 240 or event.start % 15 or event.minutes % 15:
        yield f"it lasts {event.minutes} minutes from {event.start}"
    if event.start < _EARLIEST or event.end > _LATEST:
        yield "it is outside of any working day"


def _coherence(shown: Round, user: User) -> Iterator[str]:
    events = shown.events
    if not 2 <= len(events) <= len(LETTERS) or not 0 <= shown.accepted < len(events):
        yield f"{len(events)} events, of which number {shown.accepted} is kept"
        return
    if any(event.day != shown.day for event in events):
        yield "the events are on different days"
    if max(event.start for event in events) >= min(event.end for event in events):
        yield "the events don't all overlap"
    if len({tuple(sorted(tags.items())) for tags in shown.tags}) != len(events):
        yield "two events are the same but for their titles"
    kept = shown.tags[shown.accepted]
    if not any(_speaks_for(tags, kept, user) for place, tags in enumerate(shown.tags) if place != shown.accepted):
        yield "nothing speaks for any of the other events: there is no trade-off"


def _speaks_for(tags: dict[str, str], kept: dict[str, str], user: User) -> bool:
    """Whether a single principle would prefer an event to the one that is kept."""
    for name, weight in user.weights.items():
        principle = user.principles[name]
        if weight * (principle.triggers(tags) - principle.triggers(kept)) > 0:
            return True
    return False


def _alignment(shown: Round, user: User, margin: int) -> Iterator[str]:
    values = [
        sum(weight for name, weight in user.weights.items() if user.principles[name].triggers(tags))
        for tags in shown.tags
    ]
    best = values[shown.accepted]
    others = [value for place, value in enumerate(values) if place != shown.accepted]
    if best - max(others) < margin:
        yield f"the kept event is worth {best}, another {max(others)}"
    kept = shown.tags[shown.accepted]
    lasting = any(
        weight * (user.principles[name].triggers(kept) - user.principles[name].triggers(tags)) > 0
        for tags in shown.tags
        for name, weight in user.weights.items()
    )
    if not lasting:
        yield "no principle justifies the kept event"
