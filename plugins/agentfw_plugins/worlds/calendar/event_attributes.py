"""The visible attributes of an event, their values, and the line of text that shows them.

Everything that a user's principles depend on is on the line. Events hide nothing; only what the user makes of them is
hidden.

    B: Release review | start=10:15 min=60 by=report who=superior,report size=5 topic=delivery due=today place=room

After the title come tags in this order. The first six and `place` are always there, the others only where their value
isn't the neutral one:

    start    HH:MM                          topic    delivery steering people learning outreach admin social personal
    min      15..240, minutes               urgency  low high                  (neutral: normal)
    by       self or a relation             due      today week                (neutral: none)
    who      relations, or nobody           place    room video phone onsite   (onsite: in person, elsewhere)
    size     people, the user included      series   weekly biweekly monthly   (neutral: none)
                                            notice   today week                (neutral: planned)
                                            hold     fixed must optional       (neutral: none)

The same attributes are phrases, and simple rules rank events by them without knowing the user. Ties go to the event
that is shown first.

    >>> in_words("due=today"), in_words("who=client")
    ('due today', 'a client comes')
    >>> RULES["earliest"]([{"letter": "A", "start": "10:15"}, {"letter": "B", "start": "10:00"}])
    ['B', 'A']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "CHOICES",
    "LETTERS",
    "NEUTRAL",
    "OUTSIDE",
    "PRIVATE",
    "RELATIONS",
    "RULES",
    "TAGS",
    "Event",
    "Rule",
    "clock",
    "event_line",
    "in_words",
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


_SOMEBODY = {"superior": "a superior", "report": "somebody of the own team", "peer": "a colleague"}
_SOMEBODY |= {relation: f"a {relation}" for relation in RELATIONS if relation not in _SOMEBODY}

_WORDS: Mapping[str, str] = {
    "by=self": "called by oneself",
    **{f"by={relation}": f"called by {somebody}" for relation, somebody in _SOMEBODY.items()},
    **{f"who={relation}": f"{somebody} comes" for relation, somebody in _SOMEBODY.items()},
    "who=family": "family",
    "who=friend": "with friends",
    "who=doctor": "about health",
    "by=family": "called by family",
    "by=friend": "called by a friend",
    "by=doctor": "called by a doctor",
    "size=1": "alone",
    "size=2": "just two people",
    "size=3-4": "three or four people",
    "size=5-7": "five to seven people",
    "size=8+": "eight and more people",
    "min=-30": "half an hour at most",
    "min=45-75": "about an hour",
    "min=90+": "ninety minutes and more",
    "topic=delivery": "the work itself",
    "topic=people": "about people",
    "urgency=low": "not urgent",
    "urgency=high": "urgent",
    "due=week": "due this week",
    "due=today": "due today",
    "place=room": "in a room",
    "place=video": "by video",
    "place=phone": "by phone",
    "place=onsite": "somewhere else",
    "series=any": "part of a series",
    "notice=week": "called this week",
    "notice=today": "called today",
    "hold=optional": "optional",
    "hold=fixed": "can't be moved",
    "hold=must": "must be attended",
}


def in_words(feature: str) -> str:
    """A feature of `choice_model.FEATURES` as a phrase."""
    return _WORDS.get(feature) or feature.partition("=")[2]


Shown = Sequence[Mapping[str, str]]
Rule = Callable[[Shown], list[str]]

_SENIORITY = ("nobody", "vendor", "partner", "report", "peer", "client", "superior")


def _by(key: Callable[[Mapping[str, str]], object]) -> Rule:
    """Rank by value, in descending order."""

    def rule(events: Shown) -> list[str]:
        # sorted is stable, also in reverse, so among equals the first stays first.
        return [event["letter"] for event in sorted(events, key=key, reverse=True)]  # type: ignore[arg-type]

    return rule


def _seniority(event: Mapping[str, str]) -> tuple[int, int]:
    ranks = [_SENIORITY.index(relation) for relation in event["who"].split(",")]
    return max(ranks), _SENIORITY.index(event["by"]) if event["by"] in _SENIORITY else 0


RULES: dict[str, Rule] = {
    "earliest": _by(lambda event: [-int(part) for part in event["start"].split(":")]),
    "most_attendees": _by(lambda event: int(event["size"])),
    "most_urgent": _by(lambda event: [CHOICES[tag].index(event[tag]) for tag in ("urgency", "due", "notice")]),
    "most_senior": _by(_seniority),
    "regular_first": _by(lambda event: event["series"] != "none"),
    "first_shown": lambda events: [event["letter"] for event in events],
}
