"""What a session says at its beginning and at its end: what was found, what came of it, and what to do next."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agentfw.printing.out import Out

from .ics_events import tidy
from .texts import Said, Texts
from .wording import weights_in_words

if TYPE_CHECKING:
    from .session import Session

__all__ = ["conclude", "introduce", "show_other_times"]

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
