"""A plain assistant: it weighs new mails, and does what the triage says of each, the first due first.

The one rule: it goes by what it has heard, never by what it has said. An answer that was broken off has done nothing,
and a mail that was taken care of otherwise is not taken up again.

    >>> from agentfw.episode import Observation
    >>> triage = Triage(handling=1.0)
    >>> triage.answer(Moment(0, (Observation(0, "document", {"sections": 4}),)))
    [Intervention(name='write', arguments={}, id='')]
    >>> [one.name for one in triage.answer(Moment(3, (Observation(3, "mail", {"message": 0}),)))]
    ['triage']
"""

from __future__ import annotations

from agentfw.agent import Moment
from agentfw.episode import Intervention, Observation
from agentfw.timeline import Time

__all__ = ["Triage"]


class Triage:
    """What it knows of the day, and what it does next."""

    def __init__(self, handling: Time) -> None:
        self._handling = handling
        """How long it takes to handle a mail: what is due sooner is not begun."""
        self._sections = 0
        """How many are still to be written."""
        self._new = False
        self._wanted: dict[int, str] = {}
        """What is to be done about each mail that was weighed."""
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
        """Which mail to turn to."""
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
"""What a mail needs after it was read, brought to mind, or put off."""
