"""A small inbox on the timeline: mails arrive while the agent is writing something else.

The one rule: writing takes time and can be put aside: what is written stays, and goes on where it was. So what an agent
loses is only what it learns of too late; that is what the four interfaces differ in.

    agentfw run inbox
    agentfw run inbox --interface step_loop

Figures after the digital assistant of the engagement-process paper (its tables 17 and 19): mails arrive at a rate of
0.2, are of high, medium or low urgency (0.4, 0.4, 0.2), and each must be handled within its slack; writing takes 0.05 a
token. The balanced score is w M + (1-w) E - g |M-E| with M the share of the document written and E the share of mails
handled in time, weighted by urgency.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pydantic import Field

from agentfw import Settings
from agentfw.agent import Moment
from agentfw.environment import Environment, World, action
from agentfw.episode import Intervention, Observation, Task
from agentfw.errors import InterventionRefused
from agentfw.timeline import Time, Work

__all__ = ["Inbox", "InboxSettings"]

_WEIGHTS = {"high": 1.2, "medium": 0.5, "low": 0.1}
_SLACK = {"high": (5.0, 15.0), "medium": (15.0, 25.0), "low": (25.0, 35.0)}


class InboxSettings(Settings):
    horizon: float = Field(90.0, gt=0, description="How long an episode lasts.")
    rate: float = Field(0.2, ge=0, description="How many mails arrive in one unit of time, on average.")
    high: float = Field(0.4, ge=0, le=1, description="The share of mails of high urgency.")
    medium: float = Field(0.4, ge=0, le=1, description="The share of mails of medium urgency; the rest is low.")
    time_per_token: float = Field(0.05, gt=0, description="How long it takes to write one token of the document.")
    single: bool = Field(False, description="Write the document in one go instead of section by section.")


@dataclass(slots=True)
class _Mail:
    number: int
    subject: str
    sender: str
    urgency: str
    deadline: Time
    arrived: Time
    taken: bool = False
    handled: bool = False
    missed: bool = False
    handling: Work | None = field(default=None, repr=False)


class Inbox(Environment):
    """You are an assistant at a desk. You write a document, section by section, and mails arrive meanwhile.

    Every mail has an urgency and a deadline. Handle as many as you can in time, the urgent ones first, and get the
    document done. Whatever you do takes time, and time goes on while you do it. You do one thing at a time: turning to
    a mail puts the writing aside, and what you ask for while you are at a mail comes after it.
    """

    headline = "balanced"

    def __init__(self, settings: InboxSettings | None = None) -> None:
        self.settings = settings or InboxSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        library = _library()
        self._arrivals, self._contents = world.random("arrivals"), world.random("contents")
        document = library["documents"][task.seed % len(library["documents"])]
        lengths = [int(section["tokens"]) for section in document["sections"]]
        self._sections = [sum(lengths)] if self.settings.single else lengths
        self._scenarios: list[dict[str, str]] = library["mails"]
        self._mails: list[_Mail] = []
        self._unseen: list[_Mail] = []
        self._section: Work | None = None
        self._written = 0
        self._at_mails = False
        self._hand: Work | None = None
        self._next: deque[Callable[[], None]] = deque()
        self._switches = self._interruptions = 0
        self._todo: list[tuple[float, int]] = []
        self._left = -1
        world.observe("document", {"title": document["title"], "sections": len(self._sections)})
        world.at(self.settings.horizon, self._close)
        self._expect_mail()

    # -- what the agent can do -----------------------------------------------------------------------------------------

    @action
    def write(self) -> None:
        """Go on writing the document, where you left off, to the end of the section."""
        if self._done:
            raise InterventionRefused("the document is finished")
        if self._hand is None:
            self._write()
        else:
            self._next.append(self._write)

    @action
    def check_inbox(self) -> None:
        """See which mails have come: sender, subject, urgency and deadline."""
        self._turn_to("check_inbox", 0.1, self._show_inbox)

    @action
    def open_message(self, message: int) -> None:
        """Read one mail."""
        mail = self._mail(message)
        self._turn_to("open_message", 0.1, lambda: self._show(mail))

    @action
    def handle_email(self, message: int) -> None:
        """Do what a mail asks for and answer it."""
        mail = self._mail(message)
        if mail.taken or mail.missed:
            why = "was due before" if mail.missed else "is taken care of already"
            raise InterventionRefused(f"mail {message} {why}")
        mail.taken = True
        self._turn_to("handle_email", 1.0, lambda: self._handled(mail), mail)

    @action
    def set_reminder(self, message: int, after: float) -> None:
        """Be reminded of a mail after some time.

        after: in how long, above zero
        """
        mail = self._mail(message)
        if not 0 < after <= self.settings.horizon:
            raise InterventionRefused(f"a reminder after {after} makes no sense; the day has {self.settings.horizon:g}")
        data = {"message": mail.number, "urgency": mail.urgency, "deadline": round(mail.deadline, 2)}
        remind = lambda: self.world.observe("reminder", data)  # noqa: E731
        self._turn_to("set_reminder", 0.1, lambda: self.world.after(after, remind))

    def time_per_token(self) -> float:
        return self.settings.time_per_token

    # -- what happens --------------------------------------------------------------------------------------------------

    def _expect_mail(self) -> None:
        if self.settings.rate > 0:
            self.world.after(self._arrivals.expovariate(self.settings.rate), self._mail_arrives)

    def _mail_arrives(self) -> None:
        scenario = self._contents.choice(self._scenarios)
        draw = self._contents.random()
        high, medium = self.settings.high, self.settings.medium
        urgency = "high" if draw < high else "medium" if draw < high + medium else "low"
        now = self.world.now
        deadline = now + self._contents.uniform(*_SLACK[urgency])
        mail = _Mail(len(self._mails), scenario["subject"], scenario["sender"], urgency, deadline, now)
        self._mails.append(mail)
        self._unseen.append(mail)
        # In two steps: what is finished at the deadline itself is finished in time.
        self.world.at(deadline, lambda: self.world.after(0, lambda: self._due(mail)))
        self.world.observe("mail", _about(mail))
        self._expect_mail()

    def _due(self, mail: _Mail) -> None:
        if not mail.handled:
            mail.missed = True
            if mail.handling is not None:
                mail.handling.cancel()
                self._go_on()
            self.world.utility(-0.5, "mail missed")
            self.world.observe("missed", {"message": mail.number})

    def _handled(self, mail: _Mail) -> None:
        mail.handled = True
        self.world.utility(0.4, "mail handled")
        self.world.measure("latency", self.world.now - mail.arrived)
        self.world.observe("handled", {"message": mail.number})

    def _section_written(self, work: Work) -> None:
        self._section = None
        self._written += 1
        self.world.utility(1.6 / len(self._sections), "section written")
        if self._done:
            self.world.utility(0.8, "document finished")
        self.world.observe("section", {"number": self._written, "of": len(self._sections)})

    # -- one thing at a time -------------------------------------------------------------------------------------------

    def _write(self) -> None:
        self._focus(mails=False)
        if self._section is not None:
            self._section.resume()
        elif not self._done:
            length = self._sections[self._written] * self.settings.time_per_token
            self._section = self.world.work("write", length, self._section_written)

    def _turn_to(self, name: str, takes: Time, done: Callable[[], object], mail: _Mail | None = None) -> None:
        """Do something with the mails: at once, for it interrupts the writing, but after what else is in hand."""

        def begin() -> None:
            if mail is not None and mail.missed:
                return
            self._focus(mails=True)
            if self._section is not None and self._section.running:
                self._interruptions += 1
                self._section.interrupt()
            self._hand = self.world.work(name, takes, finish)
            if mail is not None:
                mail.handling = self._hand

        def finish(work: Work) -> None:
            done()
            self._go_on()

        if self._hand is None:
            begin()
        else:
            self._next.append(begin)

    def _go_on(self) -> None:
        """With what was asked for meanwhile."""
        self._hand = None
        while self._next and self._hand is None:
            self._next.popleft()()

    def _focus(self, *, mails: bool) -> None:
        self._switches += mails != self._at_mails
        self._at_mails = mails

    def _show_inbox(self) -> None:
        mails, self._unseen = self._unseen, []
        self.world.observe("inbox", {"mails": [_about(mail) for mail in mails]})

    def _show(self, mail: _Mail) -> None:
        body = next(item["body"] for item in self._scenarios if item["subject"] == mail.subject)
        self.world.observe("message", {**_about(mail), "body": body})

    def _mail(self, number: int) -> _Mail:
        if not 0 <= number < len(self._mails):
            raise InterventionRefused(f"there is no mail {number}; {len(self._mails)} have come so far")
        return self._mails[number]

    @property
    def _done(self) -> bool:
        return self._written >= len(self._sections)

    # -- how it went ---------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        self.world.utility(-0.005 * self._switches, "switches")
        self.world.utility(-0.005 * self._interruptions, "interruptions")
        self.world.finish(**self.outcome())

    def outcome(self) -> Mapping[str, float]:
        written = float(self._written)
        if self._section is not None:
            written += self._section.spent / self._section.duration
        document = min(1.0, written / len(self._sections))
        weight = sum(_WEIGHTS[mail.urgency] for mail in self._mails)
        in_time = sum(_WEIGHTS[mail.urgency] for mail in self._mails if mail.handled)
        mails = in_time / weight if weight else 1.0
        return {
            "balanced": 0.6 * document + 0.4 * mails - 0.5 * abs(document - mails),
            "document": document,
            "mails": mails,
            "missed": sum(mail.missed for mail in self._mails) / max(1, len(self._mails)),
            "interruptions": float(self._interruptions),
        }

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """A simple triage: what is urgent first, then the document; what can wait is written down for later."""
        for observation in moment.observations:
            data: Mapping[str, Any] = observation.data
            if observation.name == "document":
                self._left = int(data["sections"])
            elif observation.name == "mail":
                self._todo.append((float(data["deadline"]), int(data["message"])))
            elif observation.name == "section":
                self._left = int(data["of"]) - int(data["number"])
            elif observation.name in ("handled", "missed"):
                self._todo = [entry for entry in self._todo if entry[1] != data["message"]]
        self._todo.sort()
        if any(work.running and work.name == "handle_email" for work in moment.in_flight):
            return []
        reachable = [entry for entry in self._todo if entry[0] > moment.now + 1.0]
        if reachable:
            return [Intervention("handle_email", {"message": reachable[0][1]})]
        if self._left > 0 and not any(work.running for work in moment.in_flight):
            return [Intervention("write")]
        return []

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        """What is of high urgency is handled at once, whatever else is going on."""
        if observation.name == "mail" and observation.data["urgency"] == "high":
            return [Intervention("handle_email", {"message": observation.data["message"]})]
        return []


def _about(mail: _Mail) -> dict[str, Any]:
    return {
        "message": mail.number,
        "from": mail.sender,
        "subject": mail.subject,
        "urgency": mail.urgency,
        "deadline": round(mail.deadline, 2),
    }


def _library() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((files("agentfw_plugins.environments") / "inbox.json").read_text("utf-8"))
    return loaded
