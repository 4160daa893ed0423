"""`agentfw run calendar --ics FILE`: a session with a person about their own calendar.

Questions and notes go to stderr; the result is the last thing printed, on stdout.

    agentfw run calendar --ics my.ics
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

from ....command_options import json_option

if TYPE_CHECKING:
    from agentfw.runs import Assembly

    from .answers import Person
    from .session import Session

__all__ = ["ics"]

_FILE = click.Path(path_type=Path, dir_okay=False)
_PROBLEMS = 5


@click.command("calendar")
@click.argument("environment", type=click.Choice(["calendar"]), default="calendar", metavar="[calendar]")
@click.option("--ics", "file", type=_FILE, required=True, help="Calendar file. It is read and never changed.")
@click.option("--output", type=_FILE, help="Output file. Default: NAME.decided.ics in the calendar's directory.")
@click.option(
    "--answers",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File of answers, one per line or as JSON; - for stdin.",
)
@click.option("--yes", is_flag=True, help="Accept every proposal.")
@click.option("--days", type=click.IntRange(1, 3660), default=28, show_default=True, help="Number of days.")
@click.option("--from", "since", type=click.DateTime(["%Y-%m-%d"]), help="First day. Default: today.")
@click.option("--policy", metavar="NAME", help="Policy that makes the proposals.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Setting, such as policy.prior=flat.")
@click.option("--me", metavar="ADDRESS", default="", help="Your mail address, if the calendar doesn't name it.")
@click.option("--zone", metavar="NAME", default="", help="Your time zone, if the calendar doesn't name it.")
@click.option("--people", type=_FILE, help='TOML file of relations, with lines such as "acme.example" = "client".')
@click.option("--hub", type=_FILE, help="File that keeps what is learned about you.")
@click.option("--anew", is_flag=True, help="Ask again about conflicts that were decided before.")
@click.option("--quiet", is_flag=True, help="Print only the questions and the result.")
@json_option
def ics(
    environment: str,
    file: Path,
    output: Path | None,
    answers: Path | None,
    yes: bool,
    days: int,
    since: datetime | None,
    policy: str | None,
    assignments: tuple[str, ...],
    me: str,
    zone: str,
    people: Path | None,
    hub: Path | None,
    anew: bool,
    quiet: bool,
    out: Out,
) -> None:
    """Decide the conflicts of your own calendar.

    Each conflict is shown with a proposal and a reason, and you choose what to keep. The policy learns from your
    answers. Declined events are marked in a new file; nothing else is changed and nothing is deleted.
    """
    out.quiet = quiet or out.json
    from .people import read_people
    from .person_file import PersonFile, data_file
    from .session import Session, Wishes, output_path

    first: date | None = since.date() if since is not None else None
    assembly = _assembled(policy, assignments)
    session = Session.open(Wishes(file, days, first, me, zone, read_people(people)))
    target = output_path(file, output)
    asked = _person(answers, yes, session)
    _introduce(session, assembly, out)
    with PersonFile(hub or data_file(), session.person) as known:
        sampling, window = assembly.spec.sampling.sampling(assembly.spec.seed), assembly.spec.window
        try:
            asyncio.run(session.play(assembly.policy, asked, known, sampling=sampling, window=window, anew=anew))
        except KeyboardInterrupt:
            answered = sum(not outcome.known and outcome.kept is not None for outcome in session.outcomes)
            Out().note(f"\ninterrupted; {answered} answers are kept: run the same command again to go on")
            raise click.exceptions.Exit(130) from None
        strategies = list(known.hub.list())
        kept_in = known.path
    record = session.record()
    written = target if record["declined"] else None
    if written is not None:
        session.write(written)
    if out.json:
        extra = {"policy": assembly.spec.policy.name, "strategies": strategies, "hub": str(kept_in)}
        out.data({**record, **extra, "output": str(written) if written else None})
    else:
        _conclude(record, strategies, written, out)


def _assembled(policy: str | None, assignments: tuple[str, ...]) -> Assembly:
    """Assemble the policy as a run of the shipped spec does."""
    from agentfw import Host, HostOptions, find_project, parse_assignments
    from agentfw.runs import apply_assignments, assemble, parse_spec, read_spec, resolve

    host = Host.load(HostOptions.from_environment(project=find_project()))
    values = read_spec(Path(host.find_spec("calendar").path))
    if policy is not None:
        values["policy"] = policy
    values = apply_assignments(values, parse_assignments(assignments))
    spec, _ = resolve(parse_spec(values, "spec"), host)
    # A person's own calendar has no rewards.
    return assemble(spec.model_copy(update={"rewards": (), "trackers": (), "tools": (), "memories": ()}), host)


def _person(answers: Path | None, yes: bool, session: Session) -> Person:
    """Who answers."""
    from .answers import AnswersGiven, Nobody, TakesProposals

    if answers is not None and yes:
        raise UsageError("--answers and --yes can't be combined", fix="pass either --answers or --yes, not both")
    if yes:
        return TakesProposals()
    if answers is not None:
        if str(answers) == "-":
            return AnswersGiven(sys.stdin.read(), "stdin")
        try:
            return AnswersGiven(answers.read_text("utf-8"), str(answers))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"can't read {answers}: {error}", fix="pass a text file in UTF-8") from None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return Nobody()
    from .terminal import Terminal

    return Terminal(session.home)


def _introduce(session: Session, assembly: Assembly, out: Out) -> None:
    """Say what was found, before the first question."""
    from .ics_events import tidy

    record = session.record()
    to_come = session.agenda.remaining(200)
    who = record["person"] if session.people.owner else "owner unknown (--me says)"
    facts = [
        record["file"],
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
            what = f'"{problem.what}": ' if problem.what else ""
            out.note(f"  {where}: {tidy(f'{what}{problem.why}')}")
        if len(session.problems) > _PROBLEMS:
            out.note("  ... (--json lists all)")
    out.note("")


def _conclude(record: dict[str, Any], strategies: list[str], written: Path | None, out: Out) -> None:
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
    if written is None:
        out.line("no file is written: nothing is declined")
    else:
        out.line(f"written   {written}   ({record['file']} is unchanged)")
    if record["stopped"]:
        out.note("there is more: run the same command again to go on")
