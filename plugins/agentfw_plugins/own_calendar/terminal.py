"""The session on a terminal: shows a conflict, the proposal and its reason, and reads the person's answer.

Everything needed for an answer stands above the line where it is given, and nothing else. It goes to stderr; the result
of the session is data and goes to stdout.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..worlds.calendar.event_attributes import NEUTRAL
from .answers import Answer, NotUnderstood, Question, understood
from .occurrences import Occurrence
from .precedents import ALWAYS, SERIES
from .wording import phrase

__all__ = ["Lister", "Terminal", "choose", "described", "span"]

_HELP = """  Enter    take the proposal
  a, b ..  keep that one; words behind it say why:  b she's my boss
  both     keep all of them, and don't ask again
  s        skip: leave all of them as they are, for now
  series   behind a letter or "both": on all dates on which these series clash
  always   the same, also for new events with these titles:  b always: they pay
  move     behind a letter: keep it, and ask to move the other's series
  u        undo your previous answer
  q        stop here; what you answered is written"""
_ALSO = 4
_FAR = {SERIES: ", and on every date like this", ALWAYS: ", and so whenever events with these titles clash"}


class Terminal:
    """Asks a person."""

    is_person = True

    def __init__(self, home: tzinfo, console: Console | None = None) -> None:
        self.home = home
        self.console = console or Console(stderr=True, highlight=False)
        self._is_pipe = not self.console.is_terminal

    def answer(self, question: Question) -> Answer:
        self.show(question)
        letters = f"{question.candidates[0].letter}-{question.candidates[-1].letter}".lower()
        default = f"Enter = {question.proposed}, " if question.proposed else ""
        if sum(each.one.of_series is not None for each in question.candidates) > 1:
            self.console.print(
                '  they clash again: "b series" or "both series" decides all of these dates', style="dim"
            )
        while True:
            text = self._read(f"  keep?  [dim]({default}{letters}, both, s skip, u undo, q stop, ? help)[/dim] ")
            if text is None:
                self.console.print()
                return Answer("", stop=True)
            if text.strip() == "?":
                self.console.print(_HELP, style="dim")
                continue
            try:
                answer = understood(text, question)
            except NotUnderstood as error:
                self.console.print(Text(f"  {error}", style="yellow"))
                continue
            if answer.undo:
                self.console.print("  your previous answer is taken back\n", style="dim")
            return answer

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: str) -> None:
        if not answer.keep:
            stay = "all of them stay, and you aren't asked again" if answer.both else "all of them stay for now"
            self.console.print(f"  {stay}{_FAR.get(answer.scope, '')}\n", style="dim")
            return
        line = Text("  ").append("kept ", style="green").append(question.candidate(answer.keep).title)
        if declined:
            line.append(f"; declined {', '.join(one.entry.title for one in declined)}", style="dim")
        self.console.print(line.append(_FAR.get(answer.scope, ""), style="dim"), soft_wrap=self._is_pipe)
        if learned:
            self.console.print(Text(f"  learned: {learned}", style="cyan"), soft_wrap=self._is_pipe)
        self.console.print()

    def show(self, question: Question) -> None:
        """Print a conflict and its proposal."""
        # The day on which they clash: a leave may have begun long before.
        day = sorted(each.one.start for each in question.candidates)[1].astimezone(self.home)
        self.console.print(
            Text(f"{question.number} of {question.of}   {_day(day)} {day.year}", style="bold"),
        )
        table = Table.grid(padding=(0, 2))
        for column in range(4):
            table.add_column(no_wrap=column < 2)  # a letter and a time stay whole; other lines break between words
        for each in question.candidates:
            is_proposed = each.letter == question.proposed
            style = "bold green" if is_proposed else ""
            table.add_row(
                Text(f"  {'>' if is_proposed else ' '} {each.letter}", style=style),
                Text(span(each.one, self.home, day), style="" if is_proposed else "dim"),
                Text(each.title, style=style),
                Text(described(each.tags), style="dim"),
            )
        self.console.print(table)
        if question.also:
            shown = [_beside(one, self.home) for one in question.also[:_ALSO]]
            more = f" and {len(question.also) - _ALSO} more" if len(question.also) > _ALSO else ""
            self.console.print(Text(f"    that day also: {', '.join(shown)}{more}", style="dim"))
        if question.before is not None:
            kept = f"kept {question.before.title}" if question.before.kept else "left all of them"
            self.console.print(Text(f"  you {kept} before; asked again, because", style="yellow"))
            for words in question.before.changed:
                self.console.print(Text(f"    {words}", style="yellow"), soft_wrap=self._is_pipe)
        if question.proposed:
            reason = f": {question.reason}" if question.reason else ""
            self.console.print(Text("  proposed: keep ").append(question.proposed, style="bold green").append(reason))
        else:
            self.console.print("  nothing is proposed", style="yellow")

    def _read(self, prompt: str) -> str | None:
        """Read a line, or None at end of file. Ctrl-C interrupts at once, which asyncio would delay."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return self.console.input(prompt)
        except EOFError:
            return None
        finally:
            signal.signal(signal.SIGINT, before)


class Lister:
    """`--list`: prints conflicts and proposals on stdout and goes on as if the proposals were taken."""

    is_person = False

    def __init__(self, home: tzinfo, *, silent: bool = False) -> None:
        """`silent` prints nothing, for `--json`."""
        self._terminal = Terminal(home, Console(highlight=False, quiet=silent, soft_wrap=True))

    def answer(self, question: Question) -> Answer:
        self._terminal.show(question)
        self._terminal.console.print()
        return Answer(question.proposed)

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: str) -> None:
        pass


def choose(names: Sequence[str]) -> list[int]:
    """Let a person choose from a list. Returns the places that were chosen."""
    console = Console(stderr=True, highlight=False)
    for number, name in enumerate(names, start=1):
        console.print(Text(f"  {number}  {name}"))
    while True:
        answer = console.input("  which calendars?  [dim](Enter = all, or numbers such as 1 3)[/dim] ")
        numbers = answer.replace(",", " ").split()
        if all(number.isdecimal() and 1 <= int(number) <= len(names) for number in numbers):
            return sorted({int(number) - 1 for number in numbers}) or list(range(len(names)))
        console.print(f"  pass numbers from 1 to {len(names)}", style="yellow")


def span(one: Occurrence, home: tzinfo, day: datetime) -> str:
    """Start and end in the person's zone, with the date where it isn't this day."""
    start, end = one.start.astimezone(home), one.end.astimezone(home)
    if one.entry.all_day:
        last = end - timedelta(days=1)
        return "all day" if last <= start else f"{_day(start)} to {_day(last)}"
    days = f" +{(end.date() - start.date()).days}" if end.date() != start.date() else ""
    date = f"{_day(start)}, " if start.date() != day.date() else ""
    return f"{date}{start:%H:%M} - {end:%H:%M}{days}"


def _beside(one: Occurrence, home: tzinfo) -> str:
    if one.entry.all_day or one.end - one.start >= timedelta(hours=12):
        return one.entry.title
    return f"{one.start.astimezone(home):%H:%M} {one.entry.title}"


def _day(moment: datetime) -> str:
    return f"{moment:%a} {moment.day} {moment:%B}"


def described(tags: dict[str, str]) -> str:
    """The notable attributes of an event in a few words."""
    words = []
    if tags["by"] != "self":
        words.append(phrase(f"by={tags['by']}"))
    words += [phrase(f"who={who}") for who in tags["who"].split(",") if who not in ("nobody", "peer", tags["by"])]
    if tags["size"] != "1":  # of what somebody noted for themselves, the file doesn't say who comes
        words.append(f"{tags['size']} people")
    is_said = tags["topic"] == "personal" and not {"family", "doctor"}.isdisjoint(tags["who"].split(","))
    if tags["topic"] != "delivery" and not is_said:
        words.append(phrase(f"topic={tags['topic']}"))
    words += [phrase(f"{tag}={tags[tag]}") for tag in NEUTRAL if tags[tag] != NEUTRAL[tag]]
    if tags["place"] != "room":
        words.append(phrase(f"place={tags['place']}"))
    return ", ".join(words)
