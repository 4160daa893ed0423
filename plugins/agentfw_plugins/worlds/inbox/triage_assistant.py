"""The assistant of the demonstration: it triages new mails and follows the advice, earliest due time first.

It acts on what it has observed, never on what it has said: an interrupted answer had no effect, and a mail that is
settled isn't taken up again.

    >>> from agentfw.episode import Observation
    >>> triage = Triage(handling=1.0)
    >>> triage.answer(Moment(0, (Observation(0, "document", {"sections": 4}),)))
    [Intervention(name='write', arguments={}, id='')]
    >>> [one.name for one in triage.answer(Moment(3, (Observation(3, "mail", {"message": 0}),)))]
    ['triage']
"""

from __future__ import annotations

from agentfw import Intervention, Moment, Observation
from agentfw.timeline import Time

__all__ = ["Triage"]


class Triage:
    """Tracks the day from observations and decides what to do next."""

    def __init__(self, handling: Time) -> None:
        self._handling = handling
        """Time to handle a mail; mails due sooner are not begun."""
        self._sections = 0
        """Number of sections left to write."""
        self._new = False
        self._wanted: dict[int, str] = {}
        """What to do about each mail after the triage."""
        self._due: dict[int, float] = {}

    def answer(self, moment: Moment) -> list[Intervention]:
        for observation in moment.observations:
            self._hear(observation)
        at_work = [work.name for work in moment.in_flight if work.running]
        if any(name != "write" for name in at_work):
            return []
        if self._new:
            return [Intervention("triage")]
        if (first := self._first(moment.now)) is not None:
            return [self._act(first, moment.now)]
        return [Intervention("write")] if self._sections and not at_work else []

    def _hear(self, observation: Observation) -> None:
        name, data = observation.name, observation.data
        if name == "mail":
            self._new = True
        elif name == "triage":
            self._new = False
            for mail in data["mails"]:
                self._wanted[mail["message"]] = mail["advice"]
                self._due[mail["message"]] = mail["due"]
        elif name in _WANTED:
            if data["message"] in self._wanted:
                self._wanted[data["message"]] = _WANTED[name]
        elif name in ("handled", "missed"):
            self._wanted.pop(data["message"], None)
        elif name in ("document", "section"):
            self._sections = data["sections"]

    def _first(self, now: Time) -> int | None:
        """The next mail to handle."""
        ready = [
            (self._due[message], message)
            for message, what in self._wanted.items()
            if what in ("handle", "open", "remind") and self._due[message] >= now + self._handling
        ]
        return min(ready)[1] if ready else None

    def _act(self, message: int, now: Time) -> Intervention:
        what = self._wanted[message]
        spare = self._due[message] - now - self._handling
        if what == "remind" and spare > 2 * self._handling:
            return Intervention("set_reminder", {"message": message, "after": round(spare / 2, 2)})
        return Intervention("open_message" if what == "open" else "handle_email", {"message": message})


_WANTED = {"message": "handle", "reminder": "handle", "reminder_set": "wait"}
"""What a mail needs after it was read, reminded of, or put off."""
