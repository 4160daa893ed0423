"""`agentfw calendar`: decide the conflicts of your own calendar, look at what was learned, and take decisions back.

    agentfw calendar decide my.ics
    agentfw calendar list my.ics
    agentfw calendar me
    agentfw calendar undo

This module is imported for `agentfw calendar --help`, so each command imports what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option

from .language.texts import Texts
from .session_command import Asked, Command, answers_option, ask, deciding, language_option, of_calendars, reading

if TYPE_CHECKING:
    from .deciding.person_file import Noted, PersonFile

_BEHIND = 3
"""Number of decisions shown behind a sentence."""
_calendars = click.argument("calendars", nargs=-1, required=True, metavar="FILE|URL...")


def _of_a_person(command: Command) -> Command:
    """Add the options of commands that read no calendar."""
    hub = click.option(
        "--hub", type=click.Path(path_type=Path, dir_okay=False), help="File that keeps what is learned."
    )
    me = click.option("--me", metavar="ADDRESS", default="", help="Whose decisions, if several people use the file.")
    return me(hub(language_option(json_option(command))))


@click.group()
def calendar() -> None:
    """Decide the conflicts of your own calendar."""


@calendar.command()
@_calendars
@deciding
@reading
def decide(calendars: tuple[str, ...], **options: Any) -> None:
    """Answer what to keep where events overlap.

    A calendar is a file or the address of a published one, which are never changed, or caldavs://USER@... of a server,
    where declined events are marked. Several calendars are one agenda.
    """
    ask(Asked(calendars, **options))


@calendar.command("list")
@_calendars
@reading
def list_conflicts(calendars: tuple[str, ...], **options: Any) -> None:
    """Show conflicts and proposals; ask and change nothing."""
    ask(Asked(calendars, **options, only_list=True))


@calendar.command()
@click.argument("title", required=False)
@click.option(
    "--on", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Day of the event, if several have this title."
)
@click.option("--all", "everything", is_flag=True, help="Take back everything that was ever decided.")
@click.option("--list", "only_list", is_flag=True, help="Show what can be undone, and change nothing.")
@_of_a_person
def undo(
    title: str | None,
    on: datetime | None,
    everything: bool,
    only_list: bool,
    me: str,
    hub: Path | None,
    language: str,
    out: Out,
) -> None:
    """Take back decisions: of the last session, or one by its TITLE.

    Declined events lose their marks, in the new file or on the server. What others changed in them stays. The
    conflicts are asked about again, and what was learned from the decisions is forgotten.
    """
    from . import marking

    if title is not None and everything:
        raise UsageError("TITLE and --all can't be combined", fix="pass one of them")
    with _known(hub, me, read_only=only_list) as known:
        texts = _texts(language, known)
        if only_list:
            _show_marks(known, texts, out)
            return
        if title is not None:
            choice = marking.named_event(known, title, on.date() if on is not None else None)
        else:
            choice = marking.everything(known) if everything else marking.last_session(known)
        undone = marking.undo(known, choice)
    if out.json:
        out.data(
            {
                "restored": [_plain(noted) for noted in undone.restored],
                "gone": [_plain(noted) for noted in undone.gone],
                "failed": [_plain(noted) for noted in undone.failed],
                "decisions": len(undone.decisions),
            }
        )
        return
    became = {"label_restored": undone.restored, "label_gone": undone.gone, "label_failed": undone.failed}
    width = max(len(texts(label)) for label in became)
    for label, some in became.items():
        for noted in some:
            out.line(f"{texts(label):{width}}  {_shown(noted, texts)}")
    if undone.gone:
        out.note(texts("gone"))
    if undone.failed:
        out.note(texts("failed"))
    count = len(undone.decisions)
    if count:
        out.line(texts("decisions_taken_back", count=count))
    else:  # one date of a series
        out.line(texts("others_stay" if undone.restored else "no_decision"))


@calendar.command()
@_calendars
@click.option("--weeks", type=click.IntRange(1, 52), default=2, show_default=True, help="Number of weeks to plan.")
@answers_option
@click.option("--yes", is_flag=True, help="Agree to what is shown.")
@click.option("--history", is_flag=True, help="Show what was changed in the last month, the latest first.")
@click.option("--undo", "back", type=click.IntRange(1), default=None, metavar="NUMBER", help="Take this change back.")
@of_calendars
def blocks(
    calendars: tuple[str, ...],
    weeks: int,
    answers: Path | None,
    yes: bool,
    history: bool,
    back: int | None,
    **options: Any,
) -> None:
    """Place time for yourself, and move it when something comes up.

    The blocks are in the file for --people: focus time, a habit several times a week, a task until a day. They get
    their place in free time of the first calendar: in NAME.blocks.ics beside a file, or on the server.
    """
    from .blocks.blocks_command import Asking, plan
    from .session_command import text_of

    if (yes and answers is not None) or (history and (yes or answers is not None or back is not None)):
        raise UsageError("--history, --answers and --yes can't be combined", fix="pass one of them")
    asking = Asking(None if answers is None else text_of(answers)[0].splitlines(), yes=yes)
    plan(Asked(calendars, **options), weeks, asking, history=history, back=back or 0)


@calendar.command()
@_calendars
@click.option("--port", default=8767, show_default=True, help="Port to listen on; 0 for any free one.")
@reading
def serve(calendars: tuple[str, ...], port: int, **options: Any) -> None:
    """Show the week, its clashes and the proposals as a page.

    Nothing is written to a calendar until you say so on the page. Only this machine can reach it.
    """
    import asyncio

    from .deciding.person_file import PersonFile, data_file
    from .page import Planner, serve_page
    from .session_command import assembled, opened, proposing

    asked = Asked(calendars, **options)
    session = opened(asked)
    texts = session.texts
    planner = Planner(
        lambda: opened(asked),
        lambda: PersonFile(asked.hub or data_file(), session.person),
        lambda: proposing(assembled(asked.policy, asked.assignments), asked),
    )
    with planner.reading():  # a file that can't be used is told before the page is
        told = texts("stop_hint")
    try:
        asyncio.run(serve_page(planner, port, lambda address: asked.out.words(f"{address}   {told}\n")))
    except KeyboardInterrupt:
        asked.out.note(texts("stopped"))


@calendar.command()
@click.option("--pin", type=int, metavar="NUMBER", help="This sentence holds, whatever you decided.")
@click.option(
    "--correct", type=int, metavar="NUMBER", help="The opposite holds. Learn no more from the decisions behind it."
)
@click.option("--forget", type=int, metavar="NUMBER", help="Learn no more from the decisions behind this sentence.")
@_of_a_person
def me(
    pin: int | None, correct: int | None, forget: int | None, me: str, hub: Path | None, language: str, out: Out
) -> None:
    """Show what is known of you, and the decisions behind each sentence."""
    from .deciding.knowledge import Preference

    asked = {"pin": pin, "correct": correct, "forget": forget}
    given = [(name, number) for name, number in asked.items() if number is not None]
    if len(given) > 1:
        raise UsageError("--pin, --correct and --forget can't be combined", fix="pass one of them")
    with _known(hub, me, read_only=not given) as known:
        for name, number in given:
            found = known.statements()
            if not 1 <= number <= len(found):
                raise UsageError(f"there is no sentence {number}", fix="agentfw calendar me shows their numbers")
            statement = found[number - 1]
            preference = statement.preference
            if name != "pin":
                known.forget(statement)
            if name != "forget":
                known.pin(Preference(preference.second, preference.first) if name == "correct" else preference)
        _show_knowledge(known, _texts(language, known), out)


def _show_knowledge(known: PersonFile, texts: Texts, out: Out) -> None:
    weeks = _acceptance(known)
    found = known.statements()
    if out.json:
        sentences = [
            {
                "number": number,
                "sentence": one.said(Texts.of()),
                "first": one.preference.first,
                "second": one.preference.second,
                "agreeing": one.agreeing,
                "pinned": one.pinned,
                "decisions": [
                    _decision(decision, Texts.of(), _day(decision) or "earlier") for decision in one.decisions
                ],
            }
            for number, one in enumerate(found, start=1)
        ]
        out.data({"person": known.person, "sentences": sentences, "weeks": weeks})
        return
    out.line(f"{known.person}   {texts('decisions', count=len(known.choices))}")
    for number, one in enumerate(found, start=1):
        out.line(f"{number:3}  {one.said(texts)}")
        for decision in one.decisions[-_BEHIND:]:
            day = _day(decision)
            on = texts.date("date", datetime.fromisoformat(day)) if day else texts("earlier")
            out.line(f"       {_decision(decision, texts, on)}")
        if len(one.decisions) > _BEHIND:
            out.line(f"       {texts('more_before', count=len(one.decisions) - _BEHIND)}")
    if found:
        out.note(texts("change_hint"))
    else:
        out.line(texts("nothing_clear"))
    if weeks:
        out.line(texts("accepted"))
        names = [_week(week["week"], texts) for week in weeks]
        for name, week in zip(names, weeks, strict=True):
            count = texts("so_many", count=week["accepted"], all=week["proposed"])
            out.line(f"     {name:{max(map(len, names))}}   {count}")


def _decision(decision: Mapping[str, Any], texts: Texts, day: str) -> str:
    kept = [event["title"] for event in decision["events"] if event["letter"] == decision["accepted"]]
    others = [event["title"] for event in decision["events"] if event["letter"] != decision["accepted"]]
    why = f" {texts('quoted', text=decision['why'])}" if decision.get("why") else ""
    return f"{texts('decision', day=day, kept=kept[0], others=texts('semicolon').join(others))}{why}"


def _day(decision: Mapping[str, Any]) -> str:
    """The day of what was decided about; empty if it isn't known."""
    from .deciding.person_file import local_day

    seen = decision.get("seen", {}).values()
    return min((local_day(one["start"]).isoformat() for one in seen), default="")


def _acceptance(known: PersonFile) -> list[dict[str, Any]]:
    """How many proposals were accepted, by week."""
    weeks: dict[str, list[bool]] = {}
    for decision in known.choices:
        if decision["proposed"]:
            week = f"{datetime.fromisoformat(decision['at']):%G-W%V}" if "at" in decision else "earlier"
            weeks.setdefault(week, []).append(decision["proposed"] == decision["accepted"])
    return [{"week": week, "accepted": sum(some), "proposed": len(some)} for week, some in weeks.items()]


def _week(name: str, texts: Texts) -> str:
    """A week by its Monday."""
    if name == "earlier":
        return texts("earlier")
    return texts("week_of", date=texts.date("date", datetime.strptime(f"{name}-1", "%G-W%V-%u")))


def _show_marks(known: PersonFile, texts: Texts, out: Out) -> None:
    marks = known.written.marks
    if out.json:
        out.data([_plain(noted) for noted in marks])
        return
    for noted in marks:
        decided = texts.date("date", datetime.fromisoformat(noted.at))
        out.line(f"{_shown(noted, texts)}   {texts('decided_on', date=decided)}")
    if not marks:
        out.line(texts("nothing_declined"))


def _plain(noted: Noted) -> dict[str, str]:
    return {"title": noted.title, "start": noted.start, "calendar": noted.source, "decided": noted.at}


def _shown(noted: Noted, texts: Texts) -> str:
    return f"{texts.date('day_and_year', datetime.fromisoformat(noted.start).astimezone())}   {noted.title}"


def _texts(language: str, known: PersonFile) -> Texts:
    """In the language that was chosen, or that of the titles that were decided about."""
    from .language.words import most_spoken

    return Texts.of(language or most_spoken(reversed(known.titles)))


@contextmanager
def _known(hub: Path | None, me: str, *, read_only: bool) -> Iterator[PersonFile]:
    """What is known of the person: the one that is named, or the only one there is."""
    from .deciding.person_file import PersonFile, data_file, people_of

    path = hub or data_file()
    people = people_of(path)
    if not people:
        raise UsageError(f"nothing was decided yet in {path}", fix="agentfw calendar decide FILE, or pass --hub FILE")
    if (me and me not in people) or (not me and len(people) > 1):
        raise UsageError(
            f"{path} knows {', '.join(people)}" + (f', not "{me}"' if me else ""), fix=f"pass --me {people[0]}"
        )
    with PersonFile(path, me or people[0], read_only=read_only) as known:
        yield known
