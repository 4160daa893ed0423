"""The session on a terminal: shows a conflict, the proposal and its reason, and reads the person's answer.

Everything needed for an answer stands above the line where it is given, and nothing else. It goes to stderr; the result
of the session is data and goes to stdout.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from textwrap import indent

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .answers import Answer, NotUnderstood, Question, understood
from .occurrences import Occurrence
from .precedents import ALWAYS, SERIES
from .texts import Texts
from .wording import described, weights_in_words

__all__ = ["Lister", "Terminal", "choose", "span"]

_ALSO = 4
_FAR = {SERIES: "far_series", ALWAYS: "far_always"}


class Terminal:
    """Asks a person."""

    is_person = True

    def __init__(self, home: tzinfo, texts: Texts, console: Console | None = None) -> None:
        self.home, self.texts = home, texts
        self.console = console or Console(stderr=True, highlight=False)
        self._is_pipe = not self.console.is_terminal

    def answer(self, question: Question) -> Answer:
        self.show(question)
        texts = self.texts
        letters = f"{question.candidates[0].letter}-{question.candidates[-1].letter}".lower()
        default = texts("prompt_default", letter=question.proposed) if question.proposed else ""
        if sum(each.one.of_series is not None for each in question.candidates) > 1:
            self.console.print(f"  {texts('clash_again')}", style="dim")
        prompt = f"  {texts('prompt')}  [dim]{texts('prompt_answers', default=default, letters=letters)}[/dim] "
        while True:
            text = self._read(prompt)
            if text is None:
                self.console.print()
                return Answer("", stop=True)
            if text.strip() == "?":
                self.console.print(indent(texts("help"), "  "), style="dim")
                continue
            try:
                answer = understood(text, question)
            except NotUnderstood as error:
                self.console.print(Text(f"  {texts.say(error.said)}", style="yellow"))
                continue
            if answer.undo:
                self.console.print(f"  {texts('taken_back')}\n", style="dim")
            return answer

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        texts = self.texts
        far = texts(_FAR[answer.scope]) if answer.scope else ""
        if not answer.keep:
            stay = texts("all_stay" if answer.both else "all_stay_for_now")
            self.console.print(f"  {stay}{far}\n", style="dim")
            return
        line = Text("  ").append(texts("kept", title=question.candidate(answer.keep).title), style="green")
        if declined:
            titles = ", ".join(one.entry.title for one in declined)
            line.append(f"{texts('semicolon')}{texts('declined', titles=titles)}", style="dim")
        self.console.print(line.append(far, style="dim"), soft_wrap=self._is_pipe)
        if learned:
            what = texts("learned", what=weights_in_words(learned, texts))
            self.console.print(Text(f"  {what}", style="cyan"), soft_wrap=self._is_pipe)
        self.console.print()

    def show(self, question: Question) -> None:
        """Print a conflict and its proposal."""
        # The day on which they clash: a leave may have begun long before.
        texts, day = self.texts, sorted(each.one.start for each in question.candidates)[1].astimezone(self.home)
        number = texts("number", number=question.number, of=question.of)
        self.console.print(Text(f"{number}   {texts.date('day_and_year', day)}", style="bold"))
        table = Table.grid(padding=(0, 2))
        for column in range(4):
            table.add_column(no_wrap=column < 2)  # a letter and a time stay whole; other lines break between words
        for each in question.candidates:
            is_proposed = each.letter == question.proposed
            style = "bold green" if is_proposed else ""
            table.add_row(
                Text(f"  {'>' if is_proposed else ' '} {each.letter}", style=style),
                Text(span(each.one, self.home, day, texts), style="" if is_proposed else "dim"),
                Text(each.title, style=style),
                Text(described(each.tags, texts), style="dim"),
            )
        self.console.print(table)
        if question.also:
            shown = ", ".join(_beside(one, self.home) for one in question.also[:_ALSO])
            more = len(question.also) - _ALSO
            also = texts("that_day_and_more", events=shown, count=more) if more > 0 else texts("that_day", events=shown)
            self.console.print(Text(f"    {also}", style="dim"))
        if (before := question.before) is not None:
            asked_again = texts("kept_before", title=before.title) if before.kept else texts("left_before")
            self.console.print(Text(f"  {asked_again}", style="yellow"))
            for change in before.changed:
                self.console.print(Text(f"    {texts.say(change)}", style="yellow"), soft_wrap=self._is_pipe)
        if question.proposed:
            reason = question.because(texts)
            proposed = Text("  ").append(texts("proposed", letter=question.proposed), style="green")
            self.console.print(proposed.append(f"{texts('colon')}{reason}" if reason else ""))
        else:
            self.console.print(f"  {texts('nothing_proposed')}", style="yellow")

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

    def __init__(self, home: tzinfo, texts: Texts, *, silent: bool = False) -> None:
        """`silent` prints nothing, for `--json`."""
        self._terminal = Terminal(home, texts, Console(highlight=False, quiet=silent, soft_wrap=True))

    def answer(self, question: Question) -> Answer:
        self._terminal.show(question)
        self._terminal.console.print()
        return Answer(question.proposed)

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        pass


def choose(names: Sequence[str], texts: Texts) -> list[int]:
    """Let a person choose from a list. Returns the places that were chosen."""
    console = Console(stderr=True, highlight=False)
    for number, name in enumerate(names, start=1):
        console.print(Text(f"  {number}  {name}"))
    while True:
        answer = console.input(f"  {texts('which_calendars')}  [dim]{texts('which_answers')}[/dim] ")
        numbers = answer.replace(",", " ").split()
        if all(number.isdecimal() and 1 <= int(number) <= len(names) for number in numbers):
            return sorted({int(number) - 1 for number in numbers}) or list(range(len(names)))
        console.print(f"  {texts('pass_numbers', count=len(names))}", style="yellow")


def span(one: Occurrence, home: tzinfo, day: datetime, texts: Texts) -> str:
    """Start and end in the person's zone, with the date where it isn't this day."""
    start, end = one.start.astimezone(home), one.end.astimezone(home)
    if one.entry.all_day:
        last = end - timedelta(days=1)
        if last <= start:
            return texts("all_day")
        return texts("from_to", first=texts.date("day", start), last=texts.date("day", last))
    days = f" +{(end.date() - start.date()).days}" if end.date() != start.date() else ""
    date = f"{texts.date('day', start)}, " if start.date() != day.date() else ""
    return f"{date}{start:%H:%M} - {end:%H:%M}{days}"


def _beside(one: Occurrence, home: tzinfo) -> str:
    if one.entry.all_day or one.end - one.start >= timedelta(hours=12):
        return one.entry.title
    return f"{one.start.astimezone(home):%H:%M} {one.entry.title}"
