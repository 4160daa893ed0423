"""The session on a terminal: shows a conflict, the proposal and its reason, and reads the person's answer.

Everything needed for an answer stands above the line where it is given, and nothing else. It goes to stderr; the result
of the session is data and goes to stdout.
"""

from __future__ import annotations

import signal
from datetime import datetime, timedelta, tzinfo

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..worlds.calendar.attribute_words import in_words
from ..worlds.calendar.event_attributes import NEUTRAL
from .answers import Answer, NotUnderstood, Question, understood
from .occurrences import Occurrence

__all__ = ["Lister", "Terminal", "span"]

_HELP = """  Enter    take the proposal
  a, b ..  keep that one; words behind it say why, and are learned from: b she's my boss
  s        leave all of them as they are
  u        undo your previous answer
  q        stop here; what you answered is written"""
_ALSO = 4


class Terminal:
    """Asks a person."""

    is_person = True

    def __init__(self, home: tzinfo, console: Console | None = None) -> None:
        self.home = home
        self.console = console or Console(stderr=True, highlight=False)

    def answer(self, question: Question) -> Answer:
        self.show(question)
        letters = f"{question.candidates[0].letter}-{question.candidates[-1].letter}".lower()
        default = f"Enter = {question.proposed}, " if question.proposed else ""
        while True:
            text = self._read(f"  keep?  [dim]({default}{letters}, s leave all, u undo, q stop, ? help)[/dim] ")
            if text is None:
                self.console.print()
                return Answer("", stop=True)
            if text.strip() == "?":
                self.console.print(_HELP, style="dim")
                continue
            try:
                return understood(text, question)
            except NotUnderstood as error:
                self.console.print(Text(f"  {error}", style="yellow"))

    def told(self, question: Question, answer: Answer, learned: str) -> None:
        if not answer.keep:
            self.console.print("  all of them stay\n", style="dim")
            return
        others = ", ".join(each.title for each in question.candidates if each.letter != answer.keep)
        line = Text("  ").append("kept ", style="green").append(question.candidate(answer.keep).title)
        self.console.print(line.append(f"; declined {others}", style="dim"), soft_wrap=True)
        if learned:
            self.console.print(Text(f"  learned: {learned}", style="cyan"), soft_wrap=True)
        self.console.print()

    def show(self, question: Question) -> None:
        """Print a conflict and its proposal."""
        first = min(each.one.start for each in question.candidates).astimezone(self.home)
        self.console.print(Text(f"{question.number} of {question.of}   {_day(first)}", style="bold"))
        table = Table.grid(padding=(0, 2))
        for _ in range(4):
            table.add_column(overflow="fold")
        for each in question.candidates:
            is_proposed = each.letter == question.proposed
            style = "bold green" if is_proposed else ""
            table.add_row(
                Text(f"  {'>' if is_proposed else ' '} {each.letter}", style=style),
                Text(span(each.one, self.home), style="" if is_proposed else "dim"),
                Text(each.title, style=style),
                Text(_known(each.tags), style="dim"),
            )
        self.console.print(table)
        if question.also:
            shown = [_beside(one, self.home) for one in question.also[:_ALSO]]
            more = f" and {len(question.also) - _ALSO} more" if len(question.also) > _ALSO else ""
            self.console.print(Text(f"    that day also: {', '.join(shown)}{more}", style="dim"))
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

    def told(self, question: Question, answer: Answer, learned: str) -> None:
        pass


def span(one: Occurrence, home: tzinfo) -> str:
    """Start and end in the person's zone."""
    start, end = one.start.astimezone(home), one.end.astimezone(home)
    days = f" +{(end.date() - start.date()).days}" if end.date() != start.date() else ""
    return f"{start:%H:%M} - {end:%H:%M}{days}"


def _beside(one: Occurrence, home: tzinfo) -> str:
    if one.entry.all_day or one.end - one.start >= timedelta(hours=12):
        return one.entry.title
    return f"{one.start.astimezone(home):%H:%M} {one.entry.title}"


def _day(moment: datetime) -> str:
    return f"{moment:%a} {moment.day} {moment:%B %Y}"


def _known(tags: dict[str, str]) -> str:
    """The notable attributes of an event in a few words."""
    words = []
    if tags["by"] != "self":
        words.append(in_words(f"by={tags['by']}"))
    words += [in_words(f"who={who}") for who in tags["who"].split(",") if who not in ("nobody", "peer", tags["by"])]
    words.append(f"{tags['size']} people" if tags["size"] != "1" else "alone")
    if tags["topic"] != "delivery":
        words.append(in_words(f"topic={tags['topic']}"))
    words += [in_words(f"{tag}={tags[tag]}") for tag in NEUTRAL if tags[tag] != NEUTRAL[tag]]
    if tags["place"] != "room":
        words.append(in_words(f"place={tags['place']}"))
    return ", ".join(words)
