"""`agentfw run calendar --ics FILE`: a session with a person about their own calendar.

Questions and notes go to stderr; the result is the last thing printed, on stdout.

    agentfw run calendar --ics my.ics
    agentfw run calendar --ics my.ics --ics work.ics --list
    agentfw run calendar --ics my.ics --answers answers.txt --json
    agentfw run calendar --ics my.ics --policy openai --set policy.base_url=http://localhost:8000/v1

This module is imported for the command's `--help`, so functions import what they need.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import UsageError
from agentfw.out import Out

from ..command_options import json_option

if TYPE_CHECKING:
    from agentfw.runs import Assembly

    from .answers import Person
    from .session import Session
    from .sources import Source

__all__ = ["ics"]

_FILE = click.Path(path_type=Path, dir_okay=False)
_PROBLEMS = 5
_OTHER_WORLD = ("tiny", "teacher")
"""Policies that know the events of generated organisations only, and write what they assume of those into the hub."""
_BACK = (
    "to Google Calendar: Settings, Import & export, Import; choose the calendar that it came from",
    "to Outlook: File, Open & Export, Import/Export, Import an iCalendar (.ics) file, Import",
    "to Apple Calendar: File, Import; choose the calendar that it came from",
)


@click.command("calendar")
@click.argument("environment", type=click.Choice(["calendar"]), default="calendar", metavar="[calendar]")
@click.option(
    "--ics",
    "calendars",
    multiple=True,
    required=True,
    metavar="FILE|URL",
    help="Calendar: a file or the address of a published one, which are never changed, or caldavs://USER@... of a "
    "server, where declined events are marked. Can be repeated.",
)
@click.option("--output", type=_FILE, help="Output file. Default: NAME.decided.ics in the calendar's directory.")
@click.option(
    "--list", "only_list", is_flag=True, help="Show conflicts and proposals on stdout; ask and change nothing."
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File of answers, one per line or as JSON; - for stdin.",
)
@click.option("--yes", is_flag=True, help="Accept every proposal. Nothing is learned from it.")
@click.option("--days", type=click.IntRange(1, 3660), default=28, show_default=True, help="Number of days.")
@click.option("--from", "since", type=click.DateTime(["%Y-%m-%d"]), help="First day. Default: today.")
@click.option("--policy", metavar="NAME", help="Policy that makes the proposals.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Setting, such as policy.prior=flat.")
@click.option("--me", metavar="ADDRESS", default="", help="Your mail address, if the calendar doesn't name it.")
@click.option("--zone", metavar="NAME", default="", help="Your time zone, if the calendar doesn't name it.")
@click.option(
    "--people",
    type=_FILE,
    help='TOML file about you and others, with lines such as "acme.example" = "client", and under [me] '
    'travel = 30 and country = "DE".',
)
@click.option(
    "--busy",
    "busy",
    multiple=True,
    metavar="ADDRESS=FILE|URL",
    help="When somebody else is busy: their calendar or free/busy file, or caldavs://USER@.... Other times are "
    "proposed when they are free, too. Can be repeated.",
)
@click.option("--hub", type=_FILE, help="File that keeps what is learned about you.")
@click.option("--hours", metavar="HH:MM-HH:MM", default="09:00-17:00", show_default=True, help="Your working hours.")
@click.option("--anew", is_flag=True, help="Ask again about conflicts that were decided before.")
@click.option("--show-what-is-sent", is_flag=True, help="Print everything that the policy is sent, on stderr.")
@click.option("--quiet", is_flag=True, help="Print only the questions and the result.")
@json_option
def ics(
    environment: str,
    calendars: tuple[str, ...],
    output: Path | None,
    only_list: bool,
    answers: Path | None,
    yes: bool,
    days: int,
    since: datetime | None,
    policy: str | None,
    assignments: tuple[str, ...],
    me: str,
    zone: str,
    people: Path | None,
    busy: tuple[str, ...],
    hub: Path | None,
    hours: str,
    anew: bool,
    show_what_is_sent: bool,
    quiet: bool,
    out: Out,
) -> None:
    """Decide the conflicts of your own calendar.

    Each conflict is shown with a proposal and a reason, and you choose what to keep. The policy learns from your
    answers. Declined events are marked in a new file; nothing else is changed and nothing is deleted. Without a
    terminal, --json without --answers or --yes is a --list.
    """
    out.quiet = quiet or out.json
    from .free_times import Hours
    from .people import read_people
    from .person_file import PersonFile, data_file
    from .session import Session, Wishes
    from .shown_policy import ShownPolicy

    if output is not None and len(calendars) > 1:
        raise UsageError("--output is one file, and there are several calendars", fix="leave out --output")
    first: date | None = since.date() if since is not None else None
    assembly = _assembled(policy, assignments)
    sources = [_source(given, output) for given in calendars]
    wishes = Wishes(days, first, me, zone, read_people(people), Hours.parse(hours), _busy(busy))
    session = Session.open(sources, wishes)
    only_list = only_list or (out.json and not (answers or yes or _at_terminal()))
    asked = _person(answers, yes, only_list, out.json, session)
    _introduce(session, assembly, out)
    with PersonFile(hub or data_file(), session.person, read_only=only_list) as known:
        sampling, window = assembly.spec.sampling.sampling(assembly.spec.seed), assembly.spec.window
        deciding = ShownPolicy(assembly.policy) if show_what_is_sent else assembly.policy
        try:
            asyncio.run(session.play(deciding, asked, known, sampling=sampling, window=window, anew=anew))
        except KeyboardInterrupt:
            answered = sum(not outcome.known and outcome.kept is not None for outcome in session.outcomes)
            Out().note(f"\ninterrupted; {answered} answers are kept: run the same command again to go on")
            raise click.exceptions.Exit(130) from None
        strategies = list(known.hub.list())
        kept_in = known.path
    record = session.record()
    written = [] if only_list else session.write()
    if out.json:
        extra = {"policy": assembly.spec.policy.name, "strategies": strategies, "hub": str(kept_in)}
        out.data({**record, **extra, "listed": only_list, "outputs": written})
    elif only_list:
        _show_other_times(record, out)
    else:
        _conclude(record, strategies, written, out)
        if written and not all(source.in_place for source in sources):
            for way in _BACK:
                out.note(f"  {way}")


def _source(given: str, output: Path | None) -> Source:
    """The calendar that a person names by a path or an address."""
    from .caldav_source import CalDavSource
    from .sources import AddressSource, FileSource

    scheme = given.partition("://")[0].lower() if "://" in given else ""
    if scheme in ("caldav", "caldavs"):
        if output is not None:
            raise UsageError("a CalDAV calendar is changed on its server", fix="leave out --output")
        return CalDavSource(given)
    if scheme in ("http", "https", "webcal"):
        return AddressSource(given, output)
    return FileSource(Path(given), output)


def _busy(given: tuple[str, ...]) -> dict[str, Source]:
    """Where it is said when others are busy, by address."""
    from .caldav_source import CalDavBusy
    from .ics_events import address_of

    found: dict[str, Source] = {}
    for one in given:
        address, _, where = one.partition("=")
        if "@" not in address or not where:
            raise UsageError(f'"{one}" says not whose calendar it is', fix="pass --busy bob@lab.example=bob.ics")
        is_server = where.lower().startswith(("caldav://", "caldavs://"))
        found[address_of(address)] = CalDavBusy(where) if is_server else _source(where, None)
    return found


def _assembled(policy: str | None, assignments: tuple[str, ...]) -> Assembly:
    """Assemble the policy as a run of the shipped spec does."""
    if policy in _OTHER_WORLD:
        raise UsageError(
            f'the policy "{policy}" knows generated organisations only and can\'t decide about your calendar',
            fix="leave out --policy, or use a language model with --policy openai",
        )
    from agentfw import Host
    from agentfw.host import HostOptions, find_project
    from agentfw.runs import apply_assignments, assemble, parse_spec, read_spec, resolve
    from agentfw.settings import parse_assignments

    host = Host.load(HostOptions.from_environment(project=find_project()))
    values = read_spec(Path(host.find_spec("calendar").path))
    if policy is not None:
        values["policy"] = policy
    values = apply_assignments(values, parse_assignments(assignments))
    spec, _ = resolve(parse_spec(values, "spec"), host)
    # A person's own calendar has no rewards.
    return assemble(spec.model_copy(update={"rewards": (), "trackers": (), "tools": (), "memories": ()}), host)


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _person(answers: Path | None, yes: bool, only_list: bool, silent: bool, session: Session) -> Person:
    """Who answers."""
    from .answers import AnswersGiven, Nobody, TakesProposals
    from .terminal import Lister, Terminal

    if (answers is not None) + yes + only_list > 1:
        raise UsageError("--answers, --yes and --list can't be combined", fix="pass one of them")
    if only_list:
        return Lister(session.home, silent=silent)
    if yes:
        return TakesProposals()
    if answers is not None:
        if str(answers) == "-":
            return AnswersGiven(sys.stdin.read(), "stdin")
        try:
            return AnswersGiven(answers.read_text("utf-8"), str(answers))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"can't read {answers}: {error}", fix="pass a text file in UTF-8") from None
    if not _at_terminal():
        return Nobody()
    return Terminal(session.home)


def _introduce(session: Session, assembly: Assembly, out: Out) -> None:
    """Say what was found, before the first question."""
    from .ics_events import tidy

    record = session.record()
    to_come = session.agenda.remaining(200)
    who = record["person"] if session.people.owner else "owner unknown (--me says)"
    facts = [
        ", ".join(record["calendars"]),
        who,
        record["zone"],
        f"{record['from']} to {record['until']}",
        f"policy {assembly.spec.policy.name}",
    ]
    out.note("   ".join(facts))
    count = f"{record['events']:,} events, {len(session.found):,} dates in these days"
    conflicts = f"{to_come} conflict{'s' if to_come != 1 else ''}" if to_come else "no conflicts"
    out.note(f"{count}, {conflicts}")
    if session.problems:
        out.note(f"{len(session.problems)} of what is in the file can't be used, and stays as it is:")
        for problem in session.problems[:_PROBLEMS]:
            where = f"line {problem.line}" if problem.line else "everywhere"
            where = f"{problem.file}, {where}" if problem.file else where
            what = f'"{problem.what}": ' if problem.what else ""
            out.note(f"  {where}: {tidy(f'{what}{problem.why}')}")
        if len(session.problems) > _PROBLEMS:
            out.note("  ... (--json lists all)")
    out.note("")


def _conclude(record: dict[str, Any], strategies: list[str], written: list[str], out: Out) -> None:
    """Say what came of the session."""
    conflicts = record["conflicts"]
    asked = [one for one in conflicts if not one["decided_before"]]
    if not conflicts:
        out.line("there are no conflicts" if not record["stopped"] else "nothing was decided")
        return
    proposed = sum(one["kept"] == one["proposed"] != "" for one in asked)
    count = f"{len(asked)} conflict{'s' if len(asked) != 1 else ''}"
    parts = [f"{count}: {proposed} as proposed" if asked else "no new conflict"]
    if otherwise := sum(bool(one["kept"]) and one["kept"] != one["proposed"] for one in asked):
        parts.append(f"{otherwise} otherwise")
    if left := sum(not one["kept"] for one in asked):
        parts.append(f"{left} left")
    if known := len(conflicts) - len(asked):
        parts.append(f"{known} more as you decided before")
    out.line(f"{', '.join(parts)}   {record['declined']} event{'s' if record['declined'] != 1 else ''} declined")
    if strategies:
        out.line(f"learned   {', '.join(strategies)}")
    _show_other_times(record, out)
    for title in record["undone"]:
        out.line(f"undone    {title} was kept, and is asked about again")
    if not written:
        out.line("no file is written: nothing is declined")
    else:
        out.line(f"written   {', '.join(written)}")
    if record["stopped"]:
        out.note("there is more: run the same command again to go on")


def _show_other_times(record: dict[str, Any], out: Out) -> None:
    """Say when what is declined could be instead."""
    for one in record["other_times"]:
        if one["to"] is None:
            out.line(f"no time   {one['title']}: nothing is free in these days")
            continue
        to = datetime.fromisoformat(one["to"])
        organizer, free = one["organizer"], one["also_free"]
        whom = f"write to {organizer}" if organizer else "yours to move"
        if organizer in free:
            whom += ", who is free then"
        if others := [address for address in free if address != organizer]:
            whom += f"; {' and '.join(others)} free then"
        out.line(f"free      {one['title']}: {to:%a} {to.day} {to:%B}, {to:%H:%M}   ({whom})")
        for line in one["message"].splitlines():
            out.line(f"          {line}")
