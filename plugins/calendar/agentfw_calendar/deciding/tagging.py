"""The tags of a real event: the same twelve as in the benchmark, by plain rules.

Every tag follows from the file alone, by the rules of plugins/calendar/docs/ics-calendars.md. What isn't said has the
neutral value. Titles and places are read in six languages, see `words`.

    tags(occurrence, people, home)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta, tzinfo

from agentfw_plugins.worlds.calendar.event_attributes import PRIVATE, RELATIONS, TAGS

from ..ics.ics_events import Entry, Party
from ..ics.occurrences import Occurrence
from ..language.words import named, unknown_words
from .free_times import is_away
from .people import People

_TOPICS = ("personal", "social", "people", "learning", "outreach", "steering", "admin")
"""Topics in order of precedence. Without a word of any of them the topic is delivery, the work itself."""
_CATEGORIES = {"delivery", "steering", "people", "learning", "outreach", "admin", "social", "personal"}
_LINK = re.compile(r"zoom\.us|meet\.google|teams\.microsoft|teams\.live|webex|whereby|jitsi|bluejeans", re.I)
_NUMBER = re.compile(r"^tel:|^\+?[\d ()-]{7,}$", re.I)
_ROOM_NUMBER = re.compile(r"^[A-Z]{0,3}[- ]?\d{1,4}[a-z]?$", re.I)
FLIGHT = re.compile(r"\b(?:[A-Z][A-Z0-9]|[A-Z]{3}) ?\d{2,4}\b(?!:)")
"""The number of a flight or a train, such as LH 902 or ICE 1005."""
_READ = 300
"""Number of characters of a description in which words are looked for."""
_MOST_PEOPLE = 8
_SOON = timedelta(days=7)
_LEAST, _MOST = 15, 240
"""Shortest and longest duration in the benchmark; others are clipped."""


def tags(one: Occurrence, people: People, home: tzinfo) -> dict[str, str]:
    """All twelve tags of an event on one of its dates."""
    entry = one.entry
    others = [party for party in _parties(entry) if not people.is_owner(party)]
    by = entry.organizer
    words = named(". ".join((entry.title, *entry.categories)), "titles")
    relations = {people.relation(party) for party in others} | {name for name in PRIVATE if f"who={name}" in words}
    found = {
        "start": f"{one.start.astimezone(home):%H:%M}",
        "min": str(min(_MOST, max(_LEAST, round((one.end - one.start).total_seconds() / 60)))),
        "by": "self" if by is None or people.is_owner(by) else people.relation(by),
        "who": ",".join(name for name in (*RELATIONS, *PRIVATE) if name in relations) or "nobody",
        "size": str(len({party.address for party in others}) + 1),
        "topic": _topic(entry, words),
        "urgency": _urgency(entry, words),
        "due": ("week" if "week" in words else "today") if "due=today" in words else "none",
        "place": _place(entry),
        "series": _series(one.of_series),
        "notice": _notice(one, home),
        "hold": "fixed" if is_away(one) or FLIGHT.search(entry.title) else _hold(entry, people, words),
    }
    return {tag: found[tag] for tag in TAGS}


def about(one: Occurrence, people: People) -> str:
    """What an event is by itself, for `preferences`: names between tabs."""
    entry, others = one.entry, [party for party in _parties(one.entry) if not people.is_owner(party)]
    words = named(entry.title, "titles")
    is_own = entry.organizer is None or people.is_owner(entry.organizer)
    names = ["lead"] if is_own and others else []
    private = words.keys() & {"topic=personal", "topic=social", "who=family", "who=friend", "who=doctor", "public"}
    names += ["note"] if is_own and not others and not private and not entry.texts.get("LOCATION") else []
    names += ["public"] if "public" in words else []
    names += ["errand"] if "errand" in words else []
    names += ["moved"] if entry.instead_of is not None and entry.instead_of != entry.start else []
    names += [f"title={entry.title.casefold()}", f"uid={entry.uid}"]
    names += [f"word={word}" for word in sorted(unknown_words(entry.title))]
    names += [f"with={address}" for address in sorted({party.address for party in others})[:_MOST_PEOPLE]]
    return "\t".join(names)


def whereabouts(entry: Entry) -> str:
    """Where somebody has to be for an event. Empty if it isn't said, or if that can be anywhere."""
    where, place = entry.texts.get("LOCATION", "").strip(), _place(entry)
    if not where or place in ("video", "phone"):
        return ""
    # From one room to another nobody travels.
    return "room" if place == "room" else " ".join(where.casefold().split())


def party_addresses(entry: Entry) -> set[str]:
    """The addresses of the people of an event who haven't declined."""
    return {party.address for party in _parties(entry)}


def _parties(entry: Entry) -> list[Party]:
    """The people of an event who haven't declined, without rooms."""
    coming = [
        party for party in entry.attendees if party.kind not in ("ROOM", "RESOURCE") and party.status != "DECLINED"
    ]
    if entry.organizer is not None and entry.organizer.address not in [party.address for party in coming]:
        coming.append(entry.organizer)
    return coming


def _topic(entry: Entry, words: Mapping[str, int]) -> str:
    for category in entry.categories:
        if category.strip().lower() in _CATEGORIES:
            return category.strip().lower()
    return next((topic for topic in _TOPICS if f"topic={topic}" in words), "delivery")


def _urgency(entry: Entry, words: Mapping[str, int]) -> str:
    priority = entry.texts.get("PRIORITY", "0").strip()
    importance = entry.texts.get("X-MICROSOFT-CDO-IMPORTANCE", "1").strip()
    if priority in ("1", "2", "3", "4") or importance == "2" or "urgency=high" in words:
        return "high"
    return "low" if priority in ("6", "7", "8", "9") or importance == "0" else "normal"


def _place(entry: Entry) -> str:
    where = entry.texts.get("LOCATION", "").strip()
    linked = any(
        name in entry.texts for name in ("CONFERENCE", "X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL")
    )
    words = named(where, "locations")
    if linked or _LINK.search(where) or "place=video" in words:
        return "video"
    if _NUMBER.search(where) or "place=phone" in words:
        return "phone"
    if not where:
        described = entry.texts.get("DESCRIPTION", "")
        if _LINK.search(described[:5000]) or "place=video" in named(described[:_READ], "locations"):
            return "video"
        # "Call with Acme", but not "Prepare the call with Acme".
        if named(entry.title, "titles").get("place=phone") == 0:
            return "phone"
    is_room = "place=room" in words or _ROOM_NUMBER.search(where)
    if not where or is_room or any(party.kind == "ROOM" for party in entry.attendees):
        return "room"
    return "onsite"


def _series(master: Entry | None) -> str:
    if master is None or not master.rules:
        return "none"
    rule = master.rules[0]
    frequency, interval = str(rule.get("FREQ", [""])[0]).upper(), int(rule.get("INTERVAL", [1])[0])
    if frequency in ("DAILY", "WEEKLY"):
        days = interval * (7 if frequency == "WEEKLY" else 1)
        return "weekly" if days <= 7 else "biweekly" if days <= 14 else "monthly"
    return "monthly"


def _notice(one: Occurrence, home: tzinfo) -> str:
    """How long ago it was announced; a series counts as long-standing."""
    created = one.entry.created
    if created is None or one.of_series is not None or created > one.start:
        return "planned"
    if created.astimezone(home).date() == one.start.astimezone(home).date():
        return "today"
    return "week" if one.start - created < _SOON else "planned"


def _hold(entry: Entry, people: People, words: Mapping[str, int]) -> str:
    own = [party for party in entry.attendees if people.is_owner(party)]
    if entry.texts.get("STATUS", "").strip().upper() == "TENTATIVE" or "hold=optional" in words:
        return "optional"
    if any(party.role in ("OPT-PARTICIPANT", "NON-PARTICIPANT") for party in own):
        return "optional"
    return "must" if "hold=must" in words else "fixed" if "hold=fixed" in words else "none"
