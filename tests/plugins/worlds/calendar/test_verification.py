"""Verification: a sound round passes, and each of the five points catches what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentfw_plugins.worlds.calendar.dataset import Calendar
from agentfw_plugins.worlds.calendar.event_attributes import Event, tags_of
from agentfw_plugins.worlds.calendar.regular_year import Round
from agentfw_plugins.worlds.calendar.round_maker import POINTS, verify


def altered(shown: Round, calendar: Calendar, at: int = 0, /, **changes: object) -> Round:
    """The round with one event changed, and its tags as they then are."""
    events = list(shown.events)
    events[at] = replace(events[at], **changes)  # type: ignore[arg-type]
    tags = list(shown.tags)
    tags[at] = tags_of(events[at], calendar.user.person, calendar.user.relations)
    return replace(shown, events=tuple(events), tags=tuple(tags))


def with_company(shown: Round) -> int:
    """An event that others come to."""
    return next(place for place, event in enumerate(shown.events) if len(event.attendees) >= 2)


def loser(shown: Round) -> int:
    return 0 if shown.accepted != 0 else 1


Break = Callable[[Round, Calendar], Round]


def other_tag(shown: Round, calendar: Calendar) -> Round:
    place = with_company(shown)
    tags = list(shown.tags)
    tags[place] = {**tags[place], "who": "superior" if tags[place]["who"] != "superior" else "report"}
    return replace(shown, tags=tuple(tags))


def copied(shown: Round, calendar: Calendar) -> Round:
    first = shown.events[shown.accepted]
    twin = replace(first, id="twin", title="Something else")
    events, tags = list(shown.events), list(shown.tags)
    place = loser(shown)
    events[place], tags[place] = twin, dict(shown.tags[shown.accepted])
    return replace(shown, events=tuple(events), tags=tuple(tags))


def same_title(shown: Round, calendar: Calendar) -> Round:
    return altered(shown, calendar, 0, title=shown.events[1].title.upper())


def organiser_away(shown: Round, calendar: Calendar) -> Round:
    place = with_company(shown)
    event = shown.events[place]
    stranger = next(person for person in calendar.user.relations if person not in event.attendees)
    return altered(shown, calendar, place, by=stranger)


def only_the_best(shown: Round, calendar: Calendar) -> Round:
    """A round of events that differ from the kept one in nothing that anybody cares about: the start, and how to dial
    in."""
    kept = shown.events[shown.accepted]
    if kept.place == "onsite" or kept.minutes < 30:
        raise StopIteration
    places = {"room": "Room 9", "video": "video call", "phone": "by phone"}
    looks = [(start, place) for start in (kept.start, kept.start - 15) for place in places]
    looks.remove((kept.start, kept.place))
    events = [replace(kept, id=f"e{number}", title=f"Event {number}") for number in range(len(shown.events))]
    for number, event in enumerate(events):
        if number != shown.accepted:
            event.start, event.place = looks.pop()
            event.location = places[event.place]
    user = calendar.user
    tags = tuple(tags_of(event, user.person, user.relations) for event in events)
    return replace(shown, events=tuple(events), tags=tags)


def other_topic(shown: Round, calendar: Calendar) -> Round:
    return altered(shown, calendar, topic="steering" if shown.events[0].topic != "steering" else "admin")


def other_cadence(shown: Round, calendar: Calendar) -> Round:
    series = shown.events[shown.anchor].series
    return altered(shown, calendar, shown.anchor, series="weekly" if series != "weekly" else "monthly")


def far_away(shown: Round, calendar: Calendar) -> Round:
    start = shown.events[0].start
    return altered(shown, calendar, start=start + 240 if start < 14 * 60 else start - 240)


BREAKS: dict[str, list[tuple[str, Break]]] = {
    "role_realism": [
        ("a meeting of another role", lambda r, c: altered(r, c, template="astronaut.0")),
        ("a topic that isn't the meeting's", other_topic),
        ("a cadence that isn't the meeting's", other_cadence),
        ("a reason that the role hasn't", lambda r, c: altered(r, c, reasons=("earthquake",))),
        ("a duration that nobody plans", lambda r, c: altered(r, c, minutes=235)),
    ],
    "organisation": [
        ("a stranger", lambda r, c: altered_people(r, c, ("nobody-1",))),
        ("the user as their own guest", lambda r, c: altered_people(r, c, (c.user.person,))),
        ("somebody twice", lambda r, c: altered_people(r, c, r.events[with_company(r)].attendees[:1])),
        ("an organiser who doesn't come", organiser_away),
        ("a line that says another relation", other_tag),
    ],
    "coherence": [
        ("another day", lambda r, c: altered(r, c, day=r.day + 1)),
        ("no overlap", far_away),
        ("two events that are one", copied),
        ("nothing to weigh", only_the_best),
    ],
    "alignment": [
        ("another event is kept", lambda r, c: replace(r, accepted=loser(r))),
    ],
    "metadata": [
        ("one title for two", same_title),
        ("no title", lambda r, c: altered(r, c, title=" ")),
        ("a slot that was left", lambda r, c: altered(r, c, title="Talk with {person}")),
        ("a bar", lambda r, c: altered(r, c, title="Talk | place=moon")),
        ("a video call in a room", lambda r, c: altered(r, c, place="video", location="Room 3")),
        ("nowhere", lambda r, c: altered(r, c, location="")),
        ("a series that was called today", lambda r, c: altered(r, c, r.anchor, notice="today")),
        ("a 1:1 of many", lambda r, c: altered(r, c, with_company(r), title="1:1 with everybody")),
        ("no such urgency", lambda r, c: altered(r, c, urgency="extreme")),
        ("a start between the quarters", lambda r, c: altered(r, c, start=r.events[0].start + 7)),
    ],
}


def altered_people(shown: Round, calendar: Calendar, more: tuple[str, ...]) -> Round:
    place = with_company(shown)
    events = list(shown.events)
    events[place] = replace(events[place], attendees=(*events[place].attendees, *more))
    return replace(shown, events=tuple(events))


CASES = [(point, name, change) for point, some in BREAKS.items() for name, change in some]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "name", "change"), CASES, ids=[f"{point}: {name}" for point, name, _ in CASES])
def test_a_broken_round_is_rejected_with_the_point_that_it_breaks(
    point: str, name: str, change: Break, calendar: Calendar
) -> None:
    caught = 0
    for shown in calendar.rounds[:40]:
        try:
            broken = change(shown, calendar)
        except (StopIteration, KeyError):
            continue  # this round has nothing to break in this way
        if name == "a series that was called today" and broken.events[broken.anchor].series == "none":
            continue
        problem = verify(broken, calendar.user)
        assert problem is not None, f"{name} was taken in round {shown.number}"
        caught += problem == point
    assert caught >= 5


@pytest.mark.slow
def test_every_point_has_its_breaks_and_every_kept_round_passes(calendars: list[Calendar]) -> None:
    assert tuple(BREAKS) == ("role_realism", "organisation", "coherence", "alignment", "metadata")
    assert set(BREAKS) == set(POINTS)
    for calendar in calendars:
        for shown in calendar.rounds:
            assert verify(shown, calendar.user) is None


def test_rejections_are_counted_by_point(calendars: list[Calendar]) -> None:
    total = sum((calendar.rejected for calendar in calendars), start=calendars[0].rejected.__class__())
    assert set(total) <= set(POINTS)
    assert total.total() > 0


def test_an_event_knows_its_end_and_size() -> None:
    event = Event("x", "Tea", 0, 600, 30, "social", "me", ("you",), "room", "Kitchen", "occasion.0", note="with cake")
    assert (event.end, event.size, event.shown) == (630, 2, "Tea (with cake)")
