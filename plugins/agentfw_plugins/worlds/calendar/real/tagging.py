"""The tags of a real event: the same twelve as in the benchmark, by plain rules.

Every tag follows from the file alone, by the rules of docs/reference/ics-calendars.md. What isn't said has the
neutral value.

    tags(occurrence, people, home)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta, tzinfo

from ..event_attributes import RELATIONS, TAGS
from .ics_events import Entry, Party
from .occurrences import Occurrence
from .people import People

__all__ = ["TOPICS", "tags"]


def _words(*words: str) -> re.Pattern[str]:
    """Matches one of these whole words; `*` stands for any ending."""
    escaped = [re.escape(word.removesuffix("*")) + (r"\w*" if word.endswith("*") else "") for word in words]
    return re.compile(rf"(?<!\w)(?:{'|'.join(escaped)})(?!\w)", re.I)


TOPICS: Mapping[str, re.Pattern[str]] = {
    "personal": _words(
        *(
            "doctor*",
            "dentist*",
            "physio*",
            "therapy",
            "hospital",
            "vet",
            "school",
            "kindergarten",
            "childcare",
            "pickup",
        ),
        *(
            "birthday*",
            "family",
            "mum",
            "mom",
            "dad",
            "gym",
            "yoga",
            "haircut",
            "personal",
            "private",
            "holiday*",
            "vacation*",
        ),
    ),
    "social": _words(
        "lunch*", "coffee*", "drinks", "dinner*", "party", "breakfast*", "social*", "farewell", "celebration*"
    ),
    "people": _words(
        *(
            "1:1",
            "1-1",
            "1on1",
            "one on one",
            "one-on-one",
            "mentor*",
            "interview*",
            "feedback",
            "appraisal*",
            "hiring",
        ),
        *("onboarding", "coaching", "candidate*", "performance review*", "career*"),
    ),
    "learning": _words(
        *(
            "training*",
            "course*",
            "workshop*",
            "webinar*",
            "lecture*",
            "seminar*",
            "class",
            "tutorial*",
            "journal club",
        ),
        *("conference*", "reading group", "lesson*", "talk", "exam*"),
    ),
    "outreach": _words(
        *("client*", "customer*", "sales", "demo*", "pitch*", "partner*", "vendor*", "supplier*", "press", "sponsor*"),
        *("investor*", "recruiting", "fundrais*", "visit*"),
    ),
    "steering": _words(
        *("board*", "steering", "strategy", "committee*", "leadership", "roadmap*", "quarterly", "okr*", "all hands"),
        *("all-hands", "town hall", "governance", "budget*", "faculty"),
    ),
    "admin": _words(
        *("admin*", "expense*", "invoice*", "payroll", "timesheet*", "tax*", "paperwork", "compliance", "audit*"),
        "inventory",
    ),
}
"""Words by topic, in order of precedence. Without a match the topic is delivery, the work itself."""

_CATEGORIES = {"delivery", "steering", "people", "learning", "outreach", "admin", "social", "personal"}
_HIGH = _words(
    "urgent*", "asap", "emergency", "critical", "sev1", "sev2", "sev-1", "sev-2", "incident*", "outage*", "immediately"
)
_DUE = _words("deadline*", "due", "submission*", "submit")
_DUE_WEEK = _words(
    "week",
    "tomorrow",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    *(f"{day}day" for day in ("mon", "tues", "wednes", "thurs", "fri")),
)
_VIDEO = re.compile(
    r"zoom\.us|meet\.google|teams\.microsoft|teams\.live|webex|whereby|jitsi|bluejeans|\bvideo\b|\bonline\b|\bzoom\b",
    re.I,
)
_PHONE = re.compile(r"^tel:|\bphone\b|\bdial[- ]?in\b|\bcall\b|^\+?[\d ()-]{7,}$", re.I)
_ROOM = re.compile(
    r"\brooms?\b|\bfloor\b|\bbuilding\b|\bbldg\b|\boffice\b|\bhall\b|\bdesk\b|\blab\b|^[A-Z]{0,3}[- ]?\d{1,4}[a-z]?$",
    re.I,
)
_OPTIONAL, _MUST = _words("optional", "fyi", "drop in", "drop-in"), _words("mandatory", "required", "must attend")
_FIXED = _words(
    "doctor*", "dentist*", "surgery", "flight*", "train", "court", "exam*", "wedding*", "funeral*", "hospital", "visa"
)
_SOON = timedelta(days=7)
_LEAST, _MOST = 15, 240
"""Shortest and longest duration in the benchmark; others are clipped."""


def tags(one: Occurrence, people: People, home: tzinfo) -> dict[str, str]:
    """All twelve tags of an event on one of its dates."""
    entry = one.entry
    others = [party for party in _parties(entry) if not people.is_owner(party)]
    relations = {people.relation(party) for party in others}
    by = entry.organizer
    text = f"{entry.title} {' '.join(entry.categories)}"
    found = {
        "start": f"{one.start.astimezone(home):%H:%M}",
        "min": str(min(_MOST, max(_LEAST, round((one.end - one.start).total_seconds() / 60)))),
        "by": "self" if by is None or people.is_owner(by) else people.relation(by),
        "who": ",".join(name for name in RELATIONS if name in relations) or "nobody",
        "size": str(len({party.address for party in others}) + 1),
        "topic": _topic(entry, text),
        "urgency": _urgency(entry, text),
        "due": ("week" if _DUE_WEEK.search(text) else "today") if _DUE.search(text) else "none",
        "place": _place(entry),
        "series": _series(one.of_series),
        "notice": _notice(one, home),
        "hold": _hold(entry, people, text),
    }
    return {tag: found[tag] for tag in TAGS}


def _parties(entry: Entry) -> list[Party]:
    """The people of an event who haven't declined, without rooms."""
    coming = [
        party for party in entry.attendees if party.kind not in ("ROOM", "RESOURCE") and party.status != "DECLINED"
    ]
    if entry.organizer is not None and entry.organizer.address not in [party.address for party in coming]:
        coming.append(entry.organizer)
    return coming


def _topic(entry: Entry, text: str) -> str:
    for category in entry.categories:
        if category.strip().lower() in _CATEGORIES:
            return category.strip().lower()
    return next((topic for topic, words in TOPICS.items() if words.search(text)), "delivery")


def _urgency(entry: Entry, text: str) -> str:
    priority = entry.texts.get("PRIORITY", "0").strip()
    importance = entry.texts.get("X-MICROSOFT-CDO-IMPORTANCE", "1").strip()
    if priority in ("1", "2", "3", "4") or importance == "2" or _HIGH.search(text):
        return "high"
    return "low" if priority in ("6", "7", "8", "9") or importance == "0" else "normal"


def _place(entry: Entry) -> str:
    where = entry.texts.get("LOCATION", "").strip()
    linked = any(
        name in entry.texts for name in ("CONFERENCE", "X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL")
    )
    if linked or _VIDEO.search(where) or (not where and _VIDEO.search(entry.texts.get("DESCRIPTION", "")[:5000])):
        return "video"
    if _PHONE.search(where) or (not where and re.match(r"(?:phone )?call\b", entry.title, re.I)):
        return "phone"
    if not where or _ROOM.search(where) or any(party.kind == "ROOM" for party in entry.attendees):
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


def _hold(entry: Entry, people: People, text: str) -> str:
    own = [party for party in entry.attendees if people.is_owner(party)]
    if entry.texts.get("STATUS", "").strip().upper() == "TENTATIVE" or _OPTIONAL.search(text):
        return "optional"
    if any(party.role in ("OPT-PARTICIPANT", "NON-PARTICIPANT") for party in own):
        return "optional"
    return "must" if _MUST.search(text) else "fixed" if _FIXED.search(text) else "none"
