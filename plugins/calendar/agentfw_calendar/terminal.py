"""The session on a terminal: what was found, each conflict with its proposal and the answer to it, and what came of it.

Everything needed for an answer stands above the line where it is given, and nothing else. It goes to stderr; the result
of the session is data and goes to stdout. `ShownPolicy` prints everything that a policy is sent, for
`--show-what-is-sent`.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfw import Generation, Policy, Request
from agentfw.printing.out import Out

from .deciding.answers import Answer, NotUnderstood, Question, understood
from .deciding.precedents import ALWAYS, SERIES
from .ics.ics_events import printable, tidy
from .ics.occurrences import Occurrence
from .language.texts import Said, Texts
from .language.wording import described, weights_in_words

if TYPE_CHECKING:
    from .session import Session

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
        default = texts("prompt_default", letter=" ".join(question.proposed)) if question.proposed else ""
        if sum(each.one.of_series is not None for each in question.candidates) > 1:
            self.console.print(f"  {texts('clash_again')}", style="dim")
        name = {"away": "prompt_away", "usual": "prompt_usual"}.get(question.kind, "prompt")
        answers = texts("prompt_answers", default=default, letters=letters)
        if question.kind == "whose":
            answers = texts("whose_answers")
        words = texts("whose", title=question.candidates[0].title) if question.kind == "whose" else texts(name)
        prompt = f"  {words}  [dim]{answers}[/dim] "
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
        if question.kind == "whose":
            name = "you_go" if answer.keep else "somebody_goes"
            self.console.print(Text(f"  {texts(name, title=question.candidates[0].title)}\n", style="dim"))
            return
        if not answer.keep:
            stay = texts("all_stay" if answer.both else "all_stay_for_now")
            self.console.print(f"  {stay}{far}\n", style="dim")
            return
        titles = ", ".join(question.candidate(letter).title for letter in answer.keep)
        line = Text("  ").append(texts("kept", title=titles), style="green")
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
        texts, day = self.texts, sorted(each.one.start for each in question.candidates)[:2][-1].astimezone(self.home)
        number = texts("number", number=question.number, of=question.of)
        self.console.print(Text(f"{number}   {texts.date('day_and_year', day)}", style="bold"))
        table = Table.grid(padding=(0, 2))
        for column in range(4):
            table.add_column(no_wrap=column < 2)  # a letter and a time stay whole; other lines break between words
        usual = question.kind == "usual"
        for place, each in enumerate(question.candidates[1:] if usual else question.candidates):
            is_proposed = each.letter in question.proposed
            style = "bold green" if is_proposed else ""
            table.add_row(
                Text(f"  {'>' if is_proposed else ' '} {each.letter}", style=style),
                Text(span(each.one, self.home, day, texts), style="" if is_proposed else "dim"),
                Text(each.title, style=style),
                Text(
                    texts("page_instead", title=question.instead[place].title)
                    if usual
                    else described(each.tags, texts),
                    style="dim",
                ),
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
        if question.kind in ("away", "usual"):
            proposal = "away_proposed" if question.kind == "away" else "usual_proposed"
            some = len(question.candidates) - 1 - len(question.proposed.replace("A", ""))
            self.console.print(Text(f"  {texts(proposal, count=some)}", style="green"))
        elif question.proposed:
            reason = question.because(texts)
            proposed = Text("  ").append(texts("proposed", letter=question.proposed), style="green")
            self.console.print(proposed.append(f"{texts('colon')}{reason}" if reason else ""))
        elif not question.kind:
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


_PROBLEMS = 5
_BACK = ("to_google", "to_outlook", "to_apple")
_LABELS = ("label_learned", "label_no_time", "label_free", "label_undone", "label_written")
_GAP = 3


def _wrapped(text: str, indent: int, stream: TextIO) -> str:
    """A line that is broken between words on a terminal, and stays whole elsewhere."""
    if not stream.isatty():
        return text
    width = max(40, shutil.get_terminal_size().columns)
    return textwrap.fill(text, width, subsequent_indent=" " * indent, replace_whitespace=False, break_on_hyphens=False)


def introduce(session: Session, policy: str, out: Out) -> None:
    """Say what was found, before the first question, and who proposes if the person chose."""
    texts, record = session.texts, session.record()
    to_come = session.agenda.remaining(200)
    first, last = session.since.astimezone(session.home), session.until.astimezone(session.home) - timedelta(days=1)
    facts = [
        ", ".join(record["calendars"]),
        record["person"] if session.people.owner else texts("owner_unknown"),
        record["zone"],
        texts("from_to", first=texts.date("date", first), last=texts.date("date", last)),
    ]
    facts += [texts("policy", name=policy)] if policy else []
    out.note(_wrapped("   ".join(facts), 2, sys.stderr))
    counts = [texts("events", count=record["events"]), texts("dates_found", count=len(session.found))]
    out.note(", ".join([*counts, texts("conflicts", count=to_come) if to_come else texts("no_conflicts")]))
    if session.problems:
        out.note(texts("unusable", count=len(session.problems)))
        for problem in session.problems[:_PROBLEMS]:
            where = texts("line", number=problem.line) if problem.line else texts("everywhere")
            where = f"{problem.file}, {where}" if problem.file else where
            what = f'"{problem.what}": ' if problem.what else ""
            out.note(f"  {where}: {tidy(f'{what}{problem.why}')}")
        if len(session.problems) > _PROBLEMS:
            out.note(f"  {texts('all_in_json')}")
    out.note("")


def conclude(
    record: dict[str, Any], strategies: list[str], written: Sequence[Said | str], texts: Texts, out: Out
) -> None:
    """Say what came of the session."""
    conflicts = record["conflicts"]
    asked = [one for one in conflicts if not one["decided_before"]]
    if not conflicts:
        out.line(texts("nothing_decided" if record["stopped"] else "there_are_none"))
        return
    label = _Labels(texts)
    counts = {
        "as_proposed": sum(one["kept"] == one["proposed"] != "" for one in asked),
        "otherwise": sum(bool(one["kept"]) and one["kept"] != one["proposed"] for one in asked),
        "with_all_kept": sum(one["both"] for one in asked),
        "left_for_now": sum(not one["kept"] and not one["both"] for one in asked),
    }
    parts = [texts(name, count=count) for name, count in counts.items() if count]
    count = f"{texts('conflicts', count=len(asked))}{texts('colon')}{', '.join(parts)}"
    parts = [count if asked else texts("no_new_conflict")]
    if known := len(conflicts) - len(asked):
        parts.append(texts("as_before", count=known))
    said = f"{', '.join(parts)}   {texts('events_declined', count=record['declined'])}"
    out.line(_wrapped(said, 2, sys.stdout))
    if strategies:
        label.line("label_learned", weights_in_words(strategies, texts), out)
    show_other_times(record, texts, out)
    answered = {event["title"] for one in asked if one["kept"] or one["both"] for event in one["events"]}
    for title in record["undone"]:
        if title not in answered:
            label.line("label_undone", texts("kept_until_undone", title=title), out)
    if not written:
        out.line(texts("no_file"))
    else:
        label.line("label_written", ", ".join(map(texts.say, written)), out)
        label.line("", texts("undo_hint"), out)
        if any(isinstance(place, str) and Path(place).suffix == ".ics" for place in written):
            out.note(texts("bring_back"))
            for way in _BACK:
                out.note(_wrapped(f"  {texts(way)}", 4, sys.stderr))
    if record["stopped"]:
        out.note(texts("go_on"))


def show_other_times(record: dict[str, Any], texts: Texts, out: Out) -> None:
    """Say when what is declined could be instead."""
    label = _Labels(texts)
    for one in record["other_times"]:
        dates, what = len(one["dates"]), one["title"]
        what = texts("several_dates", title=what, count=dates) if dates > 1 else what
        if one["to"] is None:
            label.line("label_no_time", texts("no_time", title=what), out)
            continue
        organizer, free = one["organizer"], one["also_free"]
        name = "write_to_free" if organizer in free else "write_to"
        whom = [texts(name, organizer=organizer) if organizer else texts("yours_to_move")]
        if others := [address for address in free if address != organizer]:
            whom.append(texts("others_free", names=", ".join(others), count=len(others)))
        name = "free_series" if one["move"] else "free"
        when = datetime.fromisoformat(one["to"])
        label.line("label_free", texts(name, title=what, when=when, whom=texts("semicolon").join(whom)), out)
        for line in one["message"].splitlines():
            label.line("", line, out)


class _Labels:
    """Lines that begin with a word for what they are about, in a column."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.width = max(len(texts(name)) for name in _LABELS) + _GAP

    def line(self, name: str, text: str, out: Out) -> None:
        label = self.texts(name) if name else ""
        out.line(_wrapped(f"{label:{self.width}}{text}", self.width, sys.stdout))


class ShownPolicy(Policy):
    """Prints each tool, message and call once, and then asks the policy that it wraps."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.is_program = policy.is_program
        self._shown: set[str] = set()

    async def generate(self, request: Request) -> Generation:
        for action in request.actions:
            self._print("tool", f"{action.name}: {action.description}\n{_json(action.parameters)}")
        for message in request.messages:
            self._print(message.role, message.content)
            for call in message.calls:
                self._print(message.role, f"{call.name} {_json(call.arguments)}")
        return await self._policy.generate(request)

    async def close(self) -> None:
        await self._policy.close()

    def _print(self, role: str, text: str) -> None:
        if text and (line := f"sent {role}: {text}") not in self._shown:
            self._shown.add(line)
            for part in line.splitlines():
                click.echo(printable(part), err=True)


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), ensure_ascii=False)
