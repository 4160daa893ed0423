"""The visible attributes of an event, their values, and the line of text that shows them.

Everything that a user's principles depend on is on the line. Events hide nothing; only what the user makes of them is
hidden.

The line, which a person and a small model read alike:

    B: Release review | start=10:15 min=60 by=report who=superior,report size=5 topic=delivery due=today place=room

After the title come tags in this order, each `key=value` without spaces. The first six and `place` are always there;
the others only where they say something, that is where their value isn't the neutral one:

    start    HH:MM                          topic    delivery steering people learning outreach admin social personal
    min      15..240, minutes               urgency  low high                  (neutral: normal)
    by       self or a relation             due      today week                (neutral: none)
    who      relations, or nobody           place    room video phone onsite   (onsite: in person, elsewhere)
    size     people, the user included      series   weekly biweekly monthly   (neutral: none)
                                            notice   today week                (neutral: planned)
                                            hold     fixed must optional       (neutral: none)

Relations, as seen from the user on the organisation's chart: superior, report, peer; and from outside: client, partner,
vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "CHOICES",
    "LETTERS",
    "NEUTRAL",
    "OUTSIDE",
    "PRIVATE",
    "RELATIONS",
    "TAGS",
    "Event",
    "clock",
    "event_line",
    "parse_line",
    "tags_of",
]

LETTERS = "ABCDE"
INSIDE = ("superior", "report", "peer")
OUTSIDE = ("client", "partner", "vendor")
RELATIONS = (*INSIDE, *OUTSIDE)
PRIVATE = ("family", "friend", "doctor")
"""Relations of a life besides work. No generated user has them; a person's own calendar does."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "by": ("self", *RELATIONS),
    "topic": ("delivery", "steering", "people", "learning", "outreach", "admin", "social", "personal"),
    "urgency": ("low", "normal", "high"),
    "due": ("none", "week", "today"),
    "place": ("room", "video", "phone", "onsite"),
    "series": ("none", "weekly", "biweekly", "monthly"),
    "notice": ("planned", "week", "today"),
    "hold": ("none", "optional", "fixed", "must"),
}
"""The values of each attribute with a fixed set of values, in ascending order where there is one."""

NEUTRAL: Mapping[str, str] = {"urgency": "normal", "due": "none", "series": "none", "notice": "planned", "hold": "none"}
TAGS = ("start", "min", "by", "who", "size", "topic", "urgency", "due", "place", "series", "notice", "hold")


@dataclass(slots=True)
class Event:
    """One entry of a calendar."""

    id: str
    title: str
    day: int
    """Day of the year; 0 is the first Monday."""
    start: int
    """Minutes after midnight."""
    minutes: int
    topic: str
    by: str
    """Id of the organiser, which may be the user's own."""
    attendees: tuple[str, ...]
    """Ids of everybody else who attends, the organiser included."""
    place: str
    location: str
    template: str
    """Name of the meeting in the schema that it was made from."""
    urgency: str = "normal"
    due: str = "none"
    series: str = "none"
    notice: str = "planned"
    hold: str = "none"
    note: str = ""
    """Text added by a conflict reason."""
    reasons: tuple[str, ...] = ()
    """Conflict reasons that were applied to it."""

    @property
    def end(self) -> int:
        return self.start + self.minutes

    @property
    def shown(self) -> str:
        """The title as shown, with the text of the conflict reason."""
        return f"{self.title} ({self.note})" if self.note else self.title

    @property
    def size(self) -> int:
        return len(self.attendees) + 1


def clock(minute: int) -> str:
    """A minute of the day, such as 09:30."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def tags_of(event: Event, user: str, relations: Mapping[str, str]) -> dict[str, str]:
    """All tags of an event, including neutral ones. `relations` maps people to their relation to the user."""
    present = {relations[person] for person in event.attendees}
    return {
        "start": clock(event.start),
        "min": str(event.minutes),
        "by": "self" if event.by == user else relations[event.by],
        "who": ",".join(name for name in RELATIONS if name in present) or "nobody",
        "size": str(event.size),
        "topic": event.topic,
        "urgency": event.urgency,
        "due": event.due,
        "place": event.place,
        "series": event.series,
        "notice": event.notice,
        "hold": event.hold,
    }


def event_line(letter: str, title: str, tags: Mapping[str, str]) -> str:
    """The line as an agent reads it."""
    shown = " ".join(f"{key}={tags[key]}" for key in TAGS if tags[key] != NEUTRAL.get(key))
    return f"{letter}: {title} | {shown}"


def parse_line(line: str) -> tuple[str, str, dict[str, str]]:
    """Letter, title and all tags of a line that `event_line` made.

    >>> parse_line("B: Tea | start=10:00 min=30 by=peer who=peer size=2 topic=social place=room")[2]["due"]
    'none'
    """
    letter, _, rest = line.partition(": ")
    title, _, shown = rest.rpartition(" | ")
    tags = dict(NEUTRAL)
    for tag in shown.split(" "):
        key, _, value = tag.partition("=")
        tags[key] = value
    return letter, title, {key: tags[key] for key in TAGS}
