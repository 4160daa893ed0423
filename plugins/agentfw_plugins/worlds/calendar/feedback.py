"""What a user says after a decision: the event they keep, and a reason in their own words.

The reason names one thing that really spoke for the kept event and its direction, never how much, and never everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .rounds import Round
from .users import Appraisal, User

__all__ = ["Feedback", "feedback_on"]

_RIGHT = (
    "Yes, that one.",
    "Right.",
    "Exactly.",
    "Good, I'd have done the same.",
    "Thanks, just so.",
    "That's the one.",
)
_WRONG = ("No, not that one.", "I'd have kept another.", "Sorry, no.", "That wasn't it.", "Not this time.", "No.")
_NONE = ("I had to sort it out myself.", "You left me with all of them.", "Nobody decided, so I did.")


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback on one round."""

    principle: str
    """Name of the principle that the words are about."""
    valued: bool
    """True if the kept event has something the user values, False if the other has something they dislike."""
    said: str


def feedback_on(shown: Round, chosen: int | None, user: User, generator: Random) -> Feedback:
    """The user's feedback on a choice; `chosen` is None if there was no valid one."""
    other = _rival(shown, user) if chosen is None or chosen == shown.accepted else chosen
    differences: dict[str, int] = {}
    for name, weight in user.weights.items():
        principle = user.principles[name]
        change = principle.triggers(shown.tags[shown.accepted]) - principle.triggers(shown.tags[other])
        if weight * change > 0:
            differences[name] = weight
    # There always is one, because the kept event is worth more than any other.
    (name,) = generator.choices(list(differences), [abs(weight) for weight in differences.values()])
    valued = differences[name] > 0
    principle = user.principles[name]
    words = generator.choice(principle.praise if valued else principle.complaint)
    openings = _NONE if chosen is None else _RIGHT if chosen == shown.accepted else _WRONG
    return Feedback(name, valued, f"{generator.choice(openings)} {words[0].upper()}{words[1:]}.")


def _rival(shown: Round, user: User) -> int:
    """The best of the events that aren't kept."""
    values = list(map(Appraisal(user).value, shown.tags))
    others = [place for place in range(len(values)) if place != shown.accepted]
    return max(others, key=values.__getitem__)
