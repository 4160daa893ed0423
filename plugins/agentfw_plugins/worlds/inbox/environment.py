"""The environment `inbox`: mails arrive while a document is being written, and everything takes time.

Writing can be put aside without loss: what is written stays, and writing continues from there. So an agent only loses
by learning of something too late, which is where the interfaces differ.

    agentfw run inbox
    agentfw run inbox --interface step_loop --set environment.single=true

After the digital assistant of the engagement-process paper (section 5.2.1, appendix D), with documents and mails of
ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Observation, Task, World, action
from agentfw.errors import InterventionRefused
from agentfw.timeline import Time, Work

from .mails import (
    DOCUMENT,
    FINISHED,
    HANDLED,
    INTERRUPTION,
    MISSED,
    SWITCH,
    Arrivals,
    InboxSettings,
    Mail,
    balanced,
    in_time,
    read_documents,
)


class Inbox(Environment):
    """You are an assistant at a desk. You write a document, section by section, and mails arrive meanwhile.

    Every mail has an urgency and a time at which it is due. Handle as many as you can in time, the urgent ones first,
    and get the document done. Whatever you do takes time, and time goes on while you do it. You do one thing at a time:
    turning to a mail puts the writing aside, and what you ask for while you are at a mail comes after it.
    """

    headline = "balanced"
    meanings = {  # noqa: RUF012 - as the base class has it
        "balanced": "0.6 of document and 0.4 of mails, less half of their difference",
        "document": "share that is written",
        "mails": "share handled in time, the urgent ones weighing more",
        "missed": "share of mails that were due before they were handled",
        "latency": "how long a mail waited",
        "interruptions": "how often the writing was put aside",
    }

    def __init__(self, settings: InboxSettings | None = None) -> None:
        self.settings = settings or InboxSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        documents = read_documents()
        document = documents[task.seed % len(documents)]
        self._document = document.in_one_go() if self.settings.single else document
        self._arrivals = Arrivals(self.settings, world.seeds)
        self._triage = Triage(self.settings.durations.handle_email)
        self._mails: list[Mail] = []
        self._section: Work | None = None
        self._written = 0
        self._at_mails = False
        self._hand: Work | None = None
        self._next: deque[Callable[[], None]] = deque()
        self._switches = self._interruptions = 0
        sections = self._document.sections
        headings = ", ".join(section.heading for section in sections)
        text = f"the document: {document.title}. {document.asks} Sections: {headings}"
        world.observe("document", {"title": document.title, "sections": len(sections)}, text=text)
        world.at(self.settings.horizon, self._close)
        self._expect_mail()

    def time_per_token(self) -> float:
        return self.settings.time_per_token

    # -- what the agent can do -----------------------------------------------------------------------------------------

    @action
    def write(self) -> None:
        """Go on writing the document, where you left off, to the end of the section."""
        if self._finished:
            raise InterventionRefused("the document is finished")
        if self._hand is None:
            self._turn_back()
        else:
            self._next.append(self._turn_back)

    @action
    def check_inbox(self) -> None:
        """See which mails wait, and when each is due."""

        def show() -> None:
            mails = [mail for mail in self._mails if mail.waits]
            lines = [f"\n  mail {mail}, due at {mail.due:.2f}" for mail in mails]
            entries = {"mails": [mail.entry() for mail in mails]}
            self.world.observe("inbox", entries, text=f"inbox: {len(mails)} waiting" + "".join(lines))

        self._turn_to("check_inbox", self.settings.durations.check_inbox, show)

    @action
    def triage(self) -> None:
        """Weigh the mails that have come since you last did: for each, what is best done about it, and by when."""

        def show() -> None:
            mails = [mail for mail in self._mails if mail.waits and not mail.weighed]
            advice, lines = [], [f"weighed: {len(mails)}"]
            for mail in mails:
                mail.weighed = True
                chances = mail.scenario.advice
                advice.append({**mail.entry(), "advice": mail.advice, "chances": dict(chances)})
                share = ", ".join(f"{name} {chance:.0%}" for name, chance in chances.items())
                lines.append(f"  mail {mail}, due at {mail.due:.2f}: {mail.advice} ({share})")
            self.world.observe("triage", {"mails": advice}, text="\n".join(lines))

        self._turn_to("triage", self.settings.durations.triage, show)

    @action
    def open_message(self, message: int) -> None:
        """Read one mail."""
        mail = self._mail(message)

        def show() -> None:
            data = {**mail.entry(), "body": mail.scenario.body}
            self.world.observe("message", data, text=f"mail {mail}, due at {mail.due:.2f}\n  {mail.scenario.body}")

        self._turn_to("open_message", self.settings.durations.open_message, show, mail)

    @action
    def handle_email(self, message: int) -> None:
        """Do what a mail asks for and answer it."""
        mail = self._mail(message)
        if not mail.waits:
            why = "was due before" if mail.missed else "is taken care of already"
            raise InterventionRefused(f"mail {message} {why}")
        mail.taken = True

        def handled() -> None:
            mail.handled = True
            self.world.utility(HANDLED, "mail handled")
            self.world.observe("handled", {"message": mail.number})

        self._turn_to("handle_email", self.settings.durations.handle_email, handled, mail, handles=True)

    @action
    def set_reminder(self, message: int, after: Annotated[float, Field(gt=0)]) -> None:
        """Be reminded of a mail after some time.

        after: in how long
        """
        mail = self._mail(message)
        if after > self.settings.horizon:
            raise InterventionRefused(f"a reminder after {after} makes no sense; the day has {self.settings.horizon:g}")

        def remind() -> None:
            if mail.waits:
                self.world.observe("reminder", mail.entry(), text=f"reminder of mail {mail}, due at {mail.due:.2f}")

        def put_off() -> None:
            self.world.observe("reminder_set", {"message": mail.number, "at": round(self.world.now + after, 2)})
            self.world.after(after, remind)

        self._turn_to("set_reminder", self.settings.durations.set_reminder, put_off)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _expect_mail(self) -> None:
        def arrive() -> None:
            mail = self._arrivals.mail(len(self._mails), self.world.now)
            self._mails.append(mail)
            # In two steps, so that what is finished at its due time is in time.
            self.world.at(mail.due, lambda: self.world.after(0, lambda: self._due(mail)))
            self.world.observe("mail", mail.headline(), text=f"new mail {mail}")
            self._expect_mail()

        if self.settings.rate > 0:
            self.world.after(self._arrivals.gap(), arrive)

    def _due(self, mail: Mail) -> None:
        if mail.handled:
            return
        mail.missed = True
        # Without the mails that were never reached, the slowest assistant would look quick.
        self._waited(mail)
        if mail.handling is not None:
            mail.handling.cancel()
            self._go_on()
        self.world.utility(MISSED, "mail missed")
        self.world.observe("missed", {"message": mail.number})

    def _section_written(self, work: Work) -> None:
        section, count = self._document.sections[self._written], len(self._document.sections)
        self._section = None
        self._written += 1
        self.world.utility(DOCUMENT / count, "section written")
        if self._finished:
            self.world.utility(FINISHED, "document finished")
        left = count - self._written
        text = f"written: {section.heading}; {left} of {count} sections to go\n  {section.text}"
        self.world.observe("section", {"heading": section.heading, "sections": left}, text=text)

    # -- one thing at a time -------------------------------------------------------------------------------------------

    def _turn_back(self) -> None:
        """Return to the document, which takes a moment after a mail."""

        def write() -> None:
            if self._section is not None:
                self._section.resume()
            elif not self._finished:
                length = self._document.sections[self._written].tokens * self.settings.time_per_token
                self._section = self.world.work("write", length, self._section_written)

        if not self._at_mails:
            write()
            return
        self._at_mails = False
        self._switches += 1
        self._take_up("turning_back", self.settings.durations.turning_back, write)

    def _turn_to(
        self, name: str, takes: Time, done: Callable[[], object], mail: Mail | None = None, *, handles: bool = False
    ) -> None:
        """Do something with the mails. It interrupts writing but waits for anything else in hand."""

        def begin() -> None:
            if mail is not None and mail.missed:
                return
            self._switches += not self._at_mails
            self._at_mails = True
            if self._section is not None and self._section.running:
                self._interruptions += 1
                self._section.interrupt()
            self._take_up(name, takes, done)
            if mail is not None:
                self._waited(mail)
                if handles:
                    mail.handling = self._hand

        if self._hand is None:
            begin()
        else:
            self._next.append(begin)

    def _take_up(self, name: str, takes: Time, done: Callable[[], object]) -> None:
        def finish(work: Work) -> None:
            done()
            self._go_on()

        self._hand = self.world.work(name, takes, finish)

    def _go_on(self) -> None:
        """Continue with what was requested in the meantime."""
        self._hand = None
        while self._next and self._hand is None:
            self._next.popleft()()

    def _waited(self, mail: Mail) -> None:
        """Reading or handling a mail counts as a response; being notified, triage and reminders don't."""
        if mail.waited is None:
            mail.waited = self.world.now - mail.arrived
            self.world.measure("latency", mail.waited)

    def _mail(self, number: int) -> Mail:
        if not 0 <= number < len(self._mails):
            raise InterventionRefused(f"there is no mail {number}; {len(self._mails)} have come so far")
        return self._mails[number]

    @property
    def _finished(self) -> bool:
        return self._written >= len(self._document.sections)

    # -- how it went ---------------------------------------------------------------------------------------------------

    @property
    def _begun(self) -> float:
        """Share of the current section that is written."""
        return 0.0 if self._section is None else self._section.spent / self._section.duration

    def _close(self) -> None:
        if self._begun:
            self.world.utility(DOCUMENT * self._begun / len(self._document.sections), "part of a section")
        self.world.utility(SWITCH * self._switches, "switches")
        self.world.utility(INTERRUPTION * self._interruptions, "interruptions")
        self.world.finish(**self.outcome())

    def outcome(self) -> Mapping[str, float]:
        document = (self._written + self._begun) / len(self._document.sections)
        mails = in_time(self._mails)
        waits = [mail.waited for mail in self._mails if mail.waited is not None]
        return {
            "balanced": balanced(document, mails),
            "document": document,
            "mails": mails,
            "missed": sum(mail.missed for mail in self._mails) / max(1, len(self._mails)),
            **({"latency": sum(waits) / len(waits)} if waits else {}),
            "interruptions": float(self._interruptions),
        }

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """Triage new mails, follow the advice, and write in between."""
        return self._triage.answer(moment)

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        """Handle mails of high urgency at once, whatever else is in progress."""
        if observation.name == "mail" and observation.data["urgency"] == "high":
            return [Intervention("handle_email", {"message": observation.data["message"]})]
        return []


class Triage:
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

    def __init__(self, handling: Time) -> None:
        self._handling = handling  # time to handle a mail; mails due sooner are not begun
        self._sections = 0  # number of sections left to write
        self._new = False
        self._wanted: dict[int, str] = {}  # what to do about each mail after the triage
        self._due: dict[int, float] = {}

    def answer(self, moment: Moment) -> list[Intervention]:
        for observation in moment.observations:
            name, data = observation.name, observation.data
            if name == "mail":
                self._new = True
            elif name == "triage":
                self._new = False
                self._wanted.update((mail["message"], mail["advice"]) for mail in data["mails"])
                self._due.update((mail["message"], mail["due"]) for mail in data["mails"])
            elif name in _WANTED and data["message"] in self._wanted:
                self._wanted[data["message"]] = _WANTED[name]
            elif name in ("handled", "missed"):
                self._wanted.pop(data["message"], None)
            elif name in ("document", "section"):
                self._sections = data["sections"]
        at_work = [work.name for work in moment.in_flight if work.running]
        if any(name != "write" for name in at_work):
            return []
        if self._new:
            return [Intervention("triage")]
        # The next mail to handle.
        ready = [
            (self._due[message], message)
            for message, what in self._wanted.items()
            if what in ("handle", "open", "remind") and self._due[message] >= moment.now + self._handling
        ]
        if not ready:
            return [Intervention("write")] if self._sections and not at_work else []
        due, message = min(ready)
        what, spare = self._wanted[message], due - moment.now - self._handling
        if what == "remind" and spare > 2 * self._handling:
            return [Intervention("set_reminder", {"message": message, "after": round(spare / 2, 2)})]
        return [Intervention("open_message" if what == "open" else "handle_email", {"message": message})]


_WANTED = {"message": "handle", "reminder": "handle", "reminder_set": "wait"}
"""What a mail needs after it was read, reminded of, or put off."""
